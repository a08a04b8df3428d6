/* Scans the chunks of a file, each behind its length in four bytes, in memory of exactly its size; for sanitizers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scanner;
struct scanner *scanner_new(int count, const char *const *names, const int *classes, const int *categories);
int scanner_scan(struct scanner *scanner, const uint8_t *text, int64_t length, int look_for_stacks);
void scanner_free(struct scanner *scanner);

int main(int count, char **arguments) {
    static const char *const NAMES[] = {"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "overhead", "kernel", "gpu_memcpy", "cuda_sync", "gpu_user_annotation", "kernel_dispatch"};
    static const int CLASSES[] = {0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4}, CATEGORIES[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0};
    FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
    struct scanner *scanner = scanner_new(11, NAMES, CLASSES, CATEGORIES);
    uint32_t length;
    long scanned = 0, accepted = 0;
    if (file == NULL || scanner == NULL) return 2;
    for (; fread(&length, 4, 1, file) == 1; scanned++) {
        uint8_t *text = malloc(length);
        if ((text == NULL && length) || fread(text, 1, length, file) != length) return 2;
        accepted += scanner_scan(scanner, text, length, 1) != 0;
        free(text);
    }
    scanner_free(scanner);
    fclose(file);
    printf("%ld %ld\n", scanned, accepted);
    return 0;
}
