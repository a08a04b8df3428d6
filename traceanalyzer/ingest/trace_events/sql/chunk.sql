-- The events of one chunk as written, in file order (rowid); times in ns.
CREATE OR REPLACE TEMP TABLE chunk AS
SELECT
    left(ph, 1) AS phase,
    cat AS raw_category,
    name,
    pid,
    tid,
    ns_of_double(ts) AS start_ns,
    ns_of_double(dur) AS dur_ns,
    dur IS NOT NULL AS has_dur,
    id,
    id2,
    bp,
    s AS scope,
    bind_id,
    flow_in,
    flow_out,
    args,
    ts AS start_us
FROM read_json(
    $path,
    format = 'array',
    maximum_object_size = 67108864,
    columns = {
        ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', ts: 'DOUBLE', dur: 'DOUBLE',
        id: 'VARCHAR', id2: 'JSON', bp: 'VARCHAR', s: 'VARCHAR', bind_id: 'VARCHAR', flow_in: 'VARCHAR',
        flow_out: 'VARCHAR', args: 'JSON'
    }
);
