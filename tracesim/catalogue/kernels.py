"""Kernels with the names, shapes and operators that the libraries of each device family really use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracesim.catalogue.devices import Device
from tracesim.catalogue.keys import unknown_name_error

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
_C_TYPES = {"fp32": "float", "tf32": "float", "fp16": "c10::Half", "bf16": "c10::BFloat16"}

_XMMA_90 = "sm90_xmma_{op}_{types}_tn_n_tilesize128x128x{k}_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
_CONV_90 = (
    "sm90_xmma_fprop_implicit_gemm_{types}_nhwckrsc_nhwc_tilesize128x128x{k}_warpgroupsize1x1x1_g1_"
    "execute_segment_k_off_kernel__5x_cudnn"
)
_CIJK = "Cijk_Alik_Bljk_{type}_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_GRVWA8_GRVWB8_ISA942_WG32_8_1"
_GEMMS = {
    ("volta", "fp32"): "volta_sgemm_128x64_tn",
    ("volta", "fp16"): "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",
    ("ampere", "fp32"): "ampere_sgemm_128x64_tn",
    ("ampere", "tf32"): (
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_execute_kernel_cublas"
    ),
    ("ampere", "fp16"): "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn",
    ("ampere", "bf16"): "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
    ("hopper", "fp32"): (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_"
        "execute_kernel__51_cublas"
    ),
    ("hopper", "tf32"): _XMMA_90.format(op="gemm", types="f32f32_tf32f32_f32", k=32),
    ("hopper", "fp16"): _XMMA_90.format(op="gemm", types="f16f16_f16f32_f32", k=64),
    ("hopper", "bf16"): _XMMA_90.format(op="gemm", types="bf16bf16_bf16f32_f32", k=64),
    ("blackwell", "fp32"): "cutlass_80_simt_sgemm_128x64_8x5_tn_align1",
    ("blackwell", "tf32"): "nvjet_sm100_sss_128x256_32x4_2x1_2cta_v_bz_TNT",
    ("blackwell", "fp16"): "nvjet_sm100_hsh_128x256_64x4_2x1_2cta_v_bz_TNT",
    ("blackwell", "bf16"): "nvjet_sm100_tst_128x256_64x4_2x1_2cta_v_bz_TNT",
    ("cdna", "fp32"): _CIJK.format(type="SB"),
    ("cdna", "fp16"): _CIJK.format(type="HHS_BH"),
    ("cdna", "bf16"): _CIJK.format(type="BBS_BH"),
}
_CONVOLUTIONS = {
    ("volta", "fp32"): "volta_scudnn_128x64_relu_medium_nn_v1",
    ("volta", "fp16"): "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
    ("ampere", "fp32"): "ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    ("ampere", "tf32"): (
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1_"
        "tensor16x8x8_execute_kernel_cudnn"
    ),
    ("ampere", "fp16"): (
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_stage3_warpsize2x2x1_g1_"
        "tensor16x8x16_execute_kernel__5x_cudnn"
    ),
    ("ampere", "bf16"): (
        "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_stage3_warpsize2x2x1_g1_"
        "tensor16x8x16_execute_kernel__5x_cudnn"
    ),
    ("hopper", "fp32"): (
        "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int, "
        "float const*, int, float*, float const*, kernel_conv_params, unsigned long long, int, float, float, int, "
        "float const*, float const*, bool, int, int)"
    ),
    ("hopper", "tf32"): _CONV_90.format(types="tf32f32_tf32f32_f32", k=32),
    ("hopper", "fp16"): _CONV_90.format(types="f16f16_f16f32_f32", k=64),
    ("hopper", "bf16"): _CONV_90.format(types="bf16bf16_bf16f32_f32", k=64),
    ("cdna", "bf16"): "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x128x32_wt32x32x8_ws1x1_wr2x2",
}
# One launch configuration a class: grid, block, registers per thread, shared memory.
_SHAPES = {
    "gemm": ((32, 16, 1), (384, 1, 1), 168, 231_424),
    "conv": ((392, 2, 1), (256, 1, 1), 128, 98_304),
    "elementwise": ((8192, 1, 1), (128, 1, 1), 32, 0),
    "softmax": ((65_536, 1, 1), (512, 1, 1), 32, 2_048),
    "attention": ((32, 8, 16), (128, 1, 1), 255, 81_920),
    "norm": ((8192, 1, 1), (32, 4, 1), 40, 24),
    "reduce": ((1, 1, 1), (512, 1, 1), 32, 16),
    "optimizer": ((330, 1, 1), (512, 1, 1), 48, 0),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the operators that launch it in the forward and in the backward pass."""

    kernel_class: str
    precision: str
    name: str
    forward_ops: tuple[str, ...]
    backward_ops: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int
    shared_memory_bytes: int
    # Rows of a product that reads its weights at 80 % of the bandwidth; None: a product at 60 % of the peak rate.
    row_count: int | None = None

    @property
    def c_type(self) -> str:
        """Return the element type as the profiler writes it in `Input type`."""
        return _C_TYPES[self.precision]

    @property
    def is_compute_bound(self) -> bool:
        """Return whether the core clock limits the kernel, and not the memory clock."""
        return self.kernel_class in ("gemm", "bmm", "conv", "attention")

    def renamed(self, name: str) -> Kernel:
        """Return the same kernel under another name."""
        return replace(self, name=name)


def make_kernel(kernel_class: str, precision: str, device: Device) -> Kernel:
    """Return the kernel of a class as the device's libraries name it; raises for an unknown class."""
    if kernel_class not in _OPERATORS:
        raise unknown_name_error("kernel class", kernel_class, _OPERATORS)
    if precision not in PRECISIONS:
        raise unknown_name_error("precision", precision, PRECISIONS)
    forward, backward = _OPERATORS[kernel_class]
    shape = _SHAPES[kernel_class if kernel_class != "bmm" else "gemm"]
    return Kernel(kernel_class, precision, _name(kernel_class, precision, device), forward, backward, *shape)


_OPERATORS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gemm": (("aten::linear", "aten::addmm"), ("AddmmBackward0", "aten::mm")),
    "bmm": (("aten::matmul", "aten::bmm"), ("BmmBackward0", "aten::bmm")),
    "conv": (
        ("aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution"),
        ("ConvolutionBackward0", "aten::convolution_backward"),
    ),
    "elementwise": (("aten::add",), ("MulBackward0", "aten::mul")),
    "softmax": (("aten::softmax", "aten::_softmax"), ("SoftmaxBackward0", "aten::_softmax_backward_data")),
    "attention": (
        (
            "aten::scaled_dot_product_attention",
            "aten::_scaled_dot_product_flash_attention",
            "aten::_flash_attention_forward",
        ),
        ("ScaledDotProductFlashAttentionBackward0", "aten::_flash_attention_backward"),
    ),
    "norm": (("aten::layer_norm", "aten::native_layer_norm"), ("NativeLayerNormBackward0", "aten::native_layer_norm")),
    "reduce": (("aten::mean",), ("MeanBackward1", "aten::sum")),
    "optimizer": (("aten::_fused_adamw_",), ("aten::_fused_adamw_",)),
}
KERNEL_CLASSES = tuple(_OPERATORS)


def _name(kernel_class: str, precision: str, device: Device) -> str:
    family = device.family
    scalar = _C_TYPES[precision]
    if kernel_class in ("gemm", "bmm"):
        # Volta and CDNA have no TF32 and Volta no BF16: the libraries fall back to plain FP32.
        return _GEMMS.get((family, precision), _GEMMS[family, "fp32"])
    if kernel_class == "conv":
        # Blackwell's libraries run Hopper's convolutions.
        family = "hopper" if family == "blackwell" else family
        plain = _CONVOLUTIONS[family, "bf16" if family == "cdna" else "fp32"]
        return _CONVOLUTIONS.get((family, precision), plain)
    if kernel_class == "elementwise":
        functor = f"at::native::CUDAFunctor_add<{scalar}>"
        return (
            f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul> >"
            f"(int, {functor}, std::array<char*, 3ul>)"
        )
    if kernel_class == "softmax":
        return (
            f"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, {scalar}, float, {scalar}, at::native::"
            f"(anonymous namespace)::SoftMaxForwardEpilogue>({scalar}*, {scalar} const*, int)"
        )
    return _FIXED_NAMES[kernel_class].format(scalar=scalar)


_FIXED_NAMES = {
    "attention": (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
        "cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, false, false, "
        "true, true, false, false>(pytorch_flash::Flash_fwd_params)"
    ),
    "norm": (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<{scalar}, float>(int, float, "
        "{scalar} const*, {scalar} const*, {scalar} const*, float*, float*, {scalar}*)"
    ),
    "reduce": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, "
        "float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float, float, "
        "float>, unsigned int, float, 4, 4>)"
    ),
    "optimizer": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
        "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
        "(at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float const*, "
        "float const*>(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>)"
    ),
}


def input_dims(operator: str, kernel: Kernel, dur_ns: int, device: Device) -> tuple[list[list[int]], list[str]]:
    """Return an operator's input shapes and types; those of matmuls fit the duration at 60 % of the peak."""
    if kernel.kernel_class in ("gemm", "bmm"):
        width = 64 if kernel.kernel_class == "bmm" else 4096
        if kernel.row_count is not None:
            elements = dur_ns * device.memory_gb_per_s * 0.8 / (4 if kernel.c_type == "float" else 2)
            dims = [[kernel.row_count, width], [width, max(64, round(elements / width / 64) * 64)]]
            return _with_bias(operator, dims, kernel)
        flops = dur_ns * 1e-9 * device.tflops(kernel.precision) * 1e12 * 0.6
        if kernel.kernel_class == "bmm":
            batch, rows = 64, max(64, round((flops / (2 * 64 * width)) ** 0.5 / 64) * 64)
            dims = [[batch, rows, width], [batch, width, rows]]
        else:
            rows = max(64, round(flops / (2 * width * width) / 64) * 64)
            return _with_bias(operator, [[rows, width], [width, width]], kernel)
    elif kernel.kernel_class == "optimizer":
        return [], []
    else:
        dims = _DIMS.get(kernel.kernel_class, [[8192, 4096], [8192, 4096]])
    return dims, [kernel.c_type if dim else "Scalar" for dim in dims]


def _with_bias(operator: str, dims: list[list[int]], kernel: Kernel) -> tuple[list[list[int]], list[str]]:
    """Return the shapes and types of a product's operands, with those of what is added to it."""
    if operator == "aten::linear":
        dims = [*dims, [dims[1][1]]]
    elif operator == "aten::addmm":
        dims = [[dims[1][1]], *dims]
    return dims, [kernel.c_type] * len(dims)


_DIMS: dict[str, list[list[int]]] = {
    "conv": [[64, 64, 56, 56], [64, 64, 3, 3], [64]],
    "attention": [[4, 16, 4096, 64]] * 3,
    "softmax": [[4, 16, 4096, 4096], [], []],
}
