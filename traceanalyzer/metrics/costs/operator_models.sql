-- One row per operator whose operations and least bytes follow from its recorded arguments.
--
-- Operators that only call others (aten::linear, aten::conv2d, aten::matmul, aten::contiguous, aten::to …) have no model
-- of their own: what they call has.
--
-- columns:
--   operator     VARCHAR  operator
--   family       VARCHAR  matrix, convolution, attention, paged attention, elementwise, copy, softmax, norm, reduce, pool,
--                         embedding (rows that indices name) or optimizer
--   reads        VARCHAR  places of the inputs that it reads, counted from 0, where its bytes are those of inputs alone;
--                         NULL: its family has a formula
--   writes       VARCHAR  places of the inputs whose size the tensors that it writes have; one place stands for each
--   mask_place   INTEGER  place of the list of booleans that says which of `writes` it makes; NULL: all
SELECT unnest(operators) AS operator, family, reads, writes, mask_place
FROM (
    VALUES
    ('matrix', NULL, NULL, NULL, [
        'aten::mm', 'aten::addmm', 'aten::_addmm_activation', 'aten::_int_mm', 'aten::bmm', 'aten::baddbmm',
        'aten::_scaled_mm', 'aten::_grouped_mm', 'aten::_scaled_grouped_mm', 'aten::mv', 'aten::addmv', 'aten::dot',
        'aten::_scaled_mm_v2', 'aten::_scaled_grouped_mm_v2', 'aten::addmm_', 'aten::baddbmm_', 'aten::addmv_'
    ]),
    ('convolution', NULL, NULL, NULL, [
        'aten::convolution', 'aten::convolution_backward', 'aten::cudnn_convolution_backward',
        'aten::_convolution' -- what torch.jit.trace calls
    ]),
    ('attention', NULL, NULL, NULL, [
        'aten::_scaled_dot_product_flash_attention', 'aten::_scaled_dot_product_efficient_attention',
        'aten::_scaled_dot_product_cudnn_attention', 'aten::_scaled_dot_product_flash_attention_backward',
        'aten::_scaled_dot_product_efficient_attention_backward', 'aten::_scaled_dot_product_cudnn_attention_backward',
        'flash_attn::_flash_attn_forward', 'flash_attn::_flash_attn_backward', 'flash_attn::_flash_attn_varlen_forward',
        'flash_attn::_flash_attn_varlen_backward', 'aten::_flash_attention_forward', 'aten::_flash_attention_backward',
        'aten::_efficient_attention_forward', 'aten::_efficient_attention_backward', 'aiter::_flash_attn_forward',
        'aiter::mha_fwd', 'aiter::fmha_v3_fwd', 'aten::_scaled_dot_product_fused_attention_overrideable',
        'aten::_scaled_dot_product_fused_attention_overrideable_backward'
    ]),
    -- How long each sequence is, a tensor of theirs says, and which blocks of the cache it has.
    ('paged attention', NULL, NULL, NULL, [
        'vllm::unified_attention', 'vllm::unified_attention_with_output', '_vllm_fa2_C::varlen_fwd', '_vllm_fa3_C::fwd',
        'aiter::mha_batch_prefill', 'sgl_kernel::fwd'
    ]),
    ('elementwise', NULL, NULL, NULL, [
        'aten::add', 'aten::add_', 'aten::sub', 'aten::sub_', 'aten::mul', 'aten::mul_', 'aten::div', 'aten::div_',
        'aten::neg', 'aten::exp', 'aten::exp_', 'aten::log', 'aten::sqrt', 'aten::sqrt_', 'aten::rsqrt', 'aten::pow',
        'aten::tanh', 'aten::tanh_', 'aten::sigmoid', 'aten::sigmoid_', 'aten::silu', 'aten::silu_', 'aten::gelu',
        'aten::relu', 'aten::relu_', 'aten::threshold', 'aten::hardtanh', 'aten::hardtanh_', 'aten::where',
        'aten::masked_fill_', 'aten::eq', 'aten::ne', 'aten::lt', 'aten::le', 'aten::gt',
        'aten::ge', 'aten::logical_not', 'aten::logical_and', 'aten::logical_or', 'aten::bitwise_and',
        'aten::bitwise_or', 'aten::bitwise_not', 'aten::threshold_backward', 'aten::gelu_backward',
        'aten::silu_backward', 'aten::sigmoid_backward', 'aten::tanh_backward', 'aten::hardtanh_backward',
        'aten::abs', 'aten::sin', 'aten::cos', 'aten::atan2', 'aten::reciprocal', 'aten::maximum', 'aten::minimum',
        'aten::remainder', 'aten::clamp', 'aten::clamp_', 'aten::clamp_min', 'aten::clamp_min_',
        'aten::clamp_max', 'aten::clamp_max_', 'aten::addcmul', 'aten::addcmul_', 'aten::addcdiv', 'aten::addcdiv_',
        'aten::lerp', 'aten::lerp_', 'aten::native_dropout', 'aten::_fused_dropout', 'aten::leaky_relu',
        'aten::leaky_relu_', 'aten::elu', 'aten::softplus', 'aten::hardswish', 'aten::hardswish_', 'aten::hardsigmoid'
    ]),
    ('elementwise', '', '0', NULL, [
        'aten::zero_', 'aten::normal_', 'aten::uniform_', 'aten::exponential_', 'aten::random_'
    ]),
    ('elementwise', '1', '0', NULL, [
        'aten::fill_', 'aten::bernoulli_', '_C::silu_and_mul', '_C::gelu_and_mul', '_C::gelu_tanh_and_mul',
        'sgl_kernel::silu_and_mul', 'sgl_kernel::gelu_and_mul', 'sgl_kernel::gelu_tanh_and_mul'
    ]),
    ('elementwise', '0,1', '0', NULL, ['aten::native_dropout_backward', 'aten::_transform_bias_rescale_qkv']),
    ('elementwise', '0,1', '1', NULL, ['aten::glu_backward']),
    ('elementwise', '0,1,2', '1', NULL, ['aten::mse_loss_backward']),
    ('copy', '1', '0', NULL, ['aten::copy_']),
    ('copy', '1,2', '0', NULL, ['_C::static_scaled_fp8_quant']),
    ('copy', '1', '0,2', NULL, ['_C::dynamic_scaled_fp8_quant']),
    ('copy', '1,3', '0,2', NULL, ['_C::dynamic_per_token_scaled_fp8_quant']),
    ('softmax', NULL, NULL, NULL, ['aten::_softmax', 'aten::_log_softmax']),
    -- The gradient and the output that the forward pass made.
    ('softmax', '0,1', '0', NULL, ['aten::_softmax_backward_data', 'aten::_log_softmax_backward_data']),
    ('norm', '0,2,3', '0', NULL, ['aten::native_layer_norm']),
    ('norm', '0,1,2', '0', NULL, [
        'aten::native_batch_norm', 'aten::cudnn_batch_norm', 'aten::miopen_batch_norm', 'aten::_batch_norm_with_update',
        'aten::native_group_norm'
    ]),
    ('norm', '0,2', '0', NULL, ['aten::_fused_rms_norm']),
    ('norm', '0,1', '0', NULL, ['aiter::rms_norm']),
    ('norm', '0,2,3', '0', NULL, ['aiter::_groupnorm_run']),
    ('norm', '1,2', '0', NULL, ['_C::rms_norm', 'aiter::rmsnorm', 'sgl_kernel::rmsnorm']),
    ('norm', '0,1,2', '0,1', NULL, ['_C::fused_add_rms_norm', 'sgl_kernel::fused_add_rmsnorm']),
    ('norm', '1,2,4', '0,3', NULL, ['aiter::add_rmsnorm', 'aiter::rmsnorm2d_fwd_with_add_ck']),
    ('norm', '0,1,5', '1,5,5', 7, ['aten::native_layer_norm_backward']),
    ('norm', '0,1,2', '1,2,2', 9, ['aten::native_batch_norm_backward', 'aten::batch_norm_backward']),
    ('norm', '0,1,2', '0,2,2', NULL, ['aten::cudnn_batch_norm_backward', 'aten::miopen_batch_norm_backward']),
    ('norm', '0,1,4', '1,4,4', 9, ['aten::native_group_norm_backward']),
    ('norm', '0,1,4', '1,4', 5, ['aten::_fused_rms_norm_backward']),
    ('reduce', NULL, NULL, NULL, [
        'aten::sum', 'aten::mean', 'aten::amax', 'aten::amin', 'aten::cumsum', 'aten::max', 'aten::min', 'aten::argmax',
        'aten::argmin', 'aten::all', 'aten::any', 'aten::var', 'aten::std', 'aten::var_mean', 'aten::norm',
        'aten::linalg_vector_norm', 'aten::topk', 'aten::sort', 'aten::mse_loss'
    ]),
    ('pool', NULL, NULL, NULL, ['aten::max_pool2d_with_indices', 'aten::avg_pool2d', 'aten::_adaptive_avg_pool2d']),
    ('pool', '0,7', '1', NULL, ['aten::max_pool2d_with_indices_backward']),
    ('pool', '0', '1', NULL, ['aten::avg_pool2d_backward', 'aten::_adaptive_avg_pool2d_backward']),
    ('embedding', NULL, NULL, NULL, [
        'aten::embedding', 'aten::embedding_dense_backward', 'aten::index_select', 'aten::gather',
        '_C::rotary_embedding', 'sgl_kernel::rotary_embedding', '_C_cache_ops::reshape_and_cache_flash',
        '_C_cache_ops::reshape_and_cache', 'sglang::store_cache'
    ]),
    ('optimizer', NULL, NULL, NULL, ['aten::_fused_adam_', 'aten::_fused_adamw_', 'aten::_fused_sgd_'])
) AS models (family, reads, writes, mask_place, operators)
