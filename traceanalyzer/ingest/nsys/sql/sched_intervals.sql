-- Scheduling events have no end: each lasts until the thread's next event. The last event of a thread has no end.
CREATE TABLE sched_intervals AS
SELECT *, lead(start) OVER thread_order AS "end"
FROM sched
WINDOW thread_order AS (PARTITION BY globalTid ORDER BY start, event_id);
