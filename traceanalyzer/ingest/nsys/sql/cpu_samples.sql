-- CPU samples: the call chain of each, its innermost function, and the innermost one that somebody could change.
WITH frames AS (
    SELECT
        sample_frame.id, sample_frame.stackDepth AS depth, symbols.value AS function, modules.value AS module,
        coalesce(sample_frame.kernelMode = 1, FALSE) AS is_kernel,
        coalesce(sample_frame.kernelMode = 1, FALSE)
        OR coalesce(
            regexp_matches(
                modules.value,
                'kernel.kallsyms|\[(vdso|vsyscall|Unknown|Broken)|/ld-[^/]*$|/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)[.-][^/]*$|/lib(cuda|nvidia|cudart|cupti|nvrtc|ToolsInjection)[^/]*$|/(lib)?python[0-9.]*[^/]*$|/tmp/nvidia|[Nn]sight'
            ),
            TRUE
        ) AS is_system
    FROM sample_frame
    LEFT JOIN strings AS symbols ON symbols.id = sample_frame.symbol
    LEFT JOIN strings AS modules ON modules.id = sample_frame.module
),
chains AS (
    SELECT
        id,
        arg_min(function, depth) AS function,
        arg_min(module, depth) AS module,
        arg_min(function, depth) FILTER (
            WHERE NOT is_system
              AND NOT regexp_matches(function, '^(0x|\[|[\w ]*\bstd::|__gnu_|__cudart|libcudart_|cudart::|(cudaError )?cuda[A-Z]|_init$|_start$)')
        ) AS own_function,
        coalesce(arg_min(is_kernel, depth), FALSE) AS is_kernel,
        string_agg(translate(coalesce(function, ''), e';\n\r', ':  '), ';' ORDER BY depth DESC) AS stack
    FROM frames
    GROUP BY id
)
SELECT
    cpu_sample.event_id, thread_id,
    cpu_sample.taken + getvariable('base_ns') AS start_ns,
    chains.function, chains.module, chains.own_function, chains.is_kernel, chains.stack
FROM cpu_sample
JOIN chains USING (id)
LEFT JOIN thread_numbers ON thread = globalTid
WHERE globalTid IS NULL
    OR belongs(globalTid)
ORDER BY cpu_sample.event_id;
