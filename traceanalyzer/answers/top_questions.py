"""The questions that `top` answers: which metric has the rows, and what they are summed and ordered by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class TopQuestion:
    """A question: the metric that answers it, what its rows are summed by, and how."""

    metric: str
    keys: tuple[str, ...]  # columns that name a row of the answer
    values: Mapping[str, str]  # column of the answer → aggregate of the metric's columns
    by: Mapping[str, str]  # what rows may be ordered by → column of the answer
    meaning: str
    only: str = "TRUE"  # condition of the rows that count
    has_steps: bool = True  # the metric has rows of single steps, and says which lie in the analysis window
    steps: str = "attribution.steps"  # what has the steps that it knows
    # Order → query of what shares are of; without one, they are of the sum of the rows.
    wholes: Mapping[str, str] = field(default_factory=dict)
    outermost: str | None = None  # condition of the rows that share no GPU time; where the rows are all of it: None
    has_shares: bool = True
    share_of: str = "the time of all GPU operations"  # by time, where there is a query of it
    tree: tuple[str, ...] = ()  # columns of the rows of a tree: their path, the path around, depth; only has none of it
    missing: str = ""  # why there may be no rows
    unknown: str = ""  # why rows may have no value to be ordered by


_OPS_OF_RANK = """
    SELECT sum(ops.dur_ns)
    FROM canonical.gpu_ops AS ops
    JOIN canonical.traces AS traces USING (trace_id)
    WHERE ($rank IS NULL OR traces.rank = $rank)
      AND $step IS NULL
"""
_OPS_OF_STEP = """
    SELECT sum(ops.dur_ns)
    FROM canonical.gpu_ops AS ops
    JOIN canonical.traces AS traces USING (trace_id)
    JOIN gpu_op_steps AS steps USING (trace_id, op_id)
    WHERE ($rank IS NULL OR traces.rank = $rank)
      AND CASE WHEN $step IS NULL THEN steps.kept ELSE steps.step = $step END
"""
_FLOPS = "SELECT sum(flops) FROM operator_costs WHERE ($rank IS NULL OR rank = $rank) AND $step IS NULL"
_OPERATIONS_OF_MODULES = "Operations: empty where less than half of the time is in operators with a model."
_NO_OPERATORS = (
    "PyTorch's profiler records them with ProfilerActivity.CPU, and Nsight Systems does inside "
    "torch.autograd.profiler.emit_nvtx()."
)
_ELSEWHERE = "Kernels that exchange data without such a library are of the class comm in `top kernels`."
_NO_MODEL = (
    "Operations are known of operators with a model whose input shapes were recorded: record_shapes=True of "
    "torch.profiler.profile, or of torch.autograd.profiler.emit_nvtx with Nsight Systems."
)
_STACKS = "Python stacks were not recorded: torch.profiler.profile(with_stack=True)"

_CALLS = {"call_count": "sum(call_count)", "sum_ns": "sum(sum_ns)"}
# As of utilisation: of a module whose operators mostly have no model, the known operations say little.
_FLOPS_OF_MOST = "CASE WHEN 2 * sum(modelled_ns) >= sum(forward_ns + backward_ns + recomputed_ns) THEN sum(flops) END"
_RATE = "sum({rate} * sum_ns) / nullif(sum(sum_ns) FILTER (WHERE {rate} IS NOT NULL), 0)"

_OF_MODULES = {
    "call_count": "sum(call_count)",
    "sum_ns": "sum(forward_ns + backward_ns + recomputed_ns)",
    "forward_ns": "sum(forward_ns)",
    "backward_ns": "sum(backward_ns)",
    "recomputed_ns": "nullif(sum(recomputed_ns), 0)",
    "host_sum_ns": "sum(host_sum_ns)",
    "flops": _FLOPS_OF_MOST,
}
_LAYERS = TopQuestion(
    "layers",
    ("path",),
    {"module_count": "max(module_count)", **_OF_MODULES},
    {"time": "sum_ns", "host": "host_sum_ns", "flops": "flops"},
    "Modules of one class at one place are one layer. Time: GPU operations of its forward and backward passes, "
    "with those of the layers inside. " + _OPERATIONS_OF_MODULES,
    has_steps=False,
    wholes={
        "time": _OPS_OF_RANK,
        "flops": _FLOPS,
        "host": "SELECT sum(host_sum_ns) FROM layers WHERE ($rank IS NULL OR rank = $rank) AND $step IS NULL "
        "AND NOT contains(path, '/')",
    },
    outermost="NOT contains(path, '/')",
    missing=_STACKS,
    unknown=_NO_MODEL,
)

QUESTIONS = {
    "kernels": TopQuestion(
        "kernels_by_step",
        ("name", "class"),
        {**_CALLS, "mean_ns": "sum(sum_ns) / sum(call_count)", "max_ns": "max(max_ns)", "idle_ns": "sum(idle_ns)"},
        {"time": "sum_ns", "idle": "idle_ns"},
        "Idle: time without any GPU operation that ends with the start of the kernel.",
        wholes={"time": _OPS_OF_STEP},
    ),
    "operators": TopQuestion(
        "operators_by_step",
        ("name",),
        {**_CALLS, "host_self_ns": "sum(host_self_ns)", "idle_ns": "sum(idle_ns)"},
        {"time": "sum_ns", "host": "host_self_ns", "idle": "idle_ns"},
        "Time: GPU operations that the operator itself launched. Idle: time without compute that the ledger charges to "
        "work inside it.",
        wholes={"time": _OPS_OF_STEP},
        outermost="TRUE",
        missing=_NO_OPERATORS,
    ),
    "collectives": TopQuestion(
        "collectives_by_step",
        ("name", "group_desc", "group_size"),
        {
            **_CALLS,
            "max_ns": "max(max_ns)",
            "size_bytes": "sum(size_bytes)",
            "bus_bytes_per_s": _RATE.format(rate="bus_bytes_per_s"),
            "idle_ns": "sum(idle_ns)",
        },
        {"time": "sum_ns", "idle": "idle_ns"},
        "Time: with the wait for the last rank, so that the bus bandwidth is a lower bound. Idle: time without compute "
        f"that the ledger charges to the collective. {_ELSEWHERE}",
        wholes={"time": _OPS_OF_STEP},
        missing=f"No kernel of NCCL, RCCL or another library of collectives ran. {_ELSEWHERE}",
    ),
    "copies": TopQuestion(
        "copies_by_step",
        ("name",),
        {
            **_CALLS,
            "max_ns": "max(max_ns)",
            "size_bytes": "sum(size_bytes)",
            "sized_count": "sum(sized_count)",
            "bytes_per_s": "sum(size_bytes) / nullif(sum(size_bytes / nullif(bandwidth_bytes_per_s, 0)), 0)",
            "idle_ns": "sum(idle_ns)",
        },
        {"time": "sum_ns", "idle": "idle_ns"},
        "Idle: time without compute that the ledger charges to the copy.",
        wholes={"time": _OPS_OF_STEP},
    ),
    "modules": replace(
        _LAYERS,
        metric="modules",
        values=_OF_MODULES,
        meaning="Time: GPU operations of its forward and backward passes, with those of the modules inside. "
        + _OPERATIONS_OF_MODULES,
    ),
    "layers": _LAYERS,
    "lines": TopQuestion(
        "python_lines",
        ("name",),
        {
            "call_count": "sum(call_count)",
            "sum_ns": "sum(device_ns)",
            "host_self_ns": "sum(host_self_ns)",
            "idle_ns": "sum(idle_ns)",
        },
        {"time": "sum_ns", "host": "host_self_ns", "idle": "idle_ns"},
        "Time: GPU operations launched in the function, or in built-in functions that it calls. Idle: time that "
        "devices waited for it.",
        has_steps=False,
        wholes={"time": _OPS_OF_RANK},
        outermost="TRUE",
        missing=_STACKS,
    ),
    "ranges": TopQuestion(
        "ranges",
        ("name",),
        {
            "busy_ns": "sum(busy_ns)",
            "call_count": "sum(call_count)",
            "host_sum_ns": "sum(host_sum_ns)",
            "self_ns": "sum(host_self_ns)",
            "mean_ns": "sum(dur_sum_ns - cut_sum_ns) / nullif(sum(call_count - cut_count), 0)",
            "idle_ns": "sum(idle_ns)",
            "op_count": "sum(op_count)",
        },
        {"time": "busy_ns", "host": "host_sum_ns", "idle": "idle_ns"},
        "GPU busy: time in which work that was launched inside runs, wherever the host is by then. Host, self, mean: "
        "durations on the host, self without the ranges inside; the mean leaves out ranges that were open when the "
        "recording stopped. Idle: time inside in which the GPU did nothing. Ranges inside others share all this.",
        only="path IS NULL",
        has_steps=False,
        wholes={"time": "SELECT sum(busy_ns) FROM device_time WHERE ($rank IS NULL OR rank = $rank) AND $step IS NULL"},
        share_of="the time in which GPUs work",
        tree=("path", "parent_path", "depth"),
        missing="torch.profiler.record_function(NAME), torch.cuda.nvtx.range(NAME) and jax.profiler.TraceAnnotation("
        "NAME) mark them.",
        unknown="No launch of GPU work was recorded; --by host orders by the host's time.",
    ),
    "iterations": TopQuestion(
        "inference_summary",
        ("rank", "device", "kind"),
        {
            "iteration_count": "sum(iteration_count)",
            "tokens": "sum(tokens)",
            "p50_ns": "max(p50_ns)",
            "p95_ns": "max(p95_ns)",
            "p99_ns": "max(p99_ns)",
            "busy_share": "max(busy_share)",
            "gap_sum_ns": "sum(gap_sum_ns)",
            "tokens_per_s": "sum(tokens_per_s)",
        },
        {"time": "p50_ns", "idle": "gap_sum_ns"},
        "One row for each kind of iteration of an inference engine on a device. Its time is from the start of the "
        "first GPU operation to the end of the last; busy: the part of it with one. Idle: gaps before iterations.",
        has_steps=False,
        has_shares=False,
        missing="No annotation of an iteration of vLLM, SGLang or TensorRT-LLM was recorded.",
    ),
}
_EFFICIENCY = TopQuestion(
    "operator_efficiency",
    ("operator", "input_shapes", "limited_by"),
    {
        "call_count": "sum(call_count)",
        "sum_ns": "sum(dur_ns)",
        "headroom_ns": "sum(headroom_ns)",
        "floor_share": "sum(floor_ns) / nullif(sum(dur_ns) FILTER (WHERE floor_ns IS NOT NULL), 0)",
        "tflops": "nullif(sum(flops), 0) / nullif(sum(dur_ns) FILTER (WHERE flops IS NOT NULL), 0) / 1e3",
        "flops": "sum(flops)",
    },
    {"headroom": "headroom_ns", "flops": "flops"},
    "Headroom: time above the least that the device's data sheet allows for these shapes; empty where unknown. More "
    "than the whole roof: an algorithm with fewer operations (Winograd), data in a cache, or another peak, type or "
    "clock than is assumed; it is not clipped.",
    has_steps=False,
    missing=f"No operator with a model launched GPU work. {_NO_OPERATORS}",
    unknown=_NO_MODEL,
)

# Of a run of XLA, whose devices name the operations of compiled programs, and whose profiles have no operators.
OF_PROGRAMS = TopQuestion(
    "hlo_ops",
    ("name", "category", "limited_by"),
    {
        **_CALLS,
        "mean_ns": "sum(sum_ns) / sum(call_count)",
        "flops_share": _RATE.format(rate="flops_share"),
        "bytes_share": _RATE.format(rate="bytes_share"),
        "headroom_ns": "sum(headroom_ns)",
        "flops": "sum(flops)",
    },
    {"time": "sum_ns", "headroom": "headroom_ns", "flops": "flops"},
    "Operations of compiled programs, in all of the trace; time without that of operations inside. Shares of the peaks "
    "that the profile gives for its device; empty for waits, and where it gives no peaks or no operations.",
    has_steps=False,
    unknown="XLA's profile gives no floating-point operations, or no peaks of the device.",
)

_ALLOCATED = TopQuestion(
    "memory_allocations",
    ("operator",),
    {"allocation_count": "count(*)", "size_bytes": "sum(size_bytes)", "largest_bytes": "max(size_bytes)"},
    {"memory": "size_bytes"},
    "Bytes: all that the operator allocated on devices, freed or not. `traceanalyzer memory` shows what lives at the "
    "peak.",
    only="place = 'device'",
    has_steps=False,
    missing="Allocations on devices were not recorded: profile_memory=True of torch.profiler.profile, or "
    "`nsys profile --cuda-memory-usage=true` or, for AMD's devices, `rocprofv3 --memory-allocation-trace`.",
)

COUNTERS = TopQuestion(
    "ncu_join",
    ("name", "limited_by", "tier"),
    {
        "call_count": "sum(kernel_count)",
        "sum_ns": "sum(sum_ns)",
        "headroom_ns": "sum(headroom_ns)",
        "sm_share": _RATE.format(rate="sm_percent / 100"),
        "memory_share": _RATE.format(rate="memory_percent / 100"),
    },
    {"headroom": "headroom_ns"},
    "Headroom: the time x what is left of the busier of SMs and memory, by counters of Nsight Compute; a ceiling, "
    "and empty for kernels without counters.",
    has_steps=False,
)
# The whole is the time of all that was launched in the step: where a range is open all the time, its share is 100 %.
RANGES_BY_STEP = replace(
    QUESTIONS["ranges"],
    metric="ranges_by_step",
    meaning=QUESTIONS["ranges"].meaning
    + " Ranges are cut to the step on the host; its work is what is launched in it.",
    has_steps=True,
    steps="ranges_by_step",
    wholes={
        "time": """
            WITH launched AS (
                SELECT (ops.trace_id, ops.device) AS key, ops.start_ns, ops.start_ns + ops.dur_ns AS end_ns
                FROM canonical.gpu_ops AS ops
                JOIN canonical.traces AS traces USING (trace_id)
                JOIN canonical.host_slices AS calls
                  ON calls.trace_id = ops.trace_id
                 AND calls.slice_id = coalesce(ops.launch_id, ops.cpu_op_id, ops.annotation_id)
                JOIN attribution.steps AS steps
                  ON steps.trace_id = ops.trace_id
                 AND steps.device = ops.device
                 AND calls.start_ns >= steps.host_start_ns
                 AND calls.start_ns < steps.host_end_ns
                WHERE ($rank IS NULL OR traces.rank = $rank)
                  AND steps.step = $step
            )
            SELECT sum(end_ns - start_ns)
            FROM interval_merge('launched')
        """
    },
    share_of="the time in which GPUs do what was launched in the step",
)
FURTHER: Mapping[str, tuple[TopQuestion, ...]] = {
    "operators": (_EFFICIENCY, _ALLOCATED, OF_PROGRAMS),
    "kernels": (COUNTERS,),
    "ranges": (RANGES_BY_STEP,),
}
