/* Nesting of slices: the same as `in_plain_python` of ingest/nesting.py, which says what is found.
 *
 * Invariants:
 *   - Slices come by thread and start. The stack holds those that are open, and has room for all that come.
 *   - What lies at an entry's CONTAINER is below it: entries leave the stack at its top alone.
 */

/* Of an open slice, in the order of nesting.py: INSIDE and behind it are the nearest ancestors of what lies in it. */
enum { OPEN_ID, OPEN_THREAD, OPEN_END, OPEN_IS_EMPTY, OPEN_STACK, OPEN_CONTAINER, OPEN_INSIDE, OPEN_FIELDS = OPEN_INSIDE + 4 };
enum { NO_SLICE = -1, PYTHON_FRAME = 2 };

/* Nests slices below those that are open, and returns how many are open then. */
int64_t nest_slices(int64_t *open, int64_t depth, int64_t count, const int64_t *id, const int64_t *thread,
                    const int64_t *start, const int64_t *dur, const int64_t *category, const int64_t *name_hash,
                    int64_t *found, uint8_t *crosses) {
    for (int64_t at = 0; at < count; at++) {
        int64_t end = (int64_t)((uint64_t)start[at] + (uint64_t)dur[at]), is_empty = dur[at] <= 0, around;
        const int64_t *top = open;
        for (; depth; depth--) {
            top = open + (depth - 1) * OPEN_FIELDS;
            bool is_open = top[OPEN_END] > start[at] || (top[OPEN_IS_EMPTY] && top[OPEN_END] == start[at]);
            if (top[OPEN_THREAD] == thread[at] && is_open) break;
        }
        for (around = depth - 1; around >= 0 && open[around * OPEN_FIELDS + OPEN_END] < end;)
            around = open[around * OPEN_FIELDS + OPEN_CONTAINER];
        int64_t *own = open + depth * OPEN_FIELDS;
        uint64_t stack = (uint64_t)name_hash[at];
        if (around >= 0) stack += (uint64_t)open[around * OPEN_FIELDS + OPEN_STACK] * 0x9E3779B97F4A7C15u;
        found[at] = depth;
        found[count + at] = depth ? top[OPEN_ID] : NO_SLICE;
        for (int code = 0; code < 4; code++) {
            bool is_of_it = code == PYTHON_FRAME ? category[at] >= PYTHON_FRAME : category[at] == code;
            int64_t nearest = depth ? top[OPEN_INSIDE + code] : NO_SLICE;
            found[(2 + code) * count + at] = nearest;
            own[OPEN_INSIDE + code] = is_of_it ? id[at] : nearest;
        }
        found[6 * count + at] = own[OPEN_STACK] = (int64_t)stack;
        crosses[at] = depth && (end > top[OPEN_END] || (end == top[OPEN_END] && is_empty > top[OPEN_IS_EMPTY]));
        own[OPEN_ID] = id[at];
        own[OPEN_THREAD] = thread[at];
        own[OPEN_END] = end;
        own[OPEN_IS_EMPTY] = is_empty;
        own[OPEN_CONTAINER] = around;
        depth++;
    }
    return depth;
}

enum { ENTERED_ID, ENTERED_END, ENTERED_FIELDS };

/* Whether each Python frame runs within the one that called it, and beside no other: so none was left open. `rows` are
 * the places of all frames by thread, start and longer first; `stack` has room for all of them. */
int frames_lie_in_callers(const int64_t *rows, int64_t count, const int32_t *thread, const int64_t *start,
                          const int64_t *dur, const int64_t *id, const int64_t *caller, int64_t *stack) {
    int64_t depth = 0, last_id = NO_SLICE;
    for (int64_t place = 0; place < count; place++) {
        int64_t at = rows[place], end = (int64_t)((uint64_t)start[at] + (uint64_t)dur[at]), *own;
        if (place && thread[rows[place - 1]] != thread[at]) {
            depth = 0;
            last_id = NO_SLICE;
        }
        while (depth && stack[(depth - 1) * ENTERED_FIELDS + ENTERED_END] <= start[at]) depth--;
        own = stack + depth * ENTERED_FIELDS;
        if (id[at] <= last_id) return false; /* without an id, or with one that may be there twice */
        if (caller[at] != (depth ? own[ENTERED_ID - ENTERED_FIELDS] : NO_SLICE)) return false;
        if (depth && end > own[ENTERED_END - ENTERED_FIELDS]) return false;
        own[ENTERED_ID] = last_id = id[at];
        own[ENTERED_END] = end;
        depth++;
    }
    return true;
}
