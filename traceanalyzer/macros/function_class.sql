-- The class of the program's torch.autograd.Function whose backward pass a node runs. Nodes of PyTorch's own operators end
-- with a number, as AddmmBackward0. NULL too: what torch.compile made, and functions of libraries, which recompute, move
-- data between GPUs or launch kernels of their own.
CREATE OR REPLACE MACRO function_class(name) AS
    CASE
        WHEN NOT regexp_matches(
            name,
            '(?i)CompiledFunction|checkpoint|recompute|offload|DDPSink|(pre|post)backward|TorchTensor|all_?(gather|reduce|to_?all)'
                || '|scatter|gather|broadcast|ReduceAdd|parallel|SyncBatchNorm|Async|fused|flash|xformers|liger|MatMul\d|LayerNorm(Linear|MLP)'
        )
        THEN nullif(regexp_extract(name, '^(autograd::engine::evaluate_function: )?(\w+)Backward$', 2), '')
    END;
