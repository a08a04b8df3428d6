-- Whether a host slice is a step that the program marked for its profiler: PyTorch's ProfilerStep#N, XLA's step_num.
CREATE OR REPLACE MACRO marks_step(category, raw_category, name) AS
    category = 'annotation'
    AND (regexp_matches(name, '^ProfilerStep#\d+$') OR coalesce(raw_category = 'step_num', FALSE));
