-- Whether a host slice of this name traces, lowers or compiles a program: torch.compile, or XLA below its frameworks.
CREATE OR REPLACE MACRO compiles_program(name) AS
    ends_with(name, '(dynamo_timed)')
    OR regexp_full_match(
        name,
        'lower_sharding_computation|backend_compile\w*|trace_to_jaxpr\w*|lower_jaxpr\w*|XlaCompile\w*'
        || '|\w*(Pj[Rr]t|Tfrt|Stream\w*)\w*(Client|Compiler)::Compile\w*|XlaCompil(er|ationCache|ation)::Compile\w*'
        || '|(Cpu|Gpu|Jit|Tpu)Compiler::\w+'
        || '|\$(pxla|pjit|compiler|partial_eval|mlir)\.py:\d+ (lower_sharding_computation|_pjit_lower|compile|from_hlo'
        || '|compile_or_get_cached|backend_compile\w*|trace_to_jaxpr\w*|lower_jaxpr\w*)'
    );
