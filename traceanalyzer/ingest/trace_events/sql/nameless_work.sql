-- Work without a name: what a call to copy or to fill launched is that (rpd2tracing writes the names of kernels alone).
CREATE OR REPLACE TEMP TABLE nameless_work AS
SELECT
    op_id,
    CASE
        WHEN contains(call_name, 'Memcpy') THEN 'memcpy'
        WHEN contains(call_name, 'Memset') THEN 'memset'
        ELSE 'kernel'
    END AS work_kind,
    CASE work_kind
        WHEN 'kernel' THEN '(no name)'
        WHEN 'memset' THEN 'Memset'
        ELSE concat_ws(' ', 'Memcpy', nullif(regexp_extract(call_name, '[HDA]to[HDA]'), ''))
    END AS work_name,
    nullif(regexp_extract(work_name, '[HD]to[HD]'), '') AS work_copy
FROM device_work WHERE coalesce(name, '') = '';
