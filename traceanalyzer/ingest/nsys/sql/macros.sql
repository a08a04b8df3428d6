-- Whether a process (or a thread's process) belongs to the trace being written. Without a scope there is one trace and
-- everything does; processes that drive no GPU go with the first trace.
CREATE MACRO belongs(global_id) AS (
    getvariable('scope') IS NULL
    OR (global_id & -16777216) = getvariable('scope')
    OR (getvariable('takes_foreign') AND NOT list_contains(getvariable('gpu_scopes'), global_id & -16777216))
);
