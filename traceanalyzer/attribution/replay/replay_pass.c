/* The replay of `kernel.py`, which says what its pass does; both give the same integers. */
#include <stdint.h>
#include <string.h>

#ifndef REPLAY_PASS_SOURCE
#define REPLAY_PASS_SOURCE 0
#endif

static const int64_t NO_LIMIT = INT64_MAX / 4;

/* In the order of `_Device`. */
struct device {
    int64_t until; /* the events to pass over in all */
    const uint8_t *is_op;
    const int64_t *host_slack, *limit, *pred1, *slack1, *pred2, *slack2, *explained_wait;
    int64_t more_count;
    const int64_t *more_at, *more_before, *more_slack;
    const int64_t *host_gain; /* NULL: nothing changes */
    const uint8_t *wait_removed;
    const int64_t *earlier, *shorter;
    int64_t *ends;
    int64_t moves; /* something happens earlier, or may */
    int64_t at, host, start, next_more;
};

/* In the order of `_Points`. */
struct points {
    int64_t count;
    const int64_t *first, *device, *position, *wait, *transfer;
    const uint8_t *is_message, *balanced;
    const int64_t *given; /* NULL: the shifts are to be found */
    int64_t *begun;       /* NULL: not asked for */
};

uint32_t kernel_source(void) { return REPLAY_PASS_SOURCE; }

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

static void advance(struct device *d, int64_t until, int64_t unit) {
    int64_t host = d->host, start = d->start, more = d->next_more, *ends = d->ends;
    for (int64_t at = d->at; at < until; at++) {
        const int64_t pred1 = d->pred1[at], pred2 = d->pred2[at];
        int64_t limit = d->limit[at], gain = 0, earlier = 0, shorter = 0;
        uint8_t removed = 0;
        if (d->host_gain) {
            gain = d->host_gain[at] * unit;
            earlier = d->earlier[at] * unit;
            shorter = d->shorter[at] * unit;
            removed = d->wait_removed[at];
        }
        if (limit < NO_LIMIT) limit *= unit;
        host += gain;
        if (!d->is_op[at]) {
            if (!removed) {
                host = least(host + d->explained_wait[at] * unit, limit);
                if (pred1 >= 0) host = least(host, ends[pred1] + d->slack1[at] * unit);
            }
            start = 0;
            ends[at] = pred2 >= 0 ? most_of(host, ends[pred2]) : host;
            continue;
        }
        int64_t shift = limit, most = 0;
        if (d->host_slack[at] < NO_LIMIT) {
            shift = least(shift, host + d->host_slack[at] * unit);
            most = host;
        }
        if (pred1 >= 0) {
            shift = least(shift, ends[pred1] + d->slack1[at] * unit);
            most = most_of(most, ends[pred1]);
        }
        if (pred2 >= 0) {
            shift = least(shift, ends[pred2] + d->slack2[at] * unit);
            most = most_of(most, ends[pred2]);
        }
        while (more < d->more_count && d->more_at[more] < at) more++;
        for (; more < d->more_count && d->more_at[more] == at; more++) {
            const int64_t before = ends[d->more_before[more]];
            shift = least(shift, before + d->more_slack[more] * unit);
            most = most_of(most, before);
        }
        start = least(shift, most) + earlier;
        ends[at] = start + shorter;
    }
    if (until > d->at) d->at = until;
    d->host = host, d->start = start, d->next_more = more;
}

void kernel_replay(struct device *devices, int64_t device_count, const struct points *points, int64_t unit) {
    for (int64_t nth = 0; nth < points->count; nth++) {
        const int64_t first = points->first[nth], last = points->first[nth + 1];
        int64_t awaited = INT64_MAX, latest = INT64_MIN, cut = points->transfer[nth], shift;
        for (int64_t member = first; member < last; member++) {
            struct device *d = &devices[points->device[member]];
            const int64_t at = points->position[member];
            const int even = points->balanced[points->device[member]] && !points->is_message[nth];
            int64_t start = 0, shorter = 0;
            if (d->moves) {
                advance(d, at + 1, unit);
                start = d->start;
                if (d->host_gain) shorter = d->shorter[at];
            }
            if (points->begun) points->begun[member] = start;
            const int64_t arrival = points->wait[member] + start;
            if (!even) awaited = least(awaited, arrival);
            latest = most_of(latest, arrival);
            cut = least(cut, shorter - (even ? points->wait[member] : 0));
        }
        /* If no rank is late, all arrive with the first; if some are no longer late, the others do not wait for them. */
        shift = (awaited < INT64_MAX ? awaited : latest) + most_of(0, cut);
        if (points->given) shift = points->given[nth];
        for (int64_t member = first; member < last; member++) {
            struct device *d = &devices[points->device[member]];
            const int64_t at = points->position[member];
            if (!d->moves && shift) {
                /* Before, all its shifts are 0. */
                memset(d->ends, 0, (size_t)(at + 1) * sizeof *d->ends);
                d->moves = 1, d->at = at + 1;
            }
            if (d->moves) d->ends[at] = shift;
        }
    }
    for (int64_t nth = 0; nth < device_count; nth++)
        if (devices[nth].moves) advance(&devices[nth], devices[nth].until, unit);
}
