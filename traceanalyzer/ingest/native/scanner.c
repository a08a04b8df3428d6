/* Scans one chunk of a trace's event list to typed columns, and refuses every chunk that holds anything unusual.
 *
 * The SQL of this folder's parent is the reference: the columns are those of host.sql, gpu_events.sql, other.sql and
 * args.sql, equal to the last bit. A chunk is refused as a whole where this scanner would have to know more than it
 * does: text that is no strict JSON, texts of unusual length, numbers that need rounding, defects of any kind, and the
 * dialects of XLA and rocprof. What is refused here, DuckDB reads. GPU work has the columns of gpu.sql, too, unless some
 * of the chunk has arguments that are read otherwise than one value a column.
 *
 * Invariants:
 *   - Every read lies in [text, text + length). Parsers take the position and the end, and return the new position,
 *     or NULL to refuse; NULL is handed up at once.
 *   - What is written out is no longer than what was read, but for numbers, which grow by SPARE_BYTES a chunk at most. So
 *     two buffers of known size, made before the scan, hold all texts of a chunk (`texts`) and of an event (`scratch`),
 *     with room for what is between two values behind them.
 *   - Nothing recurses; values nest at most MOST_LEVELS deep, one bit a level.
 *   - A scanner keeps its memory from chunk to chunk; its columns are valid until its next scan.
 */
#define _POSIX_C_SOURCE 200809L /* for pread */
#include "columns.h"
#include "words.h"
#include "between.h"
#include "nesting.h"
#include "pages.h"
#include "ranges.h"

enum {
    MOST_LEVELS = 64,
    MOST_EVENT_BYTES = 1 << 20,
    MOST_TEXT_BYTES = 1 << 16,  /* longer texts are shortened, and are defects */
    MOST_CATEGORIES = 64,
    MOST_CATEGORY_BYTES = 32,
    SPARE_BYTES = 1 << 16 /* by which numbers of a chunk may grow when they are written out */
};

/* A column's place in its table; native/__init__.py has the same lists. Each time is there twice, as a decimal and as a
 * double would hold it: which of the two the reference takes shows at the end of the chunk. */
enum { ARGS_POSITION, ARGS_NAMING, ARGS_COLUMNS };
enum {
    HOST_POSITION, HOST_PID, HOST_TID, HOST_CATEGORY, HOST_RAW_CATEGORY, HOST_NAME, HOST_START, HOST_START_DOUBLE,
    HOST_DUR, HOST_DUR_DOUBLE, HOST_CORRELATION, HOST_EXTERNAL_ID, HOST_SEQUENCE, HOST_FORWARD_THREAD,
    HOST_INPUT_SHAPES, HOST_FRAME_ID, HOST_CALLER_ID, HOST_LOST_VALUES, HOST_COLUMNS
};
enum {
    GPU_POSITION, GPU_CATEGORY, GPU_NAME, GPU_PID, GPU_TID, GPU_START, GPU_START_DOUBLE, GPU_DUR, GPU_DUR_DOUBLE,
    GPU_ARGS,
    /* What gpu.sql makes of the arguments; of no use where a chunk has unusual work. */
    GPU_DEVICE, GPU_STREAM, GPU_CONTEXT, GPU_CORRELATION, GPU_EXTERNAL_ID, GPU_GRAPH, GPU_GRAPH_NODE, GPU_SIZE,
    GPU_GRID, GPU_BLOCK = GPU_GRID + 3, GPU_REGISTERS = GPU_BLOCK + 3, GPU_SHARED_MEMORY, GPU_BLOCKS_PER_SM,
    GPU_WARPS_PER_SM, GPU_OCCUPANCY, GPU_GROUP_SIZE, GPU_IN_ELEMENTS, GPU_OUT_ELEMENTS, GPU_COMM_SEQ, GPU_COLLECTIVE,
    GPU_GROUP_NAME, GPU_GROUP_DESC, GPU_GROUP_RANKS, GPU_COMM_DTYPE, GPU_COLUMNS
};
enum {
    OTHER_POSITION, OTHER_CLASS, OTHER_PHASE, OTHER_RAW_CATEGORY, OTHER_CATEGORY, OTHER_NAME, OTHER_PID, OTHER_TID,
    OTHER_START, OTHER_START_DOUBLE, OTHER_DUR, OTHER_DUR_DOUBLE, OTHER_ID, OTHER_ID2, OTHER_BP, OTHER_SCOPE,
    OTHER_FLOW_IN, OTHER_FLOW_OUT, OTHER_LOST_FLOWS, OTHER_ARGS, OTHER_COLUMNS
};
enum { TABLE_ARGS, TABLE_HOST, TABLE_GPU, TABLE_OTHER, TABLE_COUNT };

/* One letter a column: l and b are numbers of 64 and 8 bits, c a code of a list that the caller knows, t a text. */
static const char *const LAYOUTS[TABLE_COUNT] = {"lb", "lttcttlllllllltllb", "lctttlllll" "lllllllllllllllllllllllttttt", "lcctctttlllltt" "ttbbbl"};

/* -- One event ---------------------------------------------------------------------------------------------------- */

static const char PHASES[] = "XMBEiIRnbeSFstfC";

enum { HOST, GPU, SYNC, ASYNC, REFUSED };
/* The categories that the scanner knows by meaning; the caller numbers all others behind them. */
enum { OTHER, CPU_OP, ANNOTATION, PYTHON, RUNTIME, DRIVER, OVERHEAD };

/* A word that texts are compared with: its first eight bytes, or what there is of them, as one number. */
struct word {
    const char *text;
    int64_t size;
    uint64_t head;
};

enum field { PH, CAT, NAME, PID, TID, ID, ID2, BP, SCOPE, BIND_ID, TEXT_FIELDS, TS = TEXT_FIELDS, DUR, FLOW_IN, FLOW_OUT, ARGS, FIELDS };
static const char *const FIELD_NAMES[FIELDS] = {"ph", "cat", "name", "pid", "tid", "id", "id2", "bp", "s", "bind_id",
                                                "ts", "dur", "flow_in", "flow_out", "args"};

/* Arguments that columns are made of. */
enum argument {
    CORRELATION, CORRELATION_ID, CORR_ID, EXTERNAL_ID, EXTERNAL_ID_2021, SEQUENCE, FORWARD_THREAD, INPUT_DIMS,
    INPUT_DIMS_2021, FRAME_ID, CALLER_ID, DEVICE, STREAM, CONTEXT, GRAPH, GRAPH_NODE, BYTES, GRID, BLOCK_SIDES, REGISTERS,
    SHARED_MEMORY, BLOCKS_PER_SM, WARPS_PER_SM, OCCUPANCY, GROUP_SIZE, IN_ELEMENTS, OUT_ELEMENTS, COMM_SEQ, COLLECTIVE,
    GROUP_NAME, GROUP_DESC, GROUP_RANKS, COMM_DTYPE,
    UNUSUAL, /* any other that gpu.sql reads, or one of the GPU's that comes twice */
    ARGUMENTS
};
enum { LONGEST_ARGUMENT = 25, SHORTEST_ARGUMENT = 3 };
static const char *const ARGUMENT_NAMES[] = {
    "correlation", "correlation_id", "corr_id", "External id", "external id", "Sequence number",
    "Fwd thread id", "Input Dims", "Input dims", "Python id", "Python parent id", "device", "stream", "context",
    "graph id", "graph node id", "bytes", "grid", "block", "registers per thread", "shared memory", "blocks per SM",
    "warps per SM", "est. achieved occupancy %", "Group size", "In msg nelems", "Out msg nelems", "Seq",
    "Collective name", "Process Group Name", "Process Group Description", "Process Group Ranks", "dtype",
    /* the unusual ones */
    "Process Group ID", "grid dim", "block dim", "hlo_op", "cuda_graph_id", "cuda_graph_node_id", "kernel_details",
    "memcpy_details", "Memset_details", "sycl queue", "dev-id", "gpu-id", "stream-id", "queue-id", "Index", "stream_ID",
    "original_stream", "agent", "src_agent", "dst_agent", "copy_bytes", "copy kind", "src kind", "dst kind",
    "memory kind", "grid_size", "workgroup_size", "tasktopo", "tasktopo node"};
enum { NAMED_ARGUMENTS = sizeof ARGUMENT_NAMES / sizeof *ARGUMENT_NAMES };

struct time {
    int64_t ns;        /* by the digits */
    int64_t double_ns; /* as a double holds it */
};

struct event {
    unsigned seen; /* a bit a field */
    struct slice texts[TEXT_FIELDS];
    struct time start, duration;
    int flow_in, flow_out; /* negative: unknown */
    struct slice args;
    uint64_t arguments_seen; /* a bit an argument: the others have no value */
    struct slice arguments[ARGUMENTS];
    bool has_stack_key; /* or a key that an escape might hide it in */
};

struct scanner {
    struct table tables[TABLE_COUNT];
    byte *texts; /* the arguments, one after the other; args_offsets has where */
    int32_t *args_offsets;
    int64_t texts_capacity, texts_size, args_capacity;
    byte *scratch;
    struct event event;
    int64_t event_count, spare_bytes;
    bool look_for_stacks, has_stacks;
    bool has_unusual_work; /* whose arguments the reference has to type */
    /* What the times of the chunk are like, which decides between digits and doubles. */
    bool has_large_time, has_long_fraction, has_inexact_double, has_inner_time;
    struct word fields[FIELDS], arguments[NAMED_ARGUMENTS];
    struct betweens between_fields, between_arguments;
    int category_count;
    struct {
        char name[MOST_CATEGORY_BYTES];
        struct word word;
        int class, category;
    } categories[MOST_CATEGORIES];
    byte category_order[MOST_CATEGORIES]; /* in which they are looked for: those that come often move to the front */
};

/* -- Values -------------------------------------------------------------------------------------------------------- */

static bool equals(const byte *start, int64_t size, const char *text) {
    return size == (int64_t)strlen(text) && !memcmp(start, text, (size_t)size);
}

/* The first bytes of a text as one number: texts of one size that differ there have different ones. */
static uint64_t head_of(const byte *start, int64_t size) {
    uint32_t first = 0, last = 0;
    if (size >= WORD) return load_word(start);
    if (size >= 4) {
        memcpy(&first, start, 4);
        memcpy(&last, start + size - 4, 4);
    } else {
        for (int64_t at = 0; at < size; at++) first = first << 8 | start[at];
    }
    return (uint64_t)last << 32 | first;
}

static struct word word_of(const char *text) {
    int64_t size = (int64_t)strlen(text);
    return (struct word){text, size, head_of((const byte *)text, size)};
}

static inline bool is_word(const byte *start, int64_t size, uint64_t head, const struct word *word) {
    return head == word->head && size == word->size && (size <= WORD || !memcmp(start, word->text, (size_t)size));
}

static bool is_time_key(const byte *start, int64_t size) {
    return (size == 2 && equals(start, size, "ts")) || (size == 3 && equals(start, size, "dur"));
}

static bool is_stack_key(const byte *start, int64_t size) { return size == 10 && equals(start, size, "Call stack"); }

/* Notes the key of a value within an event's values, and returns which of the arguments it names at their first level. */
static int note_key(struct scanner *scanner, const byte *start, int64_t size, bool has_escape, bool of_arguments) {
    struct event *event = &scanner->event;
    if (has_escape || is_time_key(start, size)) scanner->has_inner_time = true;
    if (has_escape || is_stack_key(start, size)) event->has_stack_key = true;
    if (!of_arguments || size < SHORTEST_ARGUMENT || size > LONGEST_ARGUMENT) return ARGUMENTS;
    int found = 0;
    uint64_t head = head_of(start, size);
    while (found < NAMED_ARGUMENTS && !is_word(start, size, head, &scanner->arguments[found])) found++;
    return found == NAMED_ARGUMENTS ? ARGUMENTS : found < UNUSUAL ? found : UNUSUAL;
}

/* Keeps the value of an argument; one that host slices may have, too, is written at most once. */
static bool keep_argument(struct event *event, int argument, struct slice value) {
    if (event->arguments_seen >> argument & 1) {
        if (argument < DEVICE) return false;
        argument = UNUSUAL;
    }
    event->arguments_seen |= (uint64_t)1 << argument;
    event->arguments[argument] = value;
    return true;
}

/* The text of an argument; of one that is missing or null, none. */
static struct slice argument_of(const struct event *event, int argument) {
    struct slice none = {NULL, -1}, text = event->arguments_seen >> argument & 1 ? event->arguments[argument] : none;
    return equals(text.start, text.size, "null") ? none : text;
}

/* Copies any value without the blanks in it. Those of arguments that columns need are kept, as they are written out. */
static const byte *copy_value(struct scanner *scanner, const byte *at, const byte *end, byte **out, bool of_arguments) {
    uint64_t objects = 0; /* the lowest bit says whether the innermost level is an object, and not a list */
    int level = 0, argument = ARGUMENTS;
    byte *to = *out, *argument_start = NULL, *key_start, *written = NULL;
    const byte *key_end, *behind = NULL; /* the last value of the first level */
    struct between *last = &scanner->between_arguments.start, *next;

value:
    if (at == end) return NULL;
    switch (*at) {
    case '{':
    case '[':
        if (level == MOST_LEVELS) return NULL;
        level++;
        objects = objects << 1 | (*at == '{');
        *to++ = *at;
        at = skip_blanks(at + 1, end);
        if (at == end) return NULL;
        if (*at == (objects & 1 ? '}' : ']')) goto closed;
        if (!(objects & 1)) goto value;
        if (level == 1) {
            behind = at;
            written = to;
            next = of_arguments ? known_between(last, at, end) : NULL;
            if (next != NULL) goto known;
        }
        goto key;
    case '"':
        *to++ = '"';
        at = copy_text(at + 1, end, &to, true);
        *to++ = '"';
        break;
    case 't':
    case 'f':
    case 'n':
        at = copy_word(at, end, &to);
        break;
    default:
        at = copy_number(&scanner->spare_bytes, at, end, &to);
    }
    if (at == NULL) return NULL;

ended:
    if (level == 0) {
        *out = to;
        return at;
    }
    if (level == 1 && argument != ARGUMENTS) {
        if (!keep_argument(&scanner->event, argument, (struct slice){argument_start, to - argument_start})) return NULL;
        argument = ARGUMENTS;
    }
    if (level == 1) {
        behind = at;
        written = to;
        next = of_arguments ? known_between(last, at, end) : NULL;
        if (next != NULL) goto known;
    }
    at = skip_blanks(at, end);
    if (at == end) return NULL;
    if (*at == ',') {
        *to++ = ',';
        at = skip_blanks(at + 1, end);
        if (objects & 1) goto key;
        goto value;
    }
    if (*at != (objects & 1 ? '}' : ']')) return NULL;
    if (level == 1 && of_arguments)
        keep_between(&scanner->between_arguments, last, behind, at + 1, (struct slice){at, 1}, CLOSES, false);

closed:
    *to++ = *at++;
    level--;
    objects >>= 1;
    goto ended;

known:
    memcpy(to, next->written, BETWEEN_BYTES);
    to += next->written_size;
    at += next->size;
    if (next->meaning == CLOSES) {
        *out = to;
        return at;
    }
    at = skip_blanks(at, end); /* more of them than usual */
    scanner->event.has_stack_key |= next->has_stack_key;
    argument = next->meaning;
    argument_start = to;
    last = next;
    goto value;

key:
    if (at == end || *at != '"') return NULL;
    *to++ = '"';
    key_start = to;
    key_end = at + 1;
    at = copy_text(at + 1, end, &to, true);
    if (at == NULL) return NULL;
    bool has_escape = memchr(key_end, '\\', (size_t)(at - key_end)) != NULL;
    int64_t key_size = to - key_start;
    int found = note_key(scanner, key_start, key_size, has_escape, of_arguments && level == 1);
    *to++ = '"';
    at = skip_blanks(at, end);
    if (at == end || *at != ':') return NULL;
    *to++ = ':';
    at = skip_blanks(at + 1, end);
    if (level == 1) {
        argument = found;
        argument_start = to;
        if (of_arguments && !has_escape && !is_time_key(key_start, key_size)) {
            struct slice copied = {written, to - written};
            last = keep_between(&scanner->between_arguments, last, behind, at, copied, found, is_stack_key(key_start, key_size));
        } else {
            last = &scanner->between_arguments.unknown;
        }
    }
    goto value;
}

/* Reads a field that is a text column: a text, or the words of a number or a truth value. */
static const byte *read_text(struct scanner *scanner, const byte *at, const byte *end, byte **scratch, struct slice *text) {
    const byte *start = at + 1;
    byte *kept = *scratch;
    if (at == end) return NULL;
    if (*at == '"') {
        at = skip_plain(start, end);
        if (at == end) return NULL;
        if (*at == '"') {
            *text = (struct slice){start, at - start};
            at++;
        } else {
            at = copy_text(start, end, scratch, false);
            *text = (struct slice){kept, *scratch - kept};
        }
    } else if (*at == '{' || *at == '[') {
        return NULL;
    } else if (*at == 'n') {
        return copy_word(at, end, scratch);
    } else {
        at = *at == 't' || *at == 'f' ? copy_word(at, end, scratch) : copy_number(&scanner->spare_bytes, at, end, scratch);
        *text = (struct slice){kept, *scratch - kept};
        if (at == NULL || memchr(kept, '.', (size_t)text->size)) return NULL; /* doubles have other texts here */
    }
    return text->size <= MOST_TEXT_BYTES ? at : NULL;
}

/* Reads true or false; null leaves the answer as it is. */
static const byte *read_truth(const byte *at, const byte *end, byte *scratch, int *truth) {
    if (at == end) return NULL;
    if (*at != 'n') *truth = *at == 't';
    return copy_word(at, end, &scratch);
}

/* Nanoseconds of a double of microseconds, as ns_of_double: the fraction is never negative. */
static int64_t ns_of_double(double us) {
    int64_t whole = (int64_t)us;
    if ((double)whole > us) whole--;
    double thousandths = (us - (double)whole) * 1000;
    int64_t ns = (int64_t)thousandths;
    if (thousandths - (double)ns >= 0.5) ns++;
    return whole * 1000 + ns;
}

/* Reads microseconds: digits, and a fraction of any length, which is rounded to six digits and then to three. */
static const byte *read_time(struct scanner *scanner, const byte *at, const byte *end, bool is_start, struct time *time) {
    static const double POWERS[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int64_t largest = 9000000000000000, exact_below = (int64_t)1 << 43, most_of_a_double = (int64_t)1 << 53;
    bool negative = at < end && *at == '-';
    at += negative;
    const byte *start = at;
    if (!is_digit(at, end)) return NULL;
    int64_t whole = 0;
    if (*at == '0') at++;
    else
        for (; is_digit(at, end); at++) {
            whole = 10 * whole + (*at - '0');
            if (whole >= largest) return NULL;
        }
    int64_t digits = at - start, decimals = 0, millionths = 0, mantissa = whole;
    if (at < end && *at == '.') {
        at++;
        if (!is_digit(at, end)) return NULL;
        for (; is_digit(at, end); at++, decimals++) {
            int digit = *at - '0';
            if (decimals < 6) millionths = 10 * millionths + digit;
            else if (decimals == 6) millionths += digit >= 5;
            if (mantissa <= most_of_a_double) mantissa = 10 * mantissa + digit;
        }
        for (int64_t missing = decimals; missing < 6; missing++) millionths *= 10;
    }
    if (at < end && (*at == 'e' || *at == 'E')) return NULL;
    if (is_start) {
        if (whole == exact_below - 1 && decimals > 3) return NULL; /* may round to the limit */
        scanner->has_large_time |= whole >= exact_below;
        scanner->has_long_fraction |= digits >= 13 && decimals > 0;
    }
    bool fits = decimals <= 22 && mantissa <= most_of_a_double; /* the number without its point is exact as a double */
    int64_t ns = whole * 1000 + (millionths + 500) / 1000;
    time->ns = time->double_ns = negative ? -ns : ns;
    if (decimals > 3 || whole >= exact_below) {
        if (fits) {
            double us = (double)mantissa / POWERS[decimals];
            time->double_ns = ns_of_double(negative ? -us : us);
        } else {
            scanner->has_inexact_double = true;
        }
    }
    return at;
}

/* -- Events ------------------------------------------------------------------------------------------------------- */

static bool contains(struct slice text, const char *word) {
    int64_t size = (int64_t)strlen(word);
    const byte *at = text.start, *last = text.start + text.size - size;
    while (text.size >= size && at <= last && (at = memchr(at, word[0], (size_t)(last - at + 1))) != NULL) {
        if (!memcmp(at, word, (size_t)size)) return true;
        at++;
    }
    return false;
}

static bool begins(struct slice text, const char *word) {
    size_t size = strlen(word);
    return text.size >= (int64_t)size && !memcmp(text.start, word, size);
}

/* Whether an event of a GPU category comes from another tool, as is_foreign. */
static bool is_foreign(const struct event *event) {
    struct slice pid = event->texts[PID];
    if (event->args.size < 0)
        return !(pid.size >= 1 && is_digit(pid.start, pid.start + 1) && pid.size <= 2 && is_digit(pid.start + pid.size - 1, pid.start + pid.size));
    static const char *const WORDS[] = {
        "\"External id\"", "\"external id\"", "\"stream\"", "\"device\"", "\"correlation\"", "\"corr_id\"", "\"grid\"", "\"block\"",
    };
    for (size_t word = 0; word < sizeof WORDS / sizeof *WORDS; word++) {
        if (contains(event->args, WORDS[word])) return false;
    }
    return true;
}

static bool is_annotation(struct slice name) {
    return begins(name, "ProfilerStep#") || begins(name, "Optimizer.") || begins(name, "enumerate(DataLoader)#")
        || begins(name, "enumerate(DataPipe)#");
}

/* Whether an event without a category may be one of XLA or rocprof. */
static bool is_of_dialect(const struct event *event) {
    static const char *const WORDS[] = {"\"BeginNs\"", "_details\"", "\"step_num\"", "\"correlation_id\""};
    if (event->texts[NAME].size > 0 && event->texts[NAME].start[0] == '$') return true;
    for (size_t word = 0; word < sizeof WORDS / sizeof *WORDS; word++) {
        if (contains(event->args, WORDS[word])) return true;
    }
    return false;
}

/* The place of a category among those that are known, or -1. */
static int category_of(struct scanner *scanner, const byte *start, int64_t size) {
    uint64_t head = head_of(start, size);
    byte *order = scanner->category_order;
    for (int at = 0; at < scanner->category_count; at++) {
        byte found = order[at];
        if (!is_word(start, size, head, &scanner->categories[found].word)) continue;
        order[at] = order[at / 2];
        order[at / 2] = found;
        return found;
    }
    return -1;
}

/* Finds class and category of an event, as chunk.sql; the class of one that is no slice is its category's alone. */
static bool classify(struct scanner *scanner, char phase, int *class, int *category) {
    const struct event *event = &scanner->event;
    struct slice raw = event->texts[CAT];
    *class = HOST;
    *category = OTHER;
    if (raw.size < 0) return phase != 'X' || !is_of_dialect(event);
    int found = category_of(scanner, raw.start, raw.size);
    if (found < 0) {
        char folded[MOST_CATEGORY_BYTES];
        for (int64_t at = 0; at < raw.size; at++) {
            byte sign = raw.start[at];
            if (sign >= 0x80) return false; /* some fold to plain letters */
            if (at < MOST_CATEGORY_BYTES) folded[at] = (char)(sign >= 'A' && sign <= 'Z' ? sign + 32 : sign);
        }
        if (raw.size >= MOST_CATEGORY_BYTES) return true;
        found = category_of(scanner, (const byte *)folded, raw.size);
    }
    if (found >= 0) {
        *class = scanner->categories[found].class;
        *category = scanner->categories[found].category;
    }
    if (*class == REFUSED) return false;
    if (*class == GPU && is_foreign(event)) {
        *class = HOST;
        *category = OTHER;
    }
    if (*category == CPU_OP && is_annotation(event->texts[NAME])) *category = ANNOTATION;
    return true;
}

/* An argument read as a whole number of 64 bits with a sign. */
struct number {
    bool written, known;
    int64_t value;
    bool is_none; /* -1 in 64 bits without a sign */
};

/* Reads an argument that is a whole number, or a text of one; anything else is refused. */
static bool read_number(struct slice text, struct number *number) {
    *number = (struct number){false, false, 0, false};
    if (text.size < 0) return true;
    number->written = true;
    if (text.size >= 2 && text.start[0] == '"') text = (struct slice){text.start + 1, text.size - 2};
    const byte *at = text.start, *end = text.start + text.size;
    bool negative = at < end && *at == '-';
    at += negative;
    if (at == end || end - at > 20 || (*at == '0' && end - at > 1)) return false;
    number->is_none = equals(text.start, text.size, "18446744073709551615");
    uint64_t value = 0, limit = (uint64_t)INT64_MAX + negative;
    bool is_short = end - at < 19; /* fits in any case */
    number->known = true;
    for (; at < end; at++) {
        if (!is_digit(at, end)) return false;
        uint64_t digit = (uint64_t)(*at - '0');
        if (!is_short && value > (limit - digit) / 10) number->known = false;
        value = 10 * value + digit; /* of no use once it is too large */
    }
    number->value = (int64_t)(negative ? 0 - value : value);
    return true;
}

static bool is_id(struct number number) {
    return number.known && number.value != 0 && number.value != -1 && number.value != 4294967295;
}

static bool is_lost(struct number number) { return number.written && !number.known; }

/* Adds a complete event of a host thread. */
static bool add_host(struct scanner *scanner, int category) {
    const struct event *event = &scanner->event;
    struct table *table = &scanner->tables[TABLE_HOST];
    struct number correlation, external, sequence, forward, frame, caller;
    struct slice shapes = {NULL, -1}, none = {NULL, -1};
    bool has_known = category != PYTHON && category != OVERHEAD, is_frame = category == PYTHON;
    int lost = 0;

    struct slice written = has_known ? argument_of(event, CORRELATION) : none;
    if (written.size < 0 && category == DRIVER) written = argument_of(event, CORRELATION_ID);
    if (written.size < 0 && category == RUNTIME) written = argument_of(event, CORR_ID);
    if (!read_number(written, &correlation)) return false;
    written = has_known ? argument_of(event, EXTERNAL_ID) : none;
    if (has_known && written.size < 0) written = argument_of(event, EXTERNAL_ID_2021);
    if (!read_number(written, &external)) return false;
    if (!read_number(has_known ? argument_of(event, SEQUENCE) : none, &sequence)) return false;
    if (!read_number(has_known ? argument_of(event, FORWARD_THREAD) : none, &forward)) return false;
    if (!read_number(is_frame ? argument_of(event, FRAME_ID) : none, &frame)) return false;
    if (!read_number(is_frame ? argument_of(event, CALLER_ID) : none, &caller)) return false;
    if (category == CPU_OP) {
        shapes = argument_of(event, INPUT_DIMS);
        if (shapes.size < 0) shapes = argument_of(event, INPUT_DIMS_2021);
        if (shapes.size >= 0 && shapes.start[0] != '[') return false;
    }
    lost = (is_lost(correlation) && !correlation.is_none) + (is_lost(external) && !external.is_none) + is_lost(sequence)
        + is_lost(forward);

    if (!add_row(table)) return false;
    set_number(table, HOST_POSITION, scanner->event_count);
    set_code(table, HOST_CATEGORY, category);
    set_number(table, HOST_START, event->start.ns);
    set_number(table, HOST_START_DOUBLE, event->start.double_ns);
    set_number(table, HOST_DUR, event->duration.ns);
    set_number(table, HOST_DUR_DOUBLE, event->duration.double_ns);
    set_number_or_nothing(table, HOST_CORRELATION, is_id(correlation), correlation.value);
    set_number_or_nothing(table, HOST_EXTERNAL_ID, external.known, external.value);
    set_number_or_nothing(table, HOST_SEQUENCE, sequence.known, sequence.value);
    set_number_or_nothing(table, HOST_FORWARD_THREAD, forward.known && forward.value, forward.value);
    set_number_or_nothing(table, HOST_FRAME_ID, frame.known, frame.value);
    set_number_or_nothing(table, HOST_CALLER_ID, caller.known, caller.value);
    set_small(table, HOST_LOST_VALUES, lost);
    return set_text(table, HOST_PID, event->texts[PID]) && set_text(table, HOST_TID, event->texts[TID])
        && set_text(table, HOST_RAW_CATEGORY, event->texts[CAT]) && set_text(table, HOST_NAME, event->texts[NAME])
        && set_text(table, HOST_INPUT_SHAPES, shapes);
}

static void set_args(struct scanner *scanner, struct table *table, int at) {
    set_number_or_nothing(table, at, scanner->event.args.size >= 0, scanner->tables[TABLE_ARGS].row_count - 1);
}

/* Reads a number as a double; a text of one is refused, and one that ends elsewhere by the locale. */
static bool read_double(struct slice text, double *value) {
    char written[40], *stop;
    if (text.size < 1 || text.size >= (int64_t)sizeof written) return false;
    if (text.start[0] != '-' && !is_digit(text.start, text.start + 1)) return false;
    memcpy(written, text.start, (size_t)text.size);
    written[text.size] = '\0';
    *value = strtod(written, &stop);
    return *stop == '\0';
}

/* Reads a list of three sides that a device can launch. */
static bool read_sides(struct slice text, int64_t sides[3]) {
    const byte *at = text.start, *end = text.start + text.size;
    const double most = 17592186044416;
    for (int side = 0; side < 3; side++) {
        if (at == end || *at++ != (side ? ',' : '[')) return false;
        const byte *start = at;
        for (sides[side] = 0; is_digit(at, end) && at - start < 14; at++) sides[side] = 10 * sides[side] + (*at - '0');
        if (at == start || (double)sides[side] > most) return false;
    }
    return end - at == 1 && *at == ']' && (double)sides[0] * (double)sides[1] * (double)sides[2] <= most;
}

/* Types the arguments of GPU work as gpu.sql does; false where that takes more than reading one value a column. */
static bool type_work(const struct event *event, struct table *table) {
    static const struct { int argument, column; int64_t most; } WHOLES[] = {
        {DEVICE, GPU_DEVICE, INT32_MAX}, {STREAM, GPU_STREAM, INT64_MAX}, {CONTEXT, GPU_CONTEXT, INT64_MAX},
        {BYTES, GPU_SIZE, 17592186044416}, {REGISTERS, GPU_REGISTERS, INT32_MAX},
        {SHARED_MEMORY, GPU_SHARED_MEMORY, INT32_MAX}, {GROUP_SIZE, GPU_GROUP_SIZE, 1048576},
        {IN_ELEMENTS, GPU_IN_ELEMENTS, 274877906944}, {OUT_ELEMENTS, GPU_OUT_ELEMENTS, 274877906944},
        {COMM_SEQ, GPU_COMM_SEQ, INT64_MAX},
    };
    static const int IDS[][2] = {{CORRELATION, GPU_CORRELATION}, {EXTERNAL_ID, GPU_EXTERNAL_ID}, {GRAPH, GPU_GRAPH}, {GRAPH_NODE, GPU_GRAPH_NODE}};
    const uint64_t elsewhere = (uint64_t)1 << UNUSUAL | 1 << CORRELATION_ID | 1 << CORR_ID | 1 << EXTERNAL_ID_2021;
    struct number number;
    bool has_graph = false;
    if (event->arguments_seen & elsewhere) return false;
    if (argument_of(event, DEVICE).size < 0 || argument_of(event, STREAM).size < 0) return false;
    for (size_t at = 0; at < sizeof WHOLES / sizeof *WHOLES; at++) {
        if (!read_number(argument_of(event, WHOLES[at].argument), &number) || is_lost(number)) return false;
        if (number.known && (number.value > WHOLES[at].most || number.value < -WHOLES[at].most)) return false;
        set_number_or_nothing(table, WHOLES[at].column, number.known, number.value);
    }
    for (size_t at = 0; at < sizeof IDS / sizeof *IDS; at++) {
        if (!read_number(argument_of(event, IDS[at][0]), &number) || (is_lost(number) && !number.is_none)) return false;
        bool known = IDS[at][0] == EXTERNAL_ID ? number.known : IDS[at][0] == GRAPH_NODE ? number.known && has_graph : is_id(number);
        set_number_or_nothing(table, IDS[at][1], known, number.value);
        has_graph = known; /* that of the graph comes before its node */
    }
    for (int at = 0; at < 2; at++) {
        int64_t sides[3] = {0};
        struct slice text = argument_of(event, GRID + at);
        if (text.size >= 0 && !read_sides(text, sides)) return false;
        for (int side = 0; side < 3; side++) set_number_or_nothing(table, GPU_GRID + 3 * at + side, text.size >= 0, sides[side]);
    }
    for (int at = 0; at < 3; at++) {
        double value = 0;
        struct slice text = argument_of(event, BLOCKS_PER_SM + at);
        if (text.size >= 0 && !read_double(text, &value)) return false;
        set_double_or_nothing(table, GPU_BLOCKS_PER_SM + at, text.size >= 0, value);
    }
    for (int at = 0; at <= COMM_DTYPE - COLLECTIVE; at++) {
        struct slice text = argument_of(event, COLLECTIVE + at);
        if (text.size >= 0) {
            if (text.start[0] != '"' || memchr(text.start, '\\', (size_t)text.size) != NULL) return false;
            text = (struct slice){text.start + 1, text.size - 2};
        }
        if (!set_text(table, GPU_COLLECTIVE + at, text)) return false;
    }
    return true;
}

static bool add_gpu(struct scanner *scanner, int category) {
    const struct event *event = &scanner->event;
    struct table *table = &scanner->tables[TABLE_GPU];
    if (!add_row(table)) return false;
    set_number(table, GPU_POSITION, scanner->event_count);
    set_code(table, GPU_CATEGORY, category);
    set_number(table, GPU_START, event->start.ns);
    set_number(table, GPU_START_DOUBLE, event->start.double_ns);
    set_number(table, GPU_DUR, event->duration.ns);
    set_number(table, GPU_DUR_DOUBLE, event->duration.double_ns);
    set_args(scanner, table, GPU_ARGS);
    if (!scanner->has_unusual_work && !type_work(event, table)) scanner->has_unusual_work = true;
    return set_text(table, GPU_NAME, event->texts[NAME]) && set_text(table, GPU_PID, event->texts[PID])
        && set_text(table, GPU_TID, event->texts[TID]);
}

static int64_t at_least_zero(int64_t number) { return number > 0 ? number : 0; }

static bool add_other(struct scanner *scanner, char phase, int class, int category) {
    const struct event *event = &scanner->event;
    struct table *table = &scanner->tables[TABLE_OTHER];
    bool is_timed = event->seen >> TS & 1;
    if (!add_row(table)) return false;
    set_number(table, OTHER_POSITION, scanner->event_count);
    if (phase == 'X') set_code(table, OTHER_CLASS, class);
    else set_nothing(table, OTHER_CLASS);
    set_code(table, OTHER_PHASE, (int32_t)(strchr(PHASES, phase) - PHASES));
    set_code(table, OTHER_CATEGORY, category);
    set_number_or_nothing(table, OTHER_START, is_timed, event->start.ns);
    set_number_or_nothing(table, OTHER_START_DOUBLE, is_timed, event->start.double_ns);
    set_number(table, OTHER_DUR, at_least_zero(event->duration.ns));
    set_number(table, OTHER_DUR_DOUBLE, at_least_zero(event->duration.double_ns));
    for (int at = 0; at < 2; at++) {
        int truth = at ? event->flow_out : event->flow_in;
        if (truth >= 0) set_small(table, OTHER_FLOW_IN + at, truth);
        else set_nothing(table, OTHER_FLOW_IN + at);
    }
    set_small(table, OTHER_LOST_FLOWS, 0);
    set_args(scanner, table, OTHER_ARGS);
    struct slice id = event->texts[ID].size >= 0 ? event->texts[ID] : event->texts[BIND_ID];
    return set_text(table, OTHER_RAW_CATEGORY, event->texts[CAT]) && set_text(table, OTHER_NAME, event->texts[NAME])
        && set_text(table, OTHER_PID, event->texts[PID]) && set_text(table, OTHER_TID, event->texts[TID])
        && set_text(table, OTHER_ID, id) && set_text(table, OTHER_ID2, event->texts[ID2])
        && set_text(table, OTHER_BP, event->texts[BP]) && set_text(table, OTHER_SCOPE, event->texts[SCOPE]);
}

/* Keeps the text of the arguments: it lies where it belongs already. */
static bool keep_args(struct scanner *scanner, char phase) {
    struct table *table = &scanner->tables[TABLE_ARGS];
    if (!add_row(table)) return false;
    set_number(table, ARGS_POSITION, scanner->event_count);
    set_small(table, ARGS_NAMING, phase == 'M');
    scanner->texts_size += scanner->event.args.size;
    if (table->row_count >= scanner->args_capacity) {
        int64_t capacity = 2 * scanner->args_capacity + 256;
        if (!grow(&scanner->args_offsets, (size_t)capacity * sizeof(int32_t))) return false;
        scanner->args_capacity = capacity;
    }
    scanner->args_offsets[0] = 0;
    scanner->args_offsets[table->row_count] = (int32_t)scanner->texts_size;
    return true;
}

/* Whether a slice is an instant all the same, as in chunk.sql: PyTorch's exporter in Python gives it a duration. */
static bool is_instant(const struct event *event) {
    static const char CATEGORY[] = "cpu_instant_event";
    struct slice raw = event->texts[CAT];
    return raw.size == (int64_t)sizeof CATEGORY - 1 && !memcmp(raw.start, CATEGORY, sizeof CATEGORY - 1);
}

static bool is_usual_time(int64_t ns) { return ns >= -400000000000000000 && ns <= 4000000000000000000; }

static bool is_usual_duration(int64_t ns) { return ns >= 0 && ns <= 2592000000000000; }

/* Adds a whole event to the tables; false where it has a defect. */
static bool add_event(struct scanner *scanner) {
    const struct event *event = &scanner->event;
    int class, category;
    if (event->texts[PH].size != 1) return false;
    char phase = (char)event->texts[PH].start[0];
    if (phase == '\0' || strchr(PHASES, phase) == NULL) return false;
    if (phase == 'X' && is_instant(event)) {
        phase = 'i';
        scanner->event.duration.ns = scanner->event.duration.double_ns = 0;
    }
    if (event->seen >> TS & 1) {
        if (!is_usual_time(event->start.ns) || !is_usual_time(event->start.double_ns)) return false;
    } else if (phase != 'M') {
        return false;
    }
    if (!classify(scanner, phase, &class, &category)) return false;
    if (event->args.size >= 0 && !keep_args(scanner, phase)) return false;
    bool is_other = phase != 'X' || class == SYNC || class == ASYNC || event->texts[BIND_ID].size >= 0;
    if (phase == 'X') {
        if (!(event->seen >> DUR & 1)) return false;
        if (!is_usual_duration(event->duration.ns) || !is_usual_duration(event->duration.double_ns)) return false;
        if (class == HOST && !add_host(scanner, category)) return false;
        if (class == GPU && !add_gpu(scanner, category)) return false;
    }
    if (is_other && !add_other(scanner, phase, class, category)) return false;
    if (scanner->look_for_stacks && !scanner->has_stacks) {
        bool has_stack = category == CPU_OP && event->has_stack_key && contains(event->args, "\"Call stack\":\"")
            && !contains(event->args, "\"Call stack\":\"\"");
        scanner->has_stacks = category == PYTHON || has_stack;
    }
    scanner->event_count++;
    return true;
}

static int field_of(const struct scanner *scanner, const byte *start, int64_t size) {
    int found = 0;
    uint64_t head = head_of(start, size);
    while (found < FIELDS && !is_word(start, size, head, &scanner->fields[found])) found++;
    return found;
}

/* Reads the value of a field, at most once an event. */
static const byte *read_field(struct scanner *scanner, int field, const byte *at, const byte *end, byte **scratch) {
    struct event *event = &scanner->event;
    byte *start = *scratch;
    if (field == FIELDS) {
        byte *dropped = *scratch;
        return copy_value(scanner, at, end, &dropped, false);
    }
    if (event->seen >> field & 1) return NULL;
    event->seen |= 1u << field;
    switch (field) {
    case TS:
        return read_time(scanner, at, end, true, &event->start);
    case DUR:
        return read_time(scanner, at, end, false, &event->duration);
    case FLOW_IN:
        return read_truth(at, end, *scratch, &event->flow_in);
    case FLOW_OUT:
        return read_truth(at, end, *scratch, &event->flow_out);
    case ID2:
        if (at == end || *at != '{') return NULL;
        at = copy_value(scanner, at, end, scratch, false);
        event->texts[ID2] = (struct slice){start, *scratch - start};
        return event->texts[ID2].size <= MOST_TEXT_BYTES ? at : NULL;
    case ARGS:
        if (at == end || *at != '{') return NULL;
        start = scanner->texts + scanner->texts_size;
        byte *args_end = start;
        at = copy_value(scanner, at, end, &args_end, true);
        if (args_end - start > 2) event->args = (struct slice){start, args_end - start};
        return at;
    default:
        return read_text(scanner, at, end, scratch, &event->texts[field]);
    }
}

static const byte *read_event(struct scanner *scanner, const byte *at, const byte *end) {
    struct event *event = &scanner->event;
    byte *scratch = scanner->scratch;
    event->seen = 0;
    event->start = event->duration = (struct time){0, 0};
    event->flow_in = event->flow_out = -1;
    event->args.size = -1;
    event->has_stack_key = false;
    for (int field = 0; field < TEXT_FIELDS; field++) event->texts[field].size = -1;
    event->arguments_seen = 0;
    if (end - at > MOST_EVENT_BYTES) end = at + MOST_EVENT_BYTES;
    if (at == end || *at != '{') return NULL;
    struct betweens *kept = &scanner->between_fields;
    struct between *last = &kept->start;
    const byte *behind = at + 1; /* the last value */
    for (bool is_first = true;; is_first = false) {
        struct between *next = known_between(last, behind, end);
        int field;
        if (next != NULL) {
            at = behind + next->size;
            field = next->meaning;
            if (field == CLOSES) return at;
            at = skip_blanks(at, end); /* more of them than usual */
        } else {
            at = skip_blanks(behind, end);
            if (!is_first) {
                if (at == end) return NULL;
                if (*at == '}') {
                    keep_between(kept, last, behind, at + 1, (struct slice){at, 1}, CLOSES, false);
                    return at + 1;
                }
                if (*at != ',') return NULL;
                at = skip_blanks(at + 1, end);
            }
            if (at == end || *at != '"') return NULL;
            const byte *key = at + 1;
            at = skip_plain(key, end);
            if (at == end || *at != '"') return NULL;
            field = field_of(scanner, key, at - key);
            at = skip_blanks(at + 1, end);
            if (at == end || *at != ':') return NULL;
            at = skip_blanks(at + 1, end);
            next = keep_between(kept, last, behind, at, (struct slice){key, 0}, field, false);
        }
        last = next;
        behind = read_field(scanner, field, at, end, &scratch);
        if (behind == NULL) return NULL;
    }
}

static bool read_events(struct scanner *scanner, const byte *at, const byte *end) {
    at = skip_blanks(at, end);
    if (at < end && *at == ',') at = skip_blanks(at + 1, end); /* before the first event of a chunk */
    for (;;) {
        at = read_event(scanner, at, end);
        if (at == NULL || !add_event(scanner)) return false;
        at = skip_blanks(at, end);
        if (at == end) break;
        if (*at != ',') return false;
        at = skip_blanks(at + 1, end);
    }
    return true;
}

/* -- What the caller sees ------------------------------------------------------------------------------------------ */

void scanner_free(struct scanner *scanner) {
    if (scanner == NULL) return;
    for (int kind = 0; kind < TABLE_COUNT; kind++) {
        for (int at = 0; at < scanner->tables[kind].column_count; at++) {
            struct column *column = &scanner->tables[kind].columns[at];
            if (column->texts) {
                free(column->texts->bytes);
                free(column->texts->offsets);
                free(column->texts->hashes);
                free(column->texts->slots);
                free(column->texts);
            }
            free(column->data);
            free(column->valid);
        }
    }
    free(scanner->texts);
    free(scanner->args_offsets);
    free(scanner->scratch);
    free(scanner);
}

/* Returns a scanner that knows these categories, in small letters; NULL where memory is missing. */
struct scanner *scanner_new(int category_count, const char *const *names, const int *classes, const int *categories) {
    struct scanner *scanner = category_count <= MOST_CATEGORIES ? calloc(1, sizeof *scanner) : NULL;
    if (scanner == NULL) return NULL;
    for (int at = 0; at < category_count; at++) {
        size_t size = strlen(names[at]);
        if (size >= MOST_CATEGORY_BYTES) goto failed;
        memcpy(scanner->categories[at].name, names[at], size);
        scanner->categories[at].word = word_of(scanner->categories[at].name);
        scanner->categories[at].class = classes[at];
        scanner->categories[at].category = categories[at];
        scanner->category_order[at] = (byte)at;
    }
    scanner->category_count = category_count;
    for (int at = 0; at < FIELDS; at++) scanner->fields[at] = word_of(FIELD_NAMES[at]);
    for (int at = 0; at < NAMED_ARGUMENTS; at++) scanner->arguments[at] = word_of(ARGUMENT_NAMES[at]);
    scanner->scratch = malloc(MOST_EVENT_BYTES + SPARE_BYTES + BETWEEN_BYTES);
    if (scanner->scratch == NULL) goto failed;
    for (int kind = 0; kind < TABLE_COUNT; kind++) {
        struct table *table = &scanner->tables[kind];
        for (const char *letter = LAYOUTS[kind]; *letter; letter++) {
            struct column *column = &table->columns[table->column_count++];
            column->width = *letter == 'l' ? 8 : *letter == 'b' ? 1 : 4;
            if (*letter == 't') {
                column->texts = calloc(1, sizeof *column->texts);
                if (column->texts == NULL) goto failed;
                column->texts->last = -1;
            }
        }
    }
    return scanner;
failed:
    scanner_free(scanner);
    return NULL;
}

/* Scans the events of a chunk, with or without a comma before them. Returns 0 where the chunk is refused, 1 where times
 * are those of doubles, and 2 where they are those of the digits. */
int scanner_scan(struct scanner *scanner, const byte *text, int64_t length, int look_for_stacks) {
    for (int kind = 0; kind < TABLE_COUNT; kind++) table_clear(&scanner->tables[kind]);
    memset(&scanner->between_fields, 0, sizeof scanner->between_fields);
    memset(&scanner->between_arguments, 0, sizeof scanner->between_arguments);
    scanner->texts_size = scanner->event_count = 0;
    scanner->spare_bytes = SPARE_BYTES;
    scanner->look_for_stacks = look_for_stacks;
    scanner->has_stacks = scanner->has_large_time = scanner->has_long_fraction = false;
    scanner->has_inexact_double = scanner->has_inner_time = scanner->has_unusual_work = false;
    if (length > MOST_CHUNK_BYTES) return 0;
    int64_t needed = length + SPARE_BYTES + BETWEEN_BYTES;
    if (needed > scanner->texts_capacity) {
        free(scanner->texts);
        scanner->texts = malloc((size_t)needed);
        scanner->texts_capacity = scanner->texts ? needed : 0;
        if (scanner->texts == NULL) return 0;
    }
    if (!read_events(scanner, text, text + length)) return 0;
    if (scanner->has_large_time && scanner->has_inner_time) return 0; /* these may count, and be rewritten, too */
    if (scanner->has_large_time && scanner->has_long_fraction) return 2;
    return scanner->has_inexact_double ? 0 : 1;
}

/* Says which source the scanner was built from. */
unsigned scanner_source(void) { return SCANNER_SOURCE; }

int64_t scanner_event_count(const struct scanner *scanner) { return scanner->event_count; }

int scanner_has_stacks(const struct scanner *scanner) { return scanner->has_stacks; }

int scanner_has_unusual_work(const struct scanner *scanner) { return scanner->has_unusual_work; }

int64_t scanner_row_count(const struct scanner *scanner, int table) { return scanner->tables[table].row_count; }

const void *scanner_data(const struct scanner *scanner, int table, int column) {
    return scanner->tables[table].columns[column].data;
}

const void *scanner_valid(const struct scanner *scanner, int table, int column) {
    return scanner->tables[table].columns[column].valid;
}

int64_t scanner_text_count(const struct scanner *scanner, int table, int column) {
    return scanner->tables[table].columns[column].texts->count;
}

const void *scanner_text_offsets(const struct scanner *scanner, int table, int column) {
    return scanner->tables[table].columns[column].texts->offsets;
}

const void *scanner_text_bytes(const struct scanner *scanner, int table, int column) {
    return scanner->tables[table].columns[column].texts->bytes;
}

const void *scanner_args_offsets(const struct scanner *scanner) { return scanner->args_offsets; }

const void *scanner_args_bytes(const struct scanner *scanner) { return scanner->texts; }
