-- The events of one chunk whose times were quoted, because a double cannot hold them; in file order (rowid).
CREATE OR REPLACE TEMP TABLE chunk AS
SELECT
    left(ph, 1) AS phase,
    cat AS raw_category,
    name,
    pid,
    tid,
    CASE WHEN $unpadded THEN ns_of_unpadded(ts) ELSE ns_of_text(ts) END AS start_ns,
    CASE WHEN $unpadded THEN ns_of_unpadded(dur) ELSE ns_of_text(dur) END AS dur_ns,
    dur IS NOT NULL AS has_dur,
    id,
    id2,
    bp,
    s AS scope,
    bind_id,
    flow_in,
    flow_out,
    args,
    TRY_CAST(ts AS DOUBLE) AS start_us
FROM read_json(
    $path,
    format = 'array',
    maximum_object_size = 67108864,
    columns = {
        ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', ts: 'VARCHAR', dur: 'VARCHAR',
        id: 'VARCHAR', id2: 'JSON', bp: 'VARCHAR', s: 'VARCHAR', bind_id: 'VARCHAR', flow_in: 'VARCHAR',
        flow_out: 'VARCHAR', args: 'JSON'
    }
);
