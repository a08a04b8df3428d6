-- One row per operator whose operations and least bytes follow from its recorded arguments.
--
-- Operators that only call others (aten::linear, aten::conv2d, aten::matmul, aten::contiguous, aten::to …) have no model
-- of their own: what they call has.
--
-- columns:
--   operator  VARCHAR  operator
--   family    VARCHAR  matrix, convolution, attention, elementwise, copy, softmax, norm, reduce, embedding or optimizer
SELECT
    unnest(operators) AS operator,
    family
FROM (
    VALUES
    ('matrix', [
        'aten::mm', 'aten::addmm', 'aten::_addmm_activation', 'aten::_int_mm', 'aten::bmm', 'aten::baddbmm',
        'aten::_scaled_mm', 'aten::_grouped_mm', 'aten::_scaled_grouped_mm', 'aten::mv', 'aten::addmv', 'aten::dot'
    ]),
    ('convolution', ['aten::convolution', 'aten::convolution_backward', 'aten::cudnn_convolution_backward']),
    ('attention', [
        'aten::_scaled_dot_product_flash_attention', 'aten::_scaled_dot_product_efficient_attention',
        'aten::_scaled_dot_product_cudnn_attention', 'aten::_scaled_dot_product_flash_attention_backward',
        'aten::_scaled_dot_product_efficient_attention_backward', 'aten::_scaled_dot_product_cudnn_attention_backward',
        'flash_attn::_flash_attn_forward', 'flash_attn::_flash_attn_backward'
    ]),
    ('elementwise', [
        'aten::add', 'aten::add_', 'aten::sub', 'aten::sub_', 'aten::mul', 'aten::mul_', 'aten::div', 'aten::div_',
        'aten::neg', 'aten::exp', 'aten::exp_', 'aten::log', 'aten::sqrt', 'aten::rsqrt', 'aten::pow', 'aten::tanh',
        'aten::tanh_', 'aten::sigmoid', 'aten::sigmoid_', 'aten::silu', 'aten::silu_', 'aten::gelu', 'aten::relu',
        'aten::relu_', 'aten::threshold', 'aten::hardtanh', 'aten::hardtanh_', 'aten::where', 'aten::masked_fill_',
        'aten::eq', 'aten::ne', 'aten::lt', 'aten::le', 'aten::gt', 'aten::ge', 'aten::logical_not', 'aten::bitwise_and',
        'aten::bitwise_or', 'aten::bitwise_not', 'aten::threshold_backward', 'aten::gelu_backward',
        'aten::silu_backward', 'aten::sigmoid_backward', 'aten::tanh_backward', 'aten::hardtanh_backward'
    ]),
    ('copy', ['aten::copy_']),
    ('softmax', [
        'aten::_softmax', 'aten::_log_softmax', 'aten::_softmax_backward_data', 'aten::_log_softmax_backward_data'
    ]),
    ('norm', [
        'aten::native_layer_norm', 'aten::native_layer_norm_backward', 'aten::native_batch_norm',
        'aten::native_batch_norm_backward', 'aten::cudnn_batch_norm', 'aten::miopen_batch_norm',
        'aten::native_group_norm', 'aten::_fused_rms_norm'
    ]),
    ('reduce', ['aten::sum', 'aten::mean', 'aten::amax', 'aten::amin', 'aten::cumsum']),
    ('embedding', ['aten::embedding', 'aten::embedding_dense_backward', 'aten::index_select']),
    ('optimizer', ['aten::_fused_adam_', 'aten::_fused_adamw_', 'aten::_fused_sgd_'])
) AS models (family, operators)
