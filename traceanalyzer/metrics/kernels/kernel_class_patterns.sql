-- One row per pattern that finds a property of a kernel in its name; the first pattern that matches decides.
--
-- Each aspect (class, tensor_core, precision) is decided separately, by the matching pattern with the lowest position.
-- 'no' stands before 'yes': 'sm80_xmma_gemm_f32f32_f32f32_f32_…_ffma_…' is plain FP32 arithmetic although its name
-- contains 'xmma_gemm'. To add a new kernel, add a row here with a real name as its example; a test checks every
-- example.
--
-- columns:
--   aspect       VARCHAR  class, tensor_core or precision
--   position     INTEGER  order within the aspect; the lowest decides first
--   pattern      VARCHAR  RE2 regular expression, searched for in the name
--   value        VARCHAR  what a match means
--   example      VARCHAR  a name seen in a real trace (shortened)
SELECT aspect, position::INTEGER AS position, pattern, value, example
FROM (
    VALUES
    -- What the kernel does. A helper has the class of the work that it helps: a Winograd transform belongs to its conv.
    ('class', 10, '(?i)[nr]ccl|(^|[^a-z])(mccl|cncl)|cross_device_reduce', 'comm', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),
    -- Kernels that exchange data without NCCL: symmetric memory, FlashInfer, TensorRT-LLM, QuickReduce; then experts.
    ('class', 11, '(?i)multimem_(all|one|two|reduce)|(one|two)_?shot_?all_?reduce|all_?reduce_?(fusion_kernel|prototype|(one|two)_?shot)|lamport|local_device_load|kuserbuffers_|userbuffers_fp', 'comm', 'void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long, unsigned int**)'),
    ('class', 12, '(?i)((deep|hybrid)_ep|\bdpsk::ep)::(\w+::)*\w*(dispatch|combine|notify)|a2a_?(dispatch|combine)|\bEp(Dispatch|Combine)|msccl|nvshmem|rocshmem|\bpplx::|oneccl|FusedMoe\w*Comm', 'comm', 'void deep_ep::internode_ll::dispatch<false, 3, 10, 7168>(void*, float*, int*)'),
    ('class', 20, '(?i)reshape_and_cache|concat_and_cache|store_kvcache|append\w*kv_?cache|set_(mla_)?kv_buffer|gather_\w*_cache|\bk_set_rows|_repack_kernel', 'copy', 'void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16>'),
    -- Inductor lists the operators that a kernel's expressions come from. A matmul among them runs in a kernel of its
    -- own, which ends the list: only templates (triton_tem) multiply.
    ('class', 21, '(?i)^triton_(poi|for|red|per|mix)_\w*(layer|rms|batch|group)_?norm|^triton_(red|per|mix)_\w*mean_mul_pow_rsqrt', 'norm', 'triton_red_fused_addmm_native_layer_norm_2'),
    ('class', 22, '^triton_(red|per|mix)_\w*softmax', 'softmax', 'triton_per_fused__softmax_1'),
    ('class', 23, '^triton_(poi|for)_', 'elementwise', 'triton_poi_fused_convolution_relu_3'),
    ('class', 24, '^triton_(red|per|mix)_', 'reduce', 'triton_red_fused__to_copy_add_marlin_gemm_mean_2'),
    -- Libraries of quantized weights that have no namespace.
    ('class', 18, '^(?:void )?kgemm_4bit_inference', 'gemv', 'void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>(int, int, int, __nv_bfloat16*, unsigned char*, float*, float const*, __nv_bfloat16*)'),
    ('class', 19, '^(?:void )?gemm_half_q_half', 'gemm', 'void gemm_half_q_half_kernel<4, true, false>(__half const*, unsigned int const*, unsigned int const*, unsigned int const*)'),
    -- llama.cpp's.
    ('class', 16, '^(?:void )?convert_unary<', 'elementwise', 'void convert_unary<__half, float>(void const*, float*, long, long, long, long, long, long)'),
    ('class', 17, '^(?:void )?flash_attn_(ext|tile|vec|combine|stream_k|mask)', 'attention', 'void flash_attn_combine_results<256>(float const*, HIP_vector_type<float, 2u> const*, float*, int)'),
    -- A plain function with pointers is a program's own kernel, which no setting of a library changes.
    ('class', 25, '(?i)^(?:void )?\w*(?:gemm|gemv|conv|attention|attn)\w*(?:<\w+(?:, ?\w+){0,2}>)?\([^()]*\*[^()]*\)$', 'other', 'sgemm_naive(int, int, int, float, const float *, const float *, float, float *)'),
    ('class', 26, '(?i)^\w*gemm_?(?:naive|simple|basic|shared|coalesc)\w*(\.kd)?$|^(?:naive|simple|basic|my)_?\w*gemm\w*(\.kd)?$', 'other', 'sgemm_naive'),
    ('class', 30, '(?i)flash_(fwd|bwd)|fmha|attention|fwd_kvcache|attn_(fwd|bwd)|(^|[^a-z])sdpa|gemm_mha|mha_(fwd|bwd)|(Decode|Prefill|POD)With\w*KVCache|MergeStates?Kernel|mqa_logits', 'attention', 'void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128>>'),
    ('class', 31, 'FlashAttn(Fwd|Bwd)|(paged|sparse|flash|decode|splitk|unified|linear|lightning)_attn|[Ss]parseAttn|merge_attn_states|^micro_sdpa|^xqa_|^kernel_mha$', 'attention', 'void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>'),
    ('class', 32, '^_fwd_(grouped_)?kernel(_stage[12]|_split[kK])?(\.kd)?$|^_?bwd_kernel_(dk_?dv|dk_?dvd?q?|dq|fuse)\w*(\.kd)?$|^_?bwd_preprocess(_\w+)?(\.kd)?$|^reduce_segments(\.kd)?$', 'attention', '_fwd_grouped_kernel_stage1'),
    -- AITER's assembly.
    ('class', 27, '\baiter::(pa|mla)_|5aiter\d+(pa|mla)_|^(kn_)?mla_(a\d|dec|pfl|reduce)', 'attention', 'aiter::mla_dec_stage1_bf16_a16w16_subQ16_mqa16'),
    -- SageAttention, whose keys and queries are quantized first.
    ('class', 34, '^_?sage_(fwd|bwd|quant)|^(?:void )?qk_int\d*_sv_\w*attn', 'attention', 'sage_fwd'),
    -- Attention without a softmax, whose state is kept from token to token.
    ('class', 35, '(?i)gated_delta|delta_?rule|fused_recurrent_\w*(fwd|bwd|kernel)|^chunk_(fwd|bwd|gla|kda|delta|retention|simple_gla)_\w*kernel|\bwkv\d', 'attention', 'chunk_gated_delta_rule_fwd_kernel_h_blockdim64'),
    ('class', 40, '(?i)log_?softmax', 'softmax', 'void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>'),
    ('class', 41, '(?i)soft_?max', 'softmax', 'void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 3, false, false>'),
    ('class', 50, '(?i)split_embedding|embedding_(bag|backward)', 'other', 'void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>'),
    ('class', 55, 'fbgemm_gpu', 'other', 'void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(int, int, int, int const*)'),
    ('class', 60, '(?i)multi_tensor_(apply|adam|sgd|lamb|l2norm|scale)|amp_foreach_non_finite|FusedOptimizer|fused_adam|adam_cuda_kernel|\bkOptimizer', 'optimizer', 'void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>'),
    ('class', 70, '(?i)(layer|rms|batch|group|instance)_?norm|(^|[^a-z])(l2|qk)_?norm_|l2norm_(fwd|bwd)|fused_rms_\w*quant|cuCompute\w*Grad|bn_(fw|bw)_|GammaBeta|RowwiseMoments|Compute(InternalGradients|\w*FusedParams)CUDA', 'norm', 'void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)'),
    ('class', 80, '(?i)nchwToNhwc|nhwcToNchw|batched_transpose|transpose_(NCHW|CNHW)|CatArrayBatchedCopy|direct_copy_kernel|copy_kernel|copy_device_to_device|recat_copy|rocclr_copyBuffer|genericReformat|nchwToN|permutationKernel|genericTranspose|transpose(Block|Warp)_kernel|copy(Vectorized|Packed)Kernel|chunk_cat|copy_out_contiguous|cpy_scalar|concat_cont', 'copy', 'void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>'),
    ('class', 81, '^void cpy_f|ShuffleInTensor3|SwapDimension[0-9]', 'copy', 'void tensorflow::functor::ShuffleInTensor3Simple<float, 2, 1, 0, false>(int, float const*)'),
    -- XLA names a fused kernel after its last operations.
    ('class', 82, '^(loop|input|wrapped)_([a-z_]+_)?(transpose|copy|concatenate|slice|dynamic_slice|dynamic_update_slice)(_fusion)?([._][0-9]+)*(\.kd)?$', 'copy', 'input_transpose_fusion.1'),
    ('class', 90, '(?i)splitk_?reduce|ReduceSplitK', 'reduce', 'void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>)'),
    -- What prepares products of experts, and what ends them, multiplies nothing: its template arguments do.
    ('class', 93, '(?i)expandInputRows|computeStrides|finalizeMoe|expert(Maps|PrefixSum)|moe::dev::(finalize|routing|permute)|moe_(sum|align|permute|unpermute|sorting)|MoeSorting', 'other', 'void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16, __nv_bfloat16, (tensorrt_llm::kernels::cutlass_kernels::TmaWarpSpecializedGroupedGemmInput::FpXBlockScalingType)2, false>'),
    ('class', 95, 'cask_cudnn|reduce_wgrad', 'other', 'void cask_cudnn_infer::computeOffsetsKernel<false, false>(cask_cudnn_infer::ComputeOffsetsParams)'),
    ('class', 100, '(?i)scudnn|cudnn_[a-z0-9]*cudnn|convolve|dgrad|wgrad|fprop|winograd|im2col|im2d2col|col2im|vol2col|conv([123]d|olution)|conv_depthwise|depthwise_?conv|ssm_conv|cumm::conv|gen_conv|grouped_conv|bwd_weight|igemm_(fwd|bwd|wrw)|[hsi][0-9]{3,}cudnn|miopen\w*conv|naive_conv|fft2d|gcgemm', 'conv', 'volta_scudnn_128x64_relu_medium_nn_v1'),
    ('class', 105, '^void (dot|nrm2|asum|iamax|reduce_1Block)_kernel<', 'reduce', 'void dot_kernel<double, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<double const>>>(T1)'),
    ('class', 106, '^void (axpy|scal|rot|swap)_kernel\w*<', 'elementwise', 'void axpy_kernel_val<double, double>(cublasAxpyParamsVal<double, double, double>)'),
    ('class', 109, '\bgemmSN_', 'gemm', 'void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<float const>>'),
    ('class', 110, '(?i)gemv|gemmk1|mul_mat_vec', 'gemv', 'void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4>'),
    -- Types of CUTLASS are arguments of kernels of all kinds.
    ('class', 120, '(?i)gemm|cijk_|nvjet|matmul_ogs|triton_(tem|mm)|cutlass\w*(::|\d+)(kernel|device_kernel)|cutlass_\d|cutlass\dx|__myl_Fc', 'gemm', 'nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN'),
    ('class', 119, '^(aclnn\w*_)?(Batch|Quant|Grouped)*Mat[Mm]ul(V[0-9])?(_\w*)?$', 'gemm', 'aclnnMatmul_MatMulV3Common_MatMulV3'),
    ('class', 121, '(?i)(^|_)bmm_[a-z0-9]+_|fused_moe_kernel|fmoe_|fp8_matmul|q4_matmul|marlin|machete|mul_mat_[qf]|wvSpli?tK|lora_(shrink|expand)|[bs]gmv_|(^|[ _:])w\d+a\d+_\w*(sm\d|mm|matmul|moe|kernel)|RNN_(block)?Persist', 'gemm', 'bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_schedS'),
    -- Collectives of programs and compilers. The patterns above take one that is fused with a matmul as that matmul.
    ('class', 122, '^[^<]*(?:(?i:[^a-z](all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|all2all))|[a-z](All(Reduce|Gather|[Tt]o_?[Aa]ll)|ReduceScatter))|^(?i:(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|all2all))', 'comm', 'void tensorrt_llm::kernels::fusedMoeAllToAllKernel<8>(int)'),
    ('class', 123, '^_*((batched|grouped|scaled|block|persistent|fp8|int8|int4|triton)_)*(matmul|mm|bmm)_kernel\w*(\.kd)?$', 'gemm', 'matmul_kernel_persistent'),
    ('class', 125, '^cupy_(copy|take|concatenate)\w*', 'copy', 'cupy_copy__float64_float64'),
    ('class', 126, '^cupy_(sum|mean|max|min|amax|amin|argmax|argmin|prod|any|all|nan(sum|min|max|mean)|count_nonzero|std|var|norm)(__|$)|^cupy_\w*_?reduce', 'reduce', 'cupy_max'),
    ('class', 127, '^cupy_[a-z0-9_]+__[a-z0-9_]+$|^cupy_(where|add|subtract|multiply|(true_|floor_)?divide|power|sqrt|exp|log|abs|absolute|sin|cos|maximum|minimum|fill|arange)$', 'elementwise', 'cupy_add__float64_float64_float64'),
    -- CUDA.jl: Julia's names follow the length of the name, as all mangled names do.
    ('class', 128, '^(_Z\d+)?(gpu_)?(broadcast_kernel|map_kernel|getindex_kernel|setindex_kernel|fill_kernel)', 'elementwise', 'gpu_broadcast_kernel_linear(CompilerMetadata<DynamicSize, DynamicCheck>)'),
    ('class', 129, '^(_Z\d+)?(partial_mapreduce_grid|big_mapreduce_kernel|partial_scan)', 'reduce', 'partial_mapreduce_grid(identity, add_sum, Float64)'),
    ('class', 131, '^(loop|input|wrapped)_([a-z_]+_)?(gather|scatter)(_fusion)?([._][0-9]+)*(\.kd)?$', 'gather', 'input_scatter_fusion_2'),
    ('class', 132, '^(loop|input)_([a-z_]+_)?reduce(_window)?_fusion([._][0-9]+)*(\.kd)?$', 'reduce', 'input_reduce_fusion'),
    ('class', 133, '^(loop|input)_[a-z_]+_fusion([._][0-9]+)*(\.kd)?$|^wrapped_[a-z_]+([._][0-9]+)*(\.kd)?$|^fusion([._][0-9]+)*(\.kd)?$', 'elementwise', 'loop_multiply_fusion'),
    -- Rows at places that an index gives: moved one by one, whatever else the name says.
    ('class', 135, '(?i)_scatter_gather_|index(Select|Func|Add|Copy)\w*Index|vectorized_gather|\bk_get_rows|indexing_backward|EmbeddingBag_|compute_grad_weight|segment_(coo|csr|reduce)\w*kernel|\bscatter_(add_|max_)?kernel', 'gather', 'void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel<true, at::native::OpaqueType<4> > >'),
    -- TensorRT writes the first letters of the operations that it fused.
    ('class', 136, '^__myl_\w*Max\w*Exp\w*Sum', 'softmax', '__myl_MulMaxSubExpSumDivMul_0x1b2c'),
    ('class', 137, '^__myl_\w*Mea', 'norm', '__myl_bb0_8_ResTraCasAddMeaSubMulMeaAddSqrDivMulMulAddRes_com_vec'),
    ('class', 138, '^__myl_(bb\d+_\d+_)?((Mov|Tra|Res|Con|Sli|Rep)[a-z]?)+_', 'copy', '__myl_Move_myl0_0'),
    ('class', 139, '^__myl_|^generatedNativePointwise|cuEltwise', 'elementwise', 'generatedNativePointwise'),
    ('class', 140, '(?i)elementwise|k_bin_bcast|quantize|(^|_)quant(_|$)|scaled_quant|token_quant|(silu|gelu|swiglu|geglu)_|gated_act|unary_(gated_)?op|^scale_f32|hadamard|triu_tril|parallel_for::Parallel|rocprim::\S*transform_kernel|moe::dev::activation|do(Gated)?Activation|rocclr_fillBuffer|scalePackedTensor|SubTensorOp|OpTensor|dropout|EigenMetaKernel|_and_mul_kernel|rotary|\brope_|_rope_|(norm|bias)rope|cast_transpose|rnncell|(lstm|gru)_cell', 'elementwise', 'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >'),
    ('class', 145, '(?i)(device|block_?)?(radix|merge)_?sort|block_(sort|merge)|radixFindKth|radix_?(select|topk)|sortKV|(^|[^s])top_?[kp](_|[^a-z]|top|s|fo|mo|ga)|samplingfrom', 'sort', 'void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, float, int>::Policy800, false, long, float>'),
    ('class', 147, '^(?:void )?(vector|regular|multi|composite|preloading)\w*_fft|(^|_)fft_(rtc|fwd|back)_|\b[sd]p(Radix|Vector)\d|(?i:vkfft)', 'fft', 'void regular_fft<1024u, EPT<4u>, 16u>'),
    ('class', 150, '(?i)reduce_?kernel|lookback_scan|single_scan_kernel|scan_(innermost|outer)_dim|DeviceReduce|DeviceScan|DeviceSegmented', 'reduce', 'void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, unsigned int, float, 4> >'),
    -- Whether matmuls run on tensor cores (matrix cores). Plain FP32 and FP64 arithmetic first.
    ('tensor_core', 10, 'ffma|simt|f32f32_f32f32_f32', 'no', 'sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_split_k_kernel__5x_cublas'),
    ('tensor_core', 20, '(?:^|_| )[sdcz]gemm(?:_|$)|gcgemm', 'no', 'volta_sgemm_64x64_nt'),
    ('tensor_core', 25, 'magma_[a-z]*gemm', 'no', 'void magma_sgemmEx_kernel<float, __nv_bfloat16, __nv_bfloat16, true, false, 6, 4, 6, 3, 4>(int, int, int)'),
    ('tensor_core', 30, '(?:^|_)scudnn_', 'no', 'cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1'),
    ('tensor_core', 35, '(?i)gemv|gemmk1|mul_mat_vec|kgemm_4bit_inference', 'no', 'void gemmk1_kernel<float, 256, 5, false, false, false, false>'),
    ('tensor_core', 40, 'convolve_[a-z]*gemm|dgrad_engine|dgrad2d_alg|wgrad_alg|wgrad2d_alg|winograd|Winograd|fft2d|depthwise|im2col', 'no', 'void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*)'),
    ('tensor_core', 45, '(?i)bf16bf16|f16f16|tf32f32|e4m3|e5m2|e2m1', 'yes', 'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas'),
    ('tensor_core', 50, '(?:^|_)[hsi]?(?:884|1688|16816|161616|8816|16832)(?:gemm|cudnn|fprop|dgrad|wgrad|_)', 'yes', 'void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align4>'),
    ('tensor_core', 51, '(?i)tensorop|hmma|imma|wgmma|gmma|nvjet|warpgroupsize|tensor[0-9]+x[0-9]+x[0-9]+', 'yes', 'nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN'),
    ('tensor_core', 53, '(?i)flash_(fwd|bwd)|FlashAttn(Fwd|Bwd)|fmha|(native|oss)_sdpa', 'yes', 'void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4>>'),
    ('tensor_core', 54, '(?i)mfma|_MI[0-9]+x[0-9]+x|xdl|_gtcx', 'yes', 'Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN_LDSB1_AFC1'),
    ('tensor_core', 55, 'ImplicitGemmMultistage', 'yes', '_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22ImplicitGemmMultistageINS_4gemm9G'),
    ('tensor_core', 56, 'bf16xbf16|bf16xmxfp4', 'yes', '_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu'),
    -- The precision of a matmul's inputs. 'float' comes last, because nearly all accumulators are float.
    -- Tensile writes the type of the inputs first, after the order of the indices: B, H, S, D, or F8, with or without _.
    ('precision', 2, 'Cijk_A[a-z]+_B[a-z]+_(F8|B8)', 'fp8', 'Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_UserArgs_MT256'),
    ('precision', 4, 'Cijk_A[a-z]+_B[a-z]+_B', 'bf16', 'Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB1_AFC1'),
    ('precision', 5, 'Cijk_A[a-z]+_B[a-z]+_H', 'fp16', 'Cijk_Alik_Bljk_HHS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1'),
    ('precision', 6, 'Cijk_A[a-z]+_B[a-z]+_[DZ]', 'fp64', 'Cijk_Ailk_Bljk_DB_MT32x64x32_MI16x16x4x1_SN_'),
    ('precision', 7, 'Cijk_A[a-z]+_B[a-z]+_S_?MX', 'tf32', 'Cijk_Alik_Bljk_S_MX_B_Bias_HAS_SAV_UserArgs_MT192x16x64_MI16x16x1_SN_LDSB1_AFC1'),
    ('precision', 8, 'Cijk_A[a-z]+_B[a-z]+_S', 'fp32', 'Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64x16_MI16x16x1_SN_LDSB1_AFC1'),
    ('precision', 9, '(?i)e2m1(_?(mx)?e2m1)+', 'fp4', 'bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16tokFp32_t128x8x512_s5_et128x8_m128x8x64_c1x1x1_rM_TN_transOut_schPd2x1x2x3'),
    ('precision', 10, '(?i)e4m3|e5m2|fp8|float8', 'fp8', 'sm90_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n_tilesize128x128x128'),
    ('precision', 20, '(?i)bf16|bfloat16|DF16b|nvjet(_sm[0-9]+)?_t[a-z]t_', 'bf16', 'nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN'),
    ('precision', 30, '(?i)f16f16|fp16|__half|c10::half|half_t\b|(^|_)h[0-9]*gemm|(^|_)h[0-9]{3,}cudnn|tensorop_f16_|nvjet(_sm[0-9]+)?_h[a-z]h_', 'fp16', 'volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn'),
    ('precision', 40, '(?i)dgemm|zgemm|f64f64|[dz]884gemm|(?:[<( ,_]|^)double(?:[>, *)]|$)', 'fp64', 'ampere_dgemm_64x64_nn'),
    ('precision', 50, 'ffma|simt|f32f32_f32f32_f32|(?:^|_)sgemm|(?:^|_)scudnn_|gcgemm', 'fp32', 'ampere_sgemm_128x64_nn'),
    ('precision', 60, 'tf32|tensorop_s1688|nvjet(_sm[0-9]+)?_s[a-z]s_', 'tf32', 'void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>'),
    ('precision', 70, '(?:<|[ (,])float|_fp32(_|$)', 'fp32', 'void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int, float const*)')
) AS patterns (aspect, position, pattern, value, example)
ORDER BY aspect, position
