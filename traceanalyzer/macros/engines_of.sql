-- The kinds of GPU work (engine_time) in which an operation counts; `has_graphs`: whole graph replays were recorded on
-- its device.
CREATE OR REPLACE MACRO engines_of(kind, is_comm, copy_kind, is_managed, has_graphs) AS
    CASE kind
        WHEN 'kernel'
        THEN ['op', 'op_no_graph', 'kernel', if(is_comm, 'comm', 'compute')]
            || CASE WHEN NOT has_graphs THEN [] WHEN is_comm THEN ['kernel_or_graph'] ELSE ['kernel_or_graph', 'compute_or_graph'] END
        WHEN 'graph' THEN ['op', 'graph', 'kernel_or_graph', 'compute_or_graph']
        WHEN 'memcpy' THEN ['op', 'op_no_graph', 'memcpy', if(is_managed, 'UVM ', '') || coalesce(copy_kind, 'unknown copy')]
        -- An operation of a TPU: a collective, a wait for a copy, a loop that contains others (loop), or compute.
        WHEN 'op'
        THEN ['op', 'op_no_graph']
            || CASE
                WHEN is_comm THEN ['kernel', 'comm']
                WHEN copy_kind = 'loop' THEN []
                WHEN copy_kind IS NOT NULL THEN ['memcpy', copy_kind]
                ELSE ['kernel', 'compute']
            END
        ELSE ['op', 'op_no_graph', kind]
    END;
