-- Whether a Python frame is a line of the program or of a library: no built-in function (XLA: $time sleep), no module, and none of
-- PyTorch's own frames that lie around every call.
CREATE OR REPLACE MACRO is_python_line(name) AS
    NOT regexp_matches(
        name,
        '^<built-in |^\$[^: ]+ |^nn\.Module: |'
        '(^|/)torch/(_ops|overrides|utils/_device|nn/modules/module)\.py\(\d+\): (__call__|__torch_function__|_(wrapped_)?call_impl)$'
    );
