/* Parts of the texts of PyTorch's ranges: the same as `in_plain_arrow` of ingest/nsys/torch_ranges.py, where the pattern stands.
 *
 * Invariants:
 *   - Every read lies in [text, end). Parsers return the new position, or NULL where the part is not there.
 *   - What is written out of a text is no longer than the text and SPARE_RANGE_BYTES.
 */
enum { SPARE_RANGE_BYTES = 64, MOST_DIGITS = 18 };

static const byte *after(const byte *at, const byte *end, const char *word) {
    size_t size = strlen(word);
    return at != NULL && (size_t)(end - at) >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static const byte *read_digits(const byte *at, const byte *end, int64_t *number) {
    const byte *start = at;
    int64_t read = 0;
    for (; at != NULL && at < end && at - start < MOST_DIGITS && *at >= '0' && *at <= '9'; at++) read = read * 10 + (*at - '0');
    if (at == NULL || at == start) return NULL;
    *number = read;
    return at;
}

/* Passes over digits, and the characters of `others`. */
static const byte *pass_numbers(const byte *at, const byte *end, const char *others) {
    while (at < end && *at && ((*at >= '0' && *at <= '9') || strchr(others, *at) != NULL)) at++;
    return at;
}

static const byte *read_sizes(const byte *at, const byte *end) {
    if ((at = after(at, end, "[")) == NULL) return NULL;
    while (at < end && *at == '[') {
        at = pass_numbers(at + 1, end, "-, ");
        if ((at = after(at, end, "]")) == NULL) return NULL;
        const byte *next = after(at, end, ", ");
        if (next != NULL) at = next;
    }
    return after(at, end, "]");
}

struct range_parts {
    int64_t sequence, op_id;
    struct slice sizes, inputs;
};

/* Reads what stands behind a name, up to the end. */
static bool read_parts(const byte *at, const byte *end, struct range_parts *parts) {
    *parts = (struct range_parts){-1, -1, {NULL, -1}, {NULL, -1}};
    const byte *next, *start;
    if ((next = read_digits(after(at, end, ", seq = "), end, &parts->sequence)) != NULL) at = next;
    if ((next = read_digits(after(at, end, ", op_id = "), end, &parts->op_id)) != NULL) at = next;
    if ((start = after(at, end, ", sizes = ")) != NULL && (next = read_sizes(start, end)) != NULL) {
        parts->sizes = (struct slice){start, next - start};
        at = next;
    }
    if ((start = after(at, end, ", input_op_ids = ")) != NULL && (next = after(start, end, "[")) != NULL) {
        next = after(pass_numbers(next, end, "-(), "), end, "]");
        if (next != NULL) {
            parts->inputs = (struct slice){start, next - start};
            at = next;
        }
    }
    return at == end;
}

static byte *put(byte *target, const void *text, int64_t size) {
    memcpy(target, text, (size_t)size);
    return target + size;
}

/* Takes apart the texts of an Arrow column that have such parts, and returns how many have; `parts` gets their rows,
 * sequences and op_ids, one after the other. Names, shapes and arguments follow each other in `texts`, each with its
 * first offset set; those that are not there are empty. */
int64_t ranges_take_apart(int64_t count, const int32_t *offsets, const byte *bytes, const byte *valid, int64_t first_bit,
                          int64_t *parts, byte *const *texts, int32_t *const *text_offsets) {
    int64_t found = 0;
    byte *name_end = texts[0], *shapes_end = texts[1], *args_end = texts[2];
    for (int64_t row = 0; row < count; row++) {
        if (valid != NULL && !(valid[(first_bit + row) >> 3] >> ((first_bit + row) & 7) & 1)) continue;
        const byte *start = bytes + offsets[row], *end = bytes + offsets[row + 1], *at = start;
        struct range_parts read;
        do {
            at = end - at > 1 ? memchr(at + 1, ',', (size_t)(end - at - 1)) : NULL;
        } while (at != NULL && !read_parts(at, end, &read));
        if (at == NULL || (read.sequence < 0 && read.op_id < 0 && read.sizes.size < 0)) continue;
        parts[found] = row;
        parts[count + found] = read.sequence;
        parts[2 * count + found] = read.op_id;
        name_end = put(name_end, start, at - start);
        if (read.sizes.size >= 0) {
            for (int64_t place = 0; place < read.sizes.size; place++)
                if (read.sizes.start[place] != ' ') *shapes_end++ = read.sizes.start[place];
            args_end = put(args_end, "{\"Input Dims\":", 14);
            args_end = put(args_end, read.sizes.start, read.sizes.size);
            if (read.inputs.size >= 0) {
                args_end = put(args_end, ",\"input_op_ids\":", 16);
                for (int64_t place = 0; place < read.inputs.size; place++) {
                    byte letter = read.inputs.start[place];
                    *args_end++ = letter == '(' ? '[' : letter == ')' ? ']' : letter;
                }
            }
            *args_end++ = '}';
        }
        found++;
        text_offsets[0][found] = (int32_t)(name_end - texts[0]);
        text_offsets[1][found] = (int32_t)(shapes_end - texts[1]);
        text_offsets[2][found] = (int32_t)(args_end - texts[2]);
    }
    return found;
}
