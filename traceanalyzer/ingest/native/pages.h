/* Rows of a table of an SQLite database, read from its pages to typed columns; SqliteSource of ingest/nsys says which
 * tables are read so. Where a page or a value is not as expected, the batch is refused, and SQLite reads from there on.
 *
 * Invariants:
 *   - Every read lies in a page in a block, or in the row in `payload`. A page is there until the next one of its level
 *     of the tree is read: so a block is read once, though a page of its parent is looked at after each of its pages.
 *   - A tree is at most MOST_TREE_LEVELS deep, and has no more pages than the file.
 *   - A column has as many values as rows were read, but for the row that is being read.
 */
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16, MOST_TREE_LEVELS = 20, FILE_HEADER_BYTES = 100, LEAF = 13, INTERIOR = 5, MOST_BYTES = INT32_MAX };
/* What is read of a field: pages.py has the same list. Reals may be stored as integers. */
enum { INTEGER_FIELD, REAL_FIELD, BYTES_FIELD, ROW_ID, NO_FIELD };

struct read_column {
    int64_t *values; /* or the bits of reals */
    byte *valid, *bytes;
    int32_t *offsets;
    int64_t null_count, size, capacity;
};

struct tree_step {
    int64_t page, cell;
};

struct read_block {
    int64_t start, size;
    byte *bytes;
};

struct pages {
    int file, field_count, depth;
    int64_t page_size, usable, page_count, visited, longest, payload_capacity;
    byte *payload;
    struct read_block blocks[MOST_TREE_LEVELS + 1]; /* one a level, and one for what goes on in overflow pages */
    int *kinds;
    struct read_column *columns; /* one a field */
    struct tree_step path[MOST_TREE_LEVELS];
};

static int64_t big_endian(const byte *at, int size) {
    uint64_t number = at[0] & 0x80 ? UINT64_MAX : 0;
    for (int place = 0; place < size; place++) number = number << 8 | at[place];
    return (int64_t)number;
}

static int64_t unsigned_16(const byte *at) { return at[0] << 8 | at[1]; }

static int64_t unsigned_32(const byte *at) { return (int64_t)((uint32_t)big_endian(at, 4)); }

/* Reads a number of one to nine bytes, and returns where it ends; NULL: beyond the end. */
static const byte *read_varint(const byte *at, const byte *end, int64_t *number) {
    uint64_t read = 0;
    for (int place = 0; at < end; place++, at++) {
        if (place == 8) {
            *number = (int64_t)(read << 8 | *at);
            return at + 1;
        }
        read = read << 7 | (*at & 0x7F);
        if (*at < 0x80) {
            *number = (int64_t)read;
            return at + 1;
        }
    }
    return NULL;
}

static const byte *page_of(struct pages *pages, int64_t number, int level) {
    if (number < 1 || number > pages->page_count) return NULL;
    struct read_block *block = pages->blocks + level;
    int64_t start = (number - 1) * pages->page_size;
    if (start < block->start || start + pages->page_size > block->start + block->size) {
        if (block->bytes == NULL && (block->bytes = malloc(BLOCK_BYTES)) == NULL) return NULL;
        block->start = start / BLOCK_BYTES * BLOCK_BYTES;
        block->size = 0;
        for (ssize_t size = 1; size > 0 && block->size < BLOCK_BYTES; block->size += size > 0 ? size : 0)
            size = pread(pages->file, block->bytes + block->size, (size_t)(BLOCK_BYTES - block->size),
                         block->start + block->size);
        if (start + pages->page_size > block->start + block->size) return NULL;
    }
    return block->bytes + (start - block->start);
}

/* Puts a row that goes on in overflow pages together. */
static const byte *whole_payload(struct pages *pages, const byte *page, const byte *at, int64_t size) {
    int64_t least = (pages->usable - 12) * 32 / 255 - 23, in_place = least + (size - least) % (pages->usable - 4);
    if (in_place > pages->usable - 35) in_place = least;
    if (at - page + in_place + 4 > pages->usable || size > pages->page_count * pages->page_size) return NULL;
    if (size > pages->payload_capacity) {
        if (!grow(&pages->payload, (size_t)size)) return NULL;
        pages->payload_capacity = size;
    }
    memcpy(pages->payload, at, (size_t)in_place);
    int64_t next = unsigned_32(at + in_place);
    for (int64_t done = in_place, part; done < size; done += part) {
        if ((page = page_of(pages, next, MOST_TREE_LEVELS)) == NULL) return NULL;
        next = unsigned_32(page);
        part = size - done < pages->usable - 4 ? size - done : pages->usable - 4;
        memcpy(pages->payload + done, page + 4, (size_t)part);
    }
    return pages->payload;
}

static bool add_bytes(struct read_column *column, const byte *at, int64_t size) {
    if (column->size + size > MOST_BYTES) return false;
    if (column->size + size > column->capacity) {
        int64_t capacity = 2 * (column->size + size) + 4096;
        if (!grow(&column->bytes, (size_t)capacity)) return false;
        column->capacity = capacity;
    }
    if (size) memcpy(column->bytes + column->size, at, (size_t)size);
    column->size += size;
    return true;
}

/* Sets the value of a row; false for a type of value that the field should not have. */
static bool set_value(struct pages *pages, int field, int64_t row, int64_t type, const byte *at, int64_t size) {
    struct read_column *column = pages->columns + field;
    int kind = pages->kinds[field];
    if (kind == BYTES_FIELD) {
        if (type && type < 12) return false;
        if (!add_bytes(column, at, size > pages->longest ? pages->longest : size)) return false;
        column->offsets[row + 1] = (int32_t)column->size;
        return true;
    }
    int64_t value = 0;
    if (type == 0) {
        column->null_count++;
    } else if (type <= 6 || type == 8 || type == 9) {
        value = type == 9 ? 1 : type == 8 ? 0 : big_endian(at, (int)size);
        if (kind == REAL_FIELD) {
            double real = (double)value;
            memcpy(&value, &real, sizeof value);
        }
    } else if (type == 7 && kind == REAL_FIELD) {
        value = big_endian(at, 8);
        if ((value & INT64_MAX) > 0x7FF0000000000000) return false; /* no number */
    } else {
        return false;
    }
    if (type) column->valid[row >> 3] |= (byte)(1 << (row & 7));
    column->values[row] = value;
    return true;
}

static bool read_row(struct pages *pages, const byte *page, int64_t place, int64_t row) {
    static const byte sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    const byte *at = page + place, *end = page + pages->usable;
    int64_t size, row_id, header, type;
    if ((at = read_varint(at, end, &size)) == NULL || (at = read_varint(at, end, &row_id)) == NULL || size < 1) return false;
    if (size > pages->usable - 35 ? (at = whole_payload(pages, page, at, size)) == NULL : size > end - at) return false;
    const byte *value = at, *row_end = at + size, *types;
    if ((types = read_varint(at, row_end, &header)) == NULL || header < types - at || header > size) return false;
    value = at + header;
    const byte *types_end = value;
    int field = 0;
    for (; types < types_end && field < pages->field_count; field++) {
        if ((types = read_varint(types, types_end, &type)) == NULL || type < 0 || type == 10 || type == 11) return false;
        int64_t length = type < 10 ? sizes[type] : (type - 12) / 2;
        if (length > row_end - value) return false;
        if (pages->kinds[field] < ROW_ID && !set_value(pages, field, row, type, value, length)) return false;
        if (pages->kinds[field] == ROW_ID) pages->columns[field].values[row] = row_id;
        value += length;
    }
    return field == pages->field_count && types == types_end && value == row_end;
}

/* Reads up to `most` rows, for whose values there is room, and returns how many; -1 to refuse them. `values` of
 * bytes are their offsets; the bits of `valid` are 0. */
int64_t pages_read(struct pages *pages, int64_t most, int64_t *const *values, byte *const *valid) {
    for (int field = 0; field < pages->field_count; field++) {
        struct read_column *column = pages->columns + field;
        column->values = values[field];
        column->offsets = (int32_t *)values[field];
        column->valid = valid[field];
        column->null_count = column->size = 0;
        if (pages->kinds[field] == BYTES_FIELD) column->offsets[0] = 0;
    }
    for (int64_t row = 0; row < most;) {
        if (!pages->depth) return row;
        struct tree_step *step = pages->path + pages->depth - 1;
        const byte *page = page_of(pages, step->page, pages->depth - 1);
        if (page == NULL) return -1;
        const byte *head = page + (step->page == 1 ? FILE_HEADER_BYTES : 0);
        int64_t cells = unsigned_16(head + 3), is_leaf = head[0] == LEAF;
        const byte *places = head + (is_leaf ? 8 : 12), *content = places + 2 * cells;
        if ((!is_leaf && head[0] != INTERIOR) || content - page > pages->usable || (!cells && pages->depth > 1)) return -1;
        if (step->cell >= cells + !is_leaf) {
            pages->depth--;
            continue;
        }
        int64_t place = step->cell < cells ? unsigned_16(places + 2 * step->cell) : 0;
        if (step->cell < cells && (place < content - page || place + 4 > pages->usable)) return -1;
        step->cell++;
        if (is_leaf) {
            if (!read_row(pages, page, place, row++)) return -1;
            continue;
        }
        if (pages->depth == MOST_TREE_LEVELS || ++pages->visited > pages->page_count) return -1;
        pages->path[pages->depth++] = (struct tree_step){unsigned_32(place ? page + place : head + 8), 0};
    }
    return most;
}

int64_t pages_null_count(const struct pages *pages, int field) { return pages->columns[field].null_count; }

const void *pages_bytes(const struct pages *pages, int field) { return pages->columns[field].bytes; }

int64_t pages_byte_count(const struct pages *pages, int field) { return pages->columns[field].size; }

void pages_free(struct pages *pages) {
    if (pages == NULL) return;
    for (int field = 0; pages->columns != NULL && field < pages->field_count; field++) free(pages->columns[field].bytes);
    free(pages->columns);
    free(pages->kinds);
    free(pages->payload);
    for (int level = 0; level <= MOST_TREE_LEVELS; level++) free(pages->blocks[level].bytes);
    free(pages);
}

/* Begins to read the table whose tree has its root at a page of a file; NULL: no memory. The caller closes the file. */
struct pages *pages_new(int file, int64_t page_size, int64_t usable, int64_t page_count, int64_t root, int64_t longest,
                        int field_count, const int *kinds) {
    struct pages *pages = calloc(1, sizeof *pages);
    if (pages == NULL) return NULL;
    *pages = (struct pages){.file = file, .field_count = field_count, .depth = 1, .page_size = page_size, .usable = usable,
                            .page_count = page_count, .longest = longest};
    pages->path[0] = (struct tree_step){root, 0};
    pages->kinds = malloc((size_t)field_count * sizeof *kinds);
    pages->columns = calloc((size_t)field_count, sizeof *pages->columns);
    if (pages->kinds == NULL || pages->columns == NULL) {
        pages_free(pages);
        return NULL;
    }
    memcpy(pages->kinds, kinds, (size_t)field_count * sizeof *kinds);
    return pages;
}
