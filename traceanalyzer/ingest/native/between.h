/* What stands between two values of an event: the end of one, a key, and blanks. Recorders write the same over and over,
 * so it is read sign by sign once, and compared as a whole from then on.
 *
 * Invariants:
 *   - Only what was read, and is no longer than BETWEEN_BYTES, is kept; so what is equal to it needs no reading.
 *   - `following` is what came next before, or NULL. What is kept stays until the next chunk, so that nothing that begins
 *     with a comma can follow `start`.
 */

enum { BETWEEN_BYTES = 64, BETWEEN_COUNT = 128, BETWEEN_TRIES = 8, CLOSES = -1 };

struct between {
    byte text[BETWEEN_BYTES];
    byte written[BETWEEN_BYTES]; /* without the blanks */
    uint64_t bits;               /* one for each byte of the text */
    int size, written_size;
    int meaning; /* which key, or CLOSES */
    bool has_stack_key;
    struct between *following[2];
};

/* `start` stands for the beginning, `unknown` for what is not kept. */
struct betweens {
    struct between start, unknown, known[BETWEEN_COUNT];
};

static inline bool is_between(const byte *at, const struct between *known) {
#ifdef __SSE2__
    uint64_t equal = 0;
    for (int block = 0; block < BETWEEN_BYTES / BLOCK; block++)
        equal |= (uint64_t)equal_bytes(load_block(at + BLOCK * block), load_block(known->text + BLOCK * block)) << BLOCK * block;
    return (equal & known->bits) == known->bits;
#else
    return !memcmp(at, known->text, (size_t)known->size);
#endif
}

/* What stands at `at`, if it came next before; NULL where it has to be read. */
static inline struct between *known_between(const struct between *last, const byte *at, const byte *end) {
    if (end - at < BETWEEN_BYTES) return NULL;
    for (int nth = 0; nth < 2; nth++) {
        struct between *known = last->following[nth];
        if (known != NULL && is_between(at, known)) return known;
    }
    return NULL;
}

/* Keeps what was read between two values, and returns it. */
static struct between *keep_between(struct betweens *kept, struct between *last, const byte *start, const byte *stop,
                                    struct slice written, int meaning, bool has_stack_key) {
    int64_t size = stop - start;
    if (size <= 0 || size > BETWEEN_BYTES) return &kept->unknown;
    uint64_t place = hash_of(start, size);
    struct between *known = NULL;
    for (int tries = 0; known == NULL; tries++) {
        struct between *one = &kept->known[(place + (uint64_t)tries) % BETWEEN_COUNT];
        if (tries == BETWEEN_TRIES) return &kept->unknown;
        if (!one->size || (one->size == size && !memcmp(one->text, start, (size_t)size))) known = one;
    }
    if (!known->size) {
        memcpy(known->text, start, (size_t)size);
        memcpy(known->written, written.start, (size_t)written.size);
        known->bits = ~(uint64_t)0 >> (BETWEEN_BYTES - size);
        known->size = (int)size;
        known->written_size = (int)written.size;
        known->meaning = meaning;
        known->has_stack_key = has_stack_key;
    }
    if (last->following[0] != known) {
        last->following[1] = last->following[0];
        last->following[0] = known;
    }
    return known;
}
