-- One row per device, operator, shapes and types: what its calls cost against the hardware, by the time above the floor.
--
-- Rates are over the device's time (dur_ns), never the host's. Only calls with GPU work count. The floor, the roof and
-- what limits a call are those of operator_floors; `limited_by` is that of most calls. Rank by headroom_ns, the time that
-- a perfect implementation would save at most, and not by a low share: a small operator far from its roof saves nothing.
--
-- columns: trace, rank, device
--   operator          VARCHAR  operator
--   family            VARCHAR  as in operator_models
--   input_shapes      VARCHAR  shapes of its inputs as written, a JSON list
--   input_types       VARCHAR  types of its inputs as written, a JSON list
--   precision         VARCHAR  peak that applies, as in operator_floors
--   call_count        BIGINT   calls
--   flops             HUGEINT  operations of all calls; NULL: unknown for one
--   size_bytes        HUGEINT  least bytes of all calls; NULL: unknown for one
--   dur_ns            BIGINT   sum of the calls' time on the device
--   tflops            DOUBLE   operations per second / 10^12
--   gb_per_s          DOUBLE   least bytes per second / 10^9: the least rate that memory or caches reached
--   flops_per_byte    DOUBLE   operations / least bytes
--   floor_ns          DOUBLE   sum of the floors; NULL: unknown
--   floor_share       DOUBLE   floor_ns / dur_ns; above 1: see status
--   roof              VARCHAR  compute or memory
--   headroom_ns       DOUBLE   dur_ns - floor_ns
--   status            VARCHAR  suspect where a call is, else cache where a call is, else plausible
--   limited_by        VARCHAR  compute, memory, launch, latency, compute below or memory below
SELECT
    trace, rank, device, operator, family, input_shapes, input_types, precision,
    count(*) AS call_count,
    CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
    CASE WHEN count(size_bytes) = count(*) THEN sum(size_bytes) END AS size_bytes,
    CAST(sum(dur_ns) AS BIGINT) AS dur_ns,
    sum(flops)::DOUBLE / nullif(sum(dur_ns) FILTER (WHERE flops IS NOT NULL), 0) / 1000 AS tflops,
    sum(size_bytes)::DOUBLE / nullif(sum(dur_ns) FILTER (WHERE size_bytes IS NOT NULL), 0) AS gb_per_s,
    sum(flops)::DOUBLE / nullif(sum(size_bytes)::DOUBLE, 0) AS flops_per_byte,
    CASE WHEN count(floor_ns) = count(*) THEN sum(floor_ns ORDER BY floor_ns) END AS floor_ns,
    CASE WHEN count(floor_ns) = count(*) THEN sum(floor_ns ORDER BY floor_ns) / nullif(sum(dur_ns), 0) END AS floor_share,
    mode(roof ORDER BY roof) AS roof,
    CASE WHEN count(floor_ns) = count(*) THEN sum(headroom_ns ORDER BY headroom_ns) END AS headroom_ns,
    CASE WHEN bool_or(status = 'suspect') THEN 'suspect' WHEN bool_or(status = 'cache') THEN 'cache' ELSE min(status) END AS status,
    mode(limited_by ORDER BY limited_by) AS limited_by
FROM operator_floors
GROUP BY trace_id, trace, rank, device, operator, family, input_shapes, input_types, precision
ORDER BY trace_id, device, headroom_ns DESC NULLS LAST, dur_ns DESC, operator, input_shapes, input_types, precision
