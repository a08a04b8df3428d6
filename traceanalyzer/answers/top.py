"""What takes most of a run: the largest kernels, operators, modules, lines of Python, collectives and copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb

from traceanalyzer.errors import TraceAnalyzerError

DEFAULT_ROWS = 20


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
    # Order → query of what shares are of; without one, they are of the sum of the rows.
    wholes: Mapping[str, str] = field(default_factory=dict)
    outermost: str | None = None  # condition of the rows that share no GPU time; where the rows are all of it: None
    has_shares: bool = True
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
_NO_PEAKS = "The peaks of the device are not known: --device NAME says its model where the trace does not."
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
_PASSES = {
    "sum_ns": "sum(forward_ns + backward_ns + recomputed_ns)",
    "forward_ns": "sum(forward_ns)",
    "backward_ns": "sum(backward_ns)",
    "recomputed_ns": "nullif(sum(recomputed_ns), 0)",
}
# As of utilisation: of a module whose operators mostly have no model, the known operations say little.
_FLOPS_OF_MOST = "CASE WHEN 2 * sum(modelled_ns) >= sum(forward_ns + backward_ns + recomputed_ns) THEN sum(flops) END"
_RATE = "sum({rate} * sum_ns) / nullif(sum(sum_ns) FILTER (WHERE {rate} IS NOT NULL), 0)"

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
            "bytes_per_s": _RATE.format(rate="bandwidth_bytes_per_s"),
            "idle_ns": "sum(idle_ns)",
        },
        {"time": "sum_ns", "idle": "idle_ns"},
        "Idle: time without compute that the ledger charges to the copy.",
        wholes={"time": _OPS_OF_STEP},
    ),
    "modules": TopQuestion(
        "modules",
        ("path",),
        {
            "call_count": "sum(call_count)",
            **_PASSES,
            "host_sum_ns": "sum(host_sum_ns)",
            "flops": _FLOPS_OF_MOST,
        },
        {"time": "sum_ns", "flops": "flops"},
        "Time: GPU operations of its forward and backward passes, with those of the modules inside. "
        + _OPERATIONS_OF_MODULES,
        has_steps=False,
        wholes={"time": _OPS_OF_RANK, "flops": _FLOPS},
        outermost="NOT contains(path, '/')",
        missing=_STACKS,
        unknown=_NO_MODEL,
    ),
    "layers": TopQuestion(
        "layers",
        ("path",),
        {
            "module_count": "max(module_count)",
            "call_count": "sum(call_count)",
            **_PASSES,
            "host_sum_ns": "sum(host_sum_ns)",
            "flops": _FLOPS_OF_MOST,
        },
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
    ),
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

_COUNTERS = TopQuestion(
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
_FURTHER: Mapping[str, tuple[TopQuestion, ...]] = {"operators": (_EFFICIENCY, _ALLOCATED), "kernels": (_COUNTERS,)}


def question_of(what: str, by: str) -> TopQuestion:
    """Return the question whose rows can be ordered as asked; raises TraceAnalyzerError for an order that is none."""
    questions = [QUESTIONS[what], *_FURTHER.get(what, ())]
    for question in questions:
        if by in question.by:
            return question
    orders = ", ".join(order for question in questions for order in question.by)
    raise TraceAnalyzerError(f"{what} have no order by {by}", "--by", f"one of {orders}")


@dataclass(frozen=True)
class TopAnswer:
    """The largest rows of a question, and how much there is besides."""

    what: str  # key of QUESTIONS
    by: str
    rank: int | None  # None: all ranks
    step: int | None  # None: the analysis window
    rows: tuple[Mapping[str, Any], ...]  # largest first
    row_count: int  # with those that are not among the rows
    whole_ns: int  # what shares are of: by time that of all GPU operations, else the sum over all rows above zero
    elsewhere_ns: int  # by time: that of the GPU operations that are in no row, shown or not
    metric: str
    nothing: str | None = None  # why no row has a value of the order that was asked for

    @property
    def left_out_count(self) -> int:
        """How many rows are not shown."""
        return self.row_count - len(self.rows)


def top(
    con: duckdb.DuckDBPyConnection,
    what: str,
    by: str = "time",
    *,
    rank: int | None = None,
    step: int | None = None,
    limit: int = DEFAULT_ROWS,
) -> TopAnswer:
    """Return the largest rows of one of QUESTIONS in the analysis window, or in one step.

    Raises TraceAnalyzerError for an order that the question does not have, and for a rank or step that is not there.
    """
    question = question_of(what, by)
    if step is not None and not question.has_steps:
        raise TraceAnalyzerError(f"{what} by {by} are not known step by step", "--step", "leave --step out")
    check_rank(con, rank)
    check_step(con, step)
    if question is _COUNTERS and not con.execute("SELECT count(*) FROM canonical.ncu_files").fetchall()[0][0]:
        hint = "give a table with --ncu FILE: `traceanalyzer record ncu` shows how to write one"
        raise TraceAnalyzerError("the run has no counters of Nsight Compute", "--by", hint)
    keys = ", ".join(question.keys)
    values = ", ".join(f"{aggregate} AS {name}" for name, aggregate in question.values.items())
    # Every identifier is one of QUESTIONS.
    query = f"""
        WITH totals AS (
            SELECT {keys}, {values}
            FROM {question.metric}
            WHERE {question.only}
              AND ($rank IS NULL OR rank = $rank)
              AND {"CASE WHEN $step IS NULL THEN kept ELSE step = $step END" if question.has_steps else "$step IS NULL"}
            GROUP BY {keys}
        )
        SELECT
            *,
            count(*) OVER () AS row_count,
            sum(greatest({question.by[by]}, 0)) OVER () AS all_ns,
            sum({question.by[by]}) FILTER (WHERE {question.outermost or "FALSE"}) OVER () AS covered_ns
        FROM totals
        ORDER BY {question.by[by]} DESC NULLS LAST, {keys}
        LIMIT $limit
    """
    place = {"rank": rank, "step": step}
    cursor = con.execute(query, {**place, "limit": limit})
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    row_count, whole_ns = (rows[0]["row_count"], int(rows[0]["all_ns"] or 0)) if rows else (0, 0)
    if by in question.wholes:
        whole_ns = int(con.execute(question.wholes[by], place).fetchall()[0][0] or 0)
    has_rest = rows and by == "time" and question.outermost
    elsewhere_ns = max(whole_ns - int(rows[0]["covered_ns"] or 0), 0) if has_rest else 0
    shown = tuple({name: _plain(row[name]) for name in (*question.keys, *question.values)} for row in rows)
    nothing = _nothing(question, what, by, shown, row_count)
    return TopAnswer(what, by, rank, step, shown, row_count, whole_ns, elsewhere_ns, question.metric, nothing)


def _nothing(
    question: TopQuestion, what: str, by: str, rows: tuple[Mapping[str, Any], ...], row_count: int
) -> str | None:
    """Say why no row has a value to be ordered by; None where one has. The first row has the largest."""
    if not rows:
        return f"no {what} there. {question.missing}".rstrip()
    largest = rows[0][question.by[by]]
    if largest is None:
        has_shapes = any(row.get("input_shapes") for row in rows)
        because = _NO_PEAKS if by == "headroom" and has_shapes else question.unknown
        return f"{by} of all {row_count} {what} is unknown. {because}".rstrip()
    return f"{by} of all {row_count} {what} is 0. {question.meaning}" if largest <= 0 else None


def check_rank(con: duckdb.DuckDBPyConnection, rank: int | None) -> None:
    """Raise TraceAnalyzerError where a rank is named and the run does not hold it."""
    _check(con, "rank", rank, "SELECT DISTINCT rank FROM canonical.traces WHERE rank IS NOT NULL ORDER BY rank")


def check_step(con: duckdb.DuckDBPyConnection, step: int | None) -> None:
    """Raise TraceAnalyzerError where a step is named and the run does not hold it."""
    _check(con, "step", step, "SELECT DISTINCT step FROM attribution.steps ORDER BY step")


def _check(con: duckdb.DuckDBPyConnection, kind: str, asked: int | None, query: str) -> None:
    from traceanalyzer.text.words import ranges

    if asked is None:
        return
    known = [number for (number,) in con.execute(query).fetchall()]
    if asked not in known:
        hint = f"{kind}s here: {ranges(known)}" if known else f"the traces name no {kind}s"
        raise TraceAnalyzerError(f"the run has no {kind} {asked}", f"--{kind}", hint)


def _plain(value: Any) -> Any:
    """Return a sum, which DuckDB makes as wide as it gets, as a plain number."""
    return int(value) if value is not None and not isinstance(value, str | float | int) else value
