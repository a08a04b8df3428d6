-- Whether a kernel of a class (of kernel_class) unpacks quantized weights and does nothing else: kernels that multiply, too,
-- have the class of their product. Entries of KV caches, rows of embedding tables and activations are no weights here.
CREATE OR REPLACE MACRO unpacks_weights(class, name) AS
    class NOT IN ('gemm', 'gemv', 'conv', 'attention', 'comm', 'norm')
    AND regexp_matches(name, '(?i)dequant_?i[sz]e_?((u?int)?\d|weight|block|awq|gptq|nf4|fp4)|dequant_weight|weight_?dequant|(awq|gptq)\w*_dequant|[12]x(8|16)_?dequant|reconstruct_(exllama|gptq)|\breconstruct_kernel')
    AND NOT regexp_matches(name, '(?i)embedding|(^|_)kv|cache|activation');
