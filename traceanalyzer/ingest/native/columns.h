/* Columns of the native reader: rows are added at the end, texts are coded, and memory is kept from chunk to chunk.
 *
 * Invariants:
 *   - A table's columns have as many rows as the table; a row is begun by add_row, and each value of it is set once.
 *   - The bits of `valid` behind the last row are 0.
 *   - A list of texts has at most half as many texts as slots, so that looking for one ends.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t byte;

enum {
    MOST_CHUNK_BYTES = 1 << 30, /* offsets of texts have 32 bits */
    WORD = 8
};

struct slice {
    const byte *start;
    int64_t size; /* negative: there is none */
};

/* -- Columns ------------------------------------------------------------------------------------------------------ */

/* The distinct texts of a column: the text of code i lies at bytes[offsets[i]] up to bytes[offsets[i + 1]]. */
struct texts {
    byte *bytes;
    int32_t *offsets;
    uint64_t *hashes;
    int32_t *slots; /* open addressing: code + 1, or 0 */
    int64_t count, capacity, byte_capacity, slot_count;
    int32_t last; /* the code that was asked for last, or -1 */
};

/* One value a row, of `width` bytes: a number, or the code of a text. The bits of `valid` say which are there. */
struct column {
    byte *data, *valid;
    int width;
    struct texts *texts;
};

enum { MOST_COLUMNS = 38 };
struct table {
    int64_t row_count, capacity;
    int column_count;
    struct column columns[MOST_COLUMNS];
};

/* -- Memory ------------------------------------------------------------------------------------------------------- */

static bool grow(void *pointer, size_t size) {
    void **memory = pointer;
    void *larger = realloc(*memory, size);
    if (larger == NULL) return false;
    *memory = larger;
    return true;
}

static bool texts_grow(struct texts *texts, int64_t count, int64_t bytes) {
    if (count > texts->capacity) {
        int64_t capacity = texts->capacity ? 2 * texts->capacity : 64;
        if (!grow(&texts->offsets, (size_t)(capacity + 1) * sizeof(int32_t))) return false;
        if (!grow(&texts->hashes, (size_t)capacity * sizeof(uint64_t))) return false;
        if (!grow(&texts->slots, (size_t)capacity * 2 * sizeof(int32_t))) return false;
        texts->capacity = capacity;
        texts->slot_count = 2 * capacity;
        texts->offsets[0] = 0;
        memset(texts->slots, 0, (size_t)texts->slot_count * sizeof(int32_t));
        for (int64_t code = 0; code < texts->count; code++) {
            uint64_t slot = texts->hashes[code] & (uint64_t)(texts->slot_count - 1);
            while (texts->slots[slot]) slot = (slot + 1) & (uint64_t)(texts->slot_count - 1);
            texts->slots[slot] = (int32_t)(code + 1);
        }
    }
    if (bytes > texts->byte_capacity) {
        int64_t capacity = 2 * bytes + 1024;
        if (!grow(&texts->bytes, (size_t)capacity)) return false;
        texts->byte_capacity = capacity;
    }
    return true;
}

static void texts_clear(struct texts *texts) {
    if (texts->count) memset(texts->slots, 0, (size_t)texts->slot_count * sizeof(int32_t));
    texts->count = 0;
    texts->last = -1;
}

static bool table_grow(struct table *table) {
    int64_t capacity = table->capacity ? 2 * table->capacity : 256;
    for (int at = 0; at < table->column_count; at++) {
        struct column *column = &table->columns[at];
        if (!grow(&column->data, (size_t)(capacity * column->width))) return false;
        if (!grow(&column->valid, (size_t)(capacity / 8))) return false;
        memset(column->valid + table->capacity / 8, 0, (size_t)((capacity - table->capacity) / 8));
    }
    table->capacity = capacity;
    return true;
}

static void table_clear(struct table *table) {
    for (int at = 0; at < table->column_count; at++) {
        if (table->capacity) memset(table->columns[at].valid, 0, (size_t)((table->row_count + 7) / 8));
        if (table->columns[at].texts) texts_clear(table->columns[at].texts);
    }
    table->row_count = 0;
}

/* -- Values of a row: that of the table's last row, which add_row began with nothing in it -------------------------- */

static bool add_row(struct table *table) {
    if (table->row_count == table->capacity && !table_grow(table)) return false;
    table->row_count++;
    return true;
}

static void set_valid(struct table *table, int at) {
    uint64_t row = (uint64_t)table->row_count - 1;
    table->columns[at].valid[row / 8] |= (byte)(1 << (row % 8));
}

static void set_number(struct table *table, int at, int64_t number) {
    ((int64_t *)table->columns[at].data)[table->row_count - 1] = number;
    set_valid(table, at);
}

static void set_code(struct table *table, int at, int32_t code) {
    ((int32_t *)table->columns[at].data)[table->row_count - 1] = code;
    set_valid(table, at);
}

static void set_small(struct table *table, int at, int number) {
    ((int8_t *)table->columns[at].data)[table->row_count - 1] = (int8_t)number;
    set_valid(table, at);
}

/* A value of an absent row entry is never looked at; it is set so that no memory is read that nothing was written to. */
static void set_nothing(struct table *table, int at) {
    struct column *column = &table->columns[at];
    int64_t row = table->row_count - 1;
    if (column->width == 8) ((int64_t *)column->data)[row] = 0;
    else if (column->width == 4) ((int32_t *)column->data)[row] = 0;
    else column->data[row] = 0;
}

static void set_number_or_nothing(struct table *table, int at, bool known, int64_t number) {
    if (known) set_number(table, at, number);
    else set_nothing(table, at);
}

static void set_double_or_nothing(struct table *table, int at, bool known, double number) {
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    set_number_or_nothing(table, at, known, bits);
}

static uint64_t load_word(const byte *at) {
    uint64_t word;
    memcpy(&word, at, WORD);
    return word;
}

static uint64_t hash_of(const byte *start, int64_t size) {
    uint64_t hash = (uint64_t)size * 0x9E3779B97F4A7C15u, word;
    for (; size >= WORD; start += WORD, size -= WORD) {
        hash = (hash ^ load_word(start)) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, start, (size_t)size);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static bool texts_have(const struct texts *texts, int32_t code, struct slice text) {
    int32_t offset = texts->offsets[code];
    return texts->offsets[code + 1] - offset == text.size && !memcmp(texts->bytes + offset, text.start, (size_t)text.size);
}

static bool set_text(struct table *table, int at, struct slice text) {
    struct texts *texts = table->columns[at].texts;
    if (text.size < 0) {
        set_nothing(table, at);
        return true;
    }
    if (texts->last < 0 || !texts_have(texts, texts->last, text)) {
        int64_t used = texts->count ? texts->offsets[texts->count] : 0;
        if (used + text.size > MOST_CHUNK_BYTES || !texts_grow(texts, texts->count + 1, used + text.size + 1)) return false;
        uint64_t hash = hash_of(text.start, text.size), slot = hash & (uint64_t)(texts->slot_count - 1);
        int32_t found;
        while ((found = texts->slots[slot]) != 0) {
            if (texts->hashes[found - 1] == hash && texts_have(texts, found - 1, text)) break;
            slot = (slot + 1) & (uint64_t)(texts->slot_count - 1);
        }
        if (!found) {
            memcpy(texts->bytes + used, text.start, (size_t)text.size);
            texts->hashes[texts->count] = hash;
            texts->offsets[texts->count + 1] = (int32_t)(used + text.size);
            found = texts->slots[slot] = (int32_t)(++texts->count);
        }
        texts->last = found - 1;
    }
    set_code(table, at, texts->last);
    return true;
}
