"""What kernels are, told by their names, and the share of wall time that each is given."""

from __future__ import annotations

import duckdb
import pytest
from fixture_runs import open_fixture

from tracesim import in_memory

# Names as real traces have them; what peers take them for is in the reason.
NAMES = [
    # FP32 arithmetic, although the name holds 'xmma_gemm', which others count as tensor core.
    (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x32x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
        ("gemm", "fp32", "no"),
    ),
    ("volta_sgemm_64x64_nt", ("gemm", "fp32", "no")),
    ("ampere_sgemm_128x64_nn", ("gemm", "fp32", "no")),
    ("cutlass_80_simt_sgemm_128x64_8x5_tn_align1", ("gemm", "fp32", "no")),
    ("volta_scudnn_128x64_relu_medium_nn_v1", ("conv", "fp32", "no")),
    ("cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", ("conv", "fp32", "no")),
    (
        "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)",
        ("conv", "fp32", "no"),
    ),
    ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int)", ("conv", "fp32", "no")),
    ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)", ("conv", "fp32", "no")),
    # Tensor cores whose names others miss.
    ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", ("gemm", "bf16", "yes")),
    ("nvjet_hsh_128x256_64x4_2x1_v_bz_TNT", ("gemm", "fp16", "yes")),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align4>(Params)", ("gemm", "tf32", "yes")),
    (
        "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>(Params)",
        ("gemm", "bf16", "yes"),
    ),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", ("gemm", "fp16", "yes")),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn", ("gemm", "fp16", "yes")),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        ("gemm", "bf16", "yes"),
    ),
    (
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_g1_tensor16x8x8",
        ("conv", "tf32", "yes"),
    ),
    ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", ("conv", "bf16", "yes")),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN", ("gemm", "bf16", "yes")),
    (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, cutlass::bfloat16_t>>",
        ("attention", "bf16", "yes"),
    ),
    # AMD's profilers end names as the file of the kernel does.
    ("input_transpose_fusion_1.kd", ("copy", None, None)),
    ("loop_convert_fusion.kd", ("elementwise", None, None)),
    ("input_reduce_fusion.2.kd", ("reduce", None, None)),
    ("_fwd_grouped_kernel_stage1.kd", ("attention", "unknown", "unknown")),
    ("sage_quant_kernel", ("attention", "unknown", "unknown")),
    (
        "void at::native::(anonymous namespace)::ComputeBackwardFusedParamsCUDAKernel<float>(long, long, long)",
        ("norm", None, None),
    ),
    (
        "void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)2>(int)",
        ("elementwise", None, None),
    ),
    ("void qk_int_sv_f16_attn_kernel<128u, 64u, 32u, 64u, 128u>(signed char*)", ("attention", "unknown", "unknown")),
    ("message_fwd", ("other", None, None)),
    # Libraries of quantized weights without a namespace: these are no kernels of the program's own.
    (
        "void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>(int, int, int, __nv_bfloat16*, unsigned char*)",
        ("gemv", "bf16", "no"),
    ),
    (
        "void gemm_half_q_half_kernel<4, true, false>(__half const*, unsigned int const*, unsigned int const*)",
        ("gemm", "fp16", "unknown"),
    ),
    (
        "void at::native::(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, int>(at::Accessor<float>)",
        ("conv", "fp32", "no"),
    ),
    (
        "void RNN_blockPersist_fp_LSTM<float, float, float, float, (cudnnRNNBiasMode_t)2, 16, 64>(PersistentRNN)",
        ("gemm", "fp32", "unknown"),
    ),
    # No matrix products, whatever their names hold.
    ("void kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>(float*, float*, float)", ("optimizer", None, None)),
    (
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u>(__nv_bfloat16*)",
        ("elementwise", None, None),
    ),
    ("void elemWiseRNNcell<__half, __half, float, (cudnnRNNMode_t)2>(int, int)", ("elementwise", None, None)),
    ("at::native::xpu::ReduceKernel<1, at::native::xpu::ReduceOp>", ("reduce", None, None)),
    ("void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int)", ("other", None, None)),
    ("void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>(int)", ("copy", None, None)),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)", ("copy", None, None)),
    ("void splitKreduce_kernel<float, float, float, float, true, false, false>(int)", ("reduce", None, None)),
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16>(int)", ("gemv", "bf16", "no")),
    (
        "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 3>(int)",
        ("softmax", None, None),
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
        ("elementwise", None, None),
    ),
    ("triton_red_fused_native_layer_norm_0", ("norm", None, None)),
    # Exchanges of engines and of programs, whatever they are fused with.
    *(
        (name, ("comm", None, None))
        for name in (
            "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16>((anonymous namespace)::Data)",
            "void (anonymous namespace)::all_reduce_two_shot_kernel<__nv_bfloat16, 8u>(host::AllReduceData const*)",
            "void tensorrt_llm::kernels::fused_moe_impl::fusedMoeCommKernel(int)",
            "void aiter::local_device_load_rmsnorm_naive<__hip_bfloat16, 8>(aiter::RankSignals)",
            "void pplx::allToAllDispatchKernel(int)",
            "oneccl_allgatherv_kernel_bf16",
            "_all_gather_kernel",
            "reduce_scatter_ring_kernel",
        )
    ),
    # No exchange, whatever their arguments are called.
    ("void cub::DeviceReduceKernel<cub::AllReduceLike>()", ("reduce", None, None)),
    ("small_reduce_all(float*)", ("other", None, None)),
    ("triton_poi_fused_all_gather_into_tensor_2", ("elementwise", None, None)),
    ("cutlass_gemm_all_reduce_kernel", ("gemm", "unknown", "unknown")),
    # Attention that is called after a convolution's pass, a matmul, or neither.
    *(
        (name, ("attention", "unknown", tensor_core))
        for name, tensor_core in (
            ("cudnn_generated_oss_sdpa_sm100_flash_fprop_knob_3_128x128x128_4x1x1_cga1x1x1_kernel0_0", "yes"),
            ("kernel_cutlass_kernel___main__BlackwellFusedMultiHeadAttentionForward_object_at__TiledMMA", "unknown"),
            ("void deep_gemm::sm90_fp_paged_mqa_logits<1u, 64u>", "unknown"),
            ("kernel_mha", "unknown"),
            ("xqa_kernel_dt_d_128_beam_1_pagedKV_64_nqpkv_4_m_4_sm_90", "unknown"),
            ("aiter::mla_a16w16_qh16_m16x4_n16x1_coex0_mask1_ps", "unknown"),
            ("_ZN5aiter22pa_pertoken_gqa8_2tg_4wE", "unknown"),
            ("kn_mla_reduce_v1<ck_tile>", "unknown"),
            ("void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u>(int)", "unknown"),
            ("void flashinfer::PrefillWithKVCacheKernel<flashinfer::CollectiveMainloop<int> >(int)", "unknown"),
            ("bwd_kernel_dk_dv.kd", "unknown"),
            ("void cutlass::device_kernel<flat::kernel::FlatKernelTmaWarpSpecializedDeltaRule<int> >(int)", "unknown"),
        )
    ),
    # Types of CUTLASS, and arguments that name a matmul, make none.
    ("void moe::dev::finalize::finalizeKernel<Params<cutlass::bfloat16_t, 4, true> >(int)", ("other", None, None)),
    ("void moe::dev::activation::activationDeepSeekKernel<cutlass::float_e4m3_t>(int)", ("elementwise", None, None)),
    ("kernel_cutlass_kernel_flashinferquantizationkernelsnvfp4_quantizeNVFP4Quantize_0", ("elementwise", None, None)),
    ("void cutlass::device_kernel<cutlass::Universal<cute::tuple<int> > >(int)", ("gemm", "unknown", "unknown")),
    ("_ZN7cutlass13device_kernelINS_9UniversalINS_4ShapeE", ("gemm", "unknown", "unknown")),
    ("void wvSpltK_hf_sml_<64, 2, 16, 8, 2, 2>(int, int)", ("gemm", "unknown", "unknown")),
    ("void machete::MacheteKernel<int>(int)", ("gemm", "unknown", "unknown")),
    ("void w4a16_moe_sm90_kernel<Trait<32> >(Params)", ("gemm", "unknown", "unknown")),
    (
        "bmm_E2m1_E2m1E2m1_Fp32_Ab16_Bb16_Cb16_t128x16x512u2_s5_et128x16_m128x16x64_c1x1x1_rM_TN_transOut",
        ("gemm", "fp4", "yes"),
    ),
    ("__myl_TranReshMove_myl3_7", ("copy", None, None)),
    ("__myl_CastMulAdd_0x4d3f", ("elementwise", None, None)),
    ("void rocprim::detail::radix_sort_block_sort_kernel<int>(int)", ("sort", None, None)),
    ("void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(int)", ("sort", None, None)),
    ("void stop_kernel<int>(int)", ("other", None, None)),
    ("fft_rtc_back_len512_factors_8_8_8_wgs_64_tpt_64", ("fft", None, None)),
    ("Fan2(float *, float *, float *, int, int, int)", ("other", None, None)),
]


def device_work(*ops: tuple[str, int, int]) -> list[dict[str, object]]:
    return [
        {"op_id": i, "stream": i, "kind": "kernel", "name": name, "start_ns": start, "dur_ns": end - start}
        for i, (name, start, end) in enumerate(ops)
    ]


@pytest.fixture(scope="module")
def named() -> duckdb.DuckDBPyConnection:
    return open_fixture(None, {"gpu_ops": device_work(*((name, 0, 1) for name, _ in NAMES))})


@pytest.mark.parametrize(("name", "expected"), NAMES, ids=[name[:60] for name, _ in NAMES])
def test_kernel_is_known_by_its_name(
    named: duckdb.DuckDBPyConnection, name: str, expected: tuple[str, str | None, str | None]
) -> None:
    query = "SELECT class, precision, tensor_core FROM kernel_class_names WHERE name = $1"
    assert named.execute(query, [name]).fetchone() == expected


def test_the_example_of_every_pattern_is_decided_by_it() -> None:
    con = in_memory.connect_tables({})
    wrong = con.execute(
        """
        SELECT examples.aspect, examples.position, examples.example, min(patterns.position)
        FROM kernel_class_patterns AS examples
        LEFT JOIN kernel_class_patterns AS patterns
               ON patterns.aspect = examples.aspect AND regexp_matches(examples.example, patterns.pattern)
        GROUP BY ALL
        HAVING min(patterns.position) IS DISTINCT FROM examples.position
        """
    ).fetchall()
    assert wrong == []


@pytest.mark.check
@pytest.mark.parametrize("aspect", ["class", "precision", "tensor_core"])
def test_the_macros_decide_as_the_table_says(aspect: str) -> None:
    con = in_memory.connect_tables({})
    names = [row[0] for row in con.execute("SELECT DISTINCT example FROM kernel_class_patterns ORDER BY 1").fetchall()]
    assert len(names) > 30
    for name in [*names, *(half.swapcase() for half in (n[: len(n) // 2] for n in names)), "it's"]:
        by_table = con.execute(
            """
            SELECT arg_min(value, position)
            FROM kernel_class_patterns
            WHERE aspect = $aspect AND regexp_matches($name, pattern)
            """,
            {"aspect": aspect, "name": name},
        ).fetchone()
        assert con.execute(f"SELECT kernel_{aspect}_of($1)", [name]).fetchone() == by_table, name


def test_patterns_have_a_total_order() -> None:
    con = in_memory.connect_tables({})
    query = "SELECT count(*) - count(DISTINCT (aspect, position)) FROM kernel_class_patterns"
    assert con.execute(query).fetchone() == (0,)


def test_kernels_that_run_at_once_share_the_wall_time() -> None:
    #  0        10        20        30        40
    #  a: [-------------------)                      20 ns alone or with b, c
    #  b:         [-----------)
    #  c:         [-------------------)
    ops = device_work(("a", 0, 20), ("b", 8, 20), ("c", 8, 32), ("nccl", 0, 40))
    ops[3]["is_comm"] = True
    ledger = [{"row_id": 0, "kept": True, "bucket": "compute", "start_ns": 0, "dur_ns": 32}]
    con = open_fixture(None, {"gpu_ops": ops, "attribution.ledger_rows": ledger})
    rows = dict(con.execute("SELECT name, wall_ns FROM kernel_class").fetchall())
    assert rows == {"a": 12, "b": 4, "c": 16, "nccl": 0}


def test_time_outside_the_window_is_nobodys() -> None:
    ops = device_work(("a", 0, 20), ("b", 30, 40))
    ledger = [{"row_id": 0, "kept": True, "bucket": "compute", "start_ns": 5, "dur_ns": 15}]
    con = open_fixture(None, {"gpu_ops": ops, "attribution.ledger_rows": ledger})
    assert con.execute("SELECT name, wall_ns FROM kernel_class ORDER BY name").fetchall() == [("a", 15), ("b", 0)]


def test_wall_times_add_up_to_the_compute_time_of_a_simulated_window() -> None:
    con = open_fixture({"steps": 4, "kernels": 50, "comm_us": 3000, "comm_blocking": False}, {})
    compute = con.execute("SELECT sum(dur_ns) FROM ledger_rows WHERE kept AND bucket = 'compute'").fetchone()
    wall = con.execute("SELECT sum(wall_ns), count(*) FROM kernel_class").fetchone()
    assert compute is not None
    assert wall is not None
    assert abs(compute[0] - wall[0]) <= wall[1]


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "sm_count", "tf32"),
    [
        ("NVIDIA H100 80GB HBM3", 132, 494.0),
        ("NVIDIA H100 PCIe", 114, 378.0),
        ("NVIDIA H100 NVL", 132, 417.0),
        ("NVIDIA H200", 132, 494.0),
        ("NVIDIA A100-PG509-200", 108, 156.0),
        ("Tesla V100-DGXS-32GB", 80, None),
        ("AMD Instinct MI300X", 304, 653.7),
        ("NVIDIA GH200 480GB", 132, 494.0),
    ],
)
def test_device_is_matched_by_name_and_size(name: str, sm_count: int, tf32: float | None) -> None:
    tables = {"gpu_ops": device_work(("a", 0, 1)), "devices": [{"name": name, "sm_count": sm_count}]}
    row = open_fixture(None, tables).execute("SELECT tf32_tflops, source FROM device_peaks").fetchone()
    assert row is not None
    assert (row[0], row[1].startswith("https://")) == (tf32, True)


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "sm_count", "half_tflops", "memory_gb_per_s"),
    [
        ("NVIDIA GH200 480GB", 132, 989, 4000),
        ("NVIDIA GH200 144G HBM3e", 132, 989, 4900),
        ("NVIDIA H100 80GB HBM3", 132, 989, 3350),
        ("NVIDIA B200", 148, 2250, 8000),
        ("NVIDIA B300 SXM6 AC", 148, 2250, 8000),
        ("NVIDIA A10", 72, 125, 600),
        ("NVIDIA A10G", 80, 70, 600),
        ("Tesla V100S-PCIE-32GB", 80, 130, 1134),
        ("Tesla V100-PCIE-32GB", 80, 112, 900),
    ],
)
def test_variants_of_a_model_have_rates_of_their_own(
    name: str, sm_count: int, half_tflops: float, memory_gb_per_s: float
) -> None:
    tables = {"gpu_ops": device_work(("a", 0, 1)), "devices": [{"name": name, "sm_count": sm_count}]}
    row = open_fixture(None, tables).execute("SELECT half_tflops, memory_gb_per_s FROM device_peaks").fetchone()
    assert row == (half_tflops, memory_gb_per_s)


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "sm_count", "link_gb_per_s"),
    [
        ("NVIDIA H100 80GB HBM3", 132, 450),
        ("NVIDIA H100", 132, None),
        ("NVIDIA GH200 480GB", 132, None),
        ("NVIDIA A100-SXM4-80GB", 108, 300),
        ("NVIDIA A100-PCIE-40GB", 108, None),
    ],
)
def test_links_are_known_only_where_the_name_says_the_form(
    name: str, sm_count: int, link_gb_per_s: float | None
) -> None:
    tables = {"gpu_ops": device_work(("a", 0, 1)), "devices": [{"name": name, "sm_count": sm_count}]}
    row = open_fixture(None, tables).execute("SELECT link_gb_per_s FROM device_details").fetchone()
    assert row == (link_gb_per_s,)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "device", [{"name": "NVIDIA X1"}, {"name": "NVIDIA H100 80GB HBM3", "sm_count": 16}, {"name": None}]
)
def test_unknown_device_has_no_peaks(device: dict[str, object]) -> None:
    tables = {"gpu_ops": device_work(("a", 0, 1)), "devices": [device]}
    row = open_fixture(None, tables).execute("SELECT fp32_tflops, source FROM device_peaks").fetchone()
    assert row == (None, None)
