-- GPU work of a part, in which what has no name is what `nameless_work` says.
SELECT
    part.* REPLACE (
        coalesce(work_kind, kind) AS kind,
        coalesce(work_name, name) AS name,
        if(op_id IS NULL, copy_kind, work_copy) AS copy_kind,
        is_comm AND op_id IS NULL AS is_comm
    )
FROM read_parquet($path) AS part LEFT JOIN nameless_work ON op_id = event_id
