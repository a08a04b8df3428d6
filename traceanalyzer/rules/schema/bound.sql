-- One row per device: what fixing a rule saves there, and the time that the rule claims. Only the SQL of that rule can
-- read it: a rule with `claims` finds its own rows here, and `sql` finds no such table.
CREATE TABLE bound (
    trace         VARCHAR,           -- traces.trace
    rank          INTEGER,           -- traces.rank
    device        INTEGER,           -- devices.device
    trace_id      INTEGER,           -- traces.trace_id
    window_ns     BIGINT,            -- length of the analysis window
    step_count    INTEGER,           -- kept steps in it; 0: no steps were found
    step_ms       DOUBLE,            -- mean time of a kept step; NULL without steps
    launch_link_share DOUBLE,        -- share of compute time whose launch is in the trace
    mode          VARCHAR,           -- training, inference or unknown
    bound_ns      BIGINT,            -- what the window loses at most: the replay with the claims removed and the operations shortened. With `scope: run`, what the run loses if the fix is made on this device alone. NULL: bounds cannot be trusted here
    bound_share   DOUBLE,            -- bound_ns as a share of the window; with `scope: run`, of the longest window
    run_ns        BIGINT,            -- with `scope: run`: what the run loses if the fix is made on every device; else NULL
    run_share     DOUBLE,            -- run_ns as a share of the longest window
    saving_sum_ns BIGINT,            -- plain sum of `op_saving`; bound_ns is the part of it that shortens the window
    claimed_ns    BIGINT,            -- time that the claims select, before findings share it out
    claimed_share DOUBLE,            -- claimed_ns as a share of the window
    claimed_count BIGINT,            -- ledger rows or kernels that the claims select
    resolved_share DOUBLE,           -- share of the claimed time whose reason was recorded and not inferred
    ms_per_step   DOUBLE,            -- bound_ns per kept step
    step_share    DOUBLE,            -- share of the kept steps that have claimed time
    worst_ms      DOUBLE,            -- longest claimed row; 0: none
    worst_step    BIGINT,            -- step of that row
    noise_share   DOUBLE,            -- twice the standard error of the mean step, at most 5 %: a smaller bound is not reported
    after_fixes   BOOLEAN,           -- other fixes count as made: what hides behind them now is in bound_ns and not in the claimed time
    per           VARCHAR            -- 'a step' or 'in the window', for messages
);
