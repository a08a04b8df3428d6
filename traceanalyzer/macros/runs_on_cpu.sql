-- Whether an operator has a kernel for the CPU alone: of oneDNN, NNPACK and MKL, or made for the CPU.
CREATE OR REPLACE MACRO runs_on_cpu(operator) AS
    regexp_matches(operator, '^mkldnn::|^aten::(\w*mkldnn|\w+_for_cpu$|_slow_conv|thnn_conv2d|_mkl_|_nnpack)');
