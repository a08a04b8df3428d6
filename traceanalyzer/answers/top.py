"""What takes most of a run: the largest kernels, operators, modules, ranges, lines of Python, collectives, copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from traceanalyzer.answers.top_questions import COUNTERS, FURTHER, OF_PROGRAMS, QUESTIONS, RANGES_BY_STEP, TopQuestion
from traceanalyzer.diagnosis.flops import NO_PEAKS
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import dicts_of
from traceanalyzer.text.words import ranges

DEFAULT_ROWS = 20


def question_of(what: str, by: str, metric: str | None = None) -> TopQuestion:
    """Return the question whose rows can be ordered as asked; raises TraceAnalyzerError for an order that is none."""
    questions = [QUESTIONS[what], *FURTHER.get(what, ())]
    for question in questions:
        if by in question.by and metric in (None, question.metric):
            return question
    orders = ", ".join(dict.fromkeys(order for question in questions for order in question.by))
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
    is_tree: bool = False  # rows stand below those around them

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
    tree: bool = False,
) -> TopAnswer:
    """Return the largest rows of one of QUESTIONS in the analysis window, or in one step; with `tree` below each other.

    Raises TraceAnalyzerError for an order that the question does not have, and for a rank or step that is not there.
    """
    question = question_of(what, by, RANGES_BY_STEP.metric if what == "ranges" and step is not None else None)
    if tree:
        question = as_tree(question, what)
    if step is not None and not question.has_steps:
        raise TraceAnalyzerError(f"{what} by {by} are not known step by step", "--step", "leave --step out")
    check_rank(con, rank)
    if question is COUNTERS and not con.execute("SELECT count(*) FROM canonical.ncu_files").fetchall()[0][0]:
        hint = "give a table with --ncu FILE: `traceanalyzer record ncu` shows how to write one"
        raise TraceAnalyzerError("the run has no counters of Nsight Compute", "--by", hint)
    answer = _answer(con, question, what, by, rank=rank, step=step, limit=limit)
    if not answer.rows:
        _check(con, "step", step, f"SELECT DISTINCT step FROM {question.steps} ORDER BY step")
    if what == "operators" and not answer.rows and step is None and by in OF_PROGRAMS.by:
        of_programs = _answer(con, OF_PROGRAMS, what, by, rank=rank, step=step, limit=limit)
        return of_programs if of_programs.rows else answer
    if by == "time" and answer.rows and answer.nothing and "host" in question.by:
        # Nothing ran on a device: what takes the host's time is the answer.
        return _answer(con, question, what, "host", rank=rank, step=step, limit=limit)
    return answer


def as_tree(question: TopQuestion, what: str) -> TopQuestion:
    """Return a question whose rows are those of a tree; raises TraceAnalyzerError where they are none."""
    if not question.tree:
        known = ", ".join(name for name, other in QUESTIONS.items() if other.tree)
        raise TraceAnalyzerError(f"{what} are no tree", "--tree", f"it goes with {known}")
    return replace(question, keys=(*question.tree, *question.keys), only=f"NOT ({question.only})")


def _below_each_other(rows: tuple[Mapping[str, Any], ...], question: TopQuestion) -> tuple[Mapping[str, Any], ...]:
    """Return rows in the order of a tree, each with those below it in the order that they have."""
    path, around, _ = question.tree
    shown = {row[path] for row in rows}
    below: dict[str | None, list[Mapping[str, Any]]] = {}
    for row in rows:
        below.setdefault(row[around] if row[around] in shown else None, []).append(row)
    waiting, ordered = list(reversed(below.get(None, []))), []
    while waiting:
        ordered.append(waiting.pop())
        waiting += reversed(below.get(ordered[-1][path], []))
    return tuple(ordered)


def _answer(
    con: duckdb.DuckDBPyConnection,
    question: TopQuestion,
    what: str,
    by: str,
    *,
    rank: int | None,
    step: int | None,
    limit: int,
) -> TopAnswer:
    keys = ", ".join(question.keys)
    values = ", ".join(f"{aggregate} AS {name}" for name, aggregate in question.values.items())
    # Every identifier is one of QUESTIONS.
    query = f"""
        WITH totals AS (
            SELECT {keys}, {values}
            FROM {question.metric}
            WHERE {question.only}
              AND ($rank IS NULL OR rank = $rank)
              AND {"$step IS NULL" if step is None else "step = $step"}
              AND {"kept" if step is None and question.has_steps else "TRUE"}
            GROUP BY {keys}
        )
        SELECT
            *,
            count(*) OVER () AS row_count,
            sum(greatest({question.by[by]}, 0)) OVER () AS all_ns,
            sum({question.by[by]}) FILTER (WHERE {question.outermost or "FALSE"}) OVER () AS covered_ns
        FROM totals
        ORDER BY {question.by[by]} DESC NULLS LAST, {"depth, " if "depth" in question.keys else ""}{keys}
        LIMIT $limit
    """
    place = {"rank": rank, "step": step}
    rows = dicts_of(con.execute(query, {**place, "limit": limit}))
    row_count, whole_ns = (rows[0]["row_count"], int(rows[0]["all_ns"] or 0)) if rows else (0, 0)
    if by in question.wholes:
        whole_ns = int(con.execute(question.wholes[by], place).fetchall()[0][0] or 0)
    has_rest = rows and by == "time" and question.outermost
    elsewhere_ns = max(whole_ns - int(rows[0]["covered_ns"] or 0), 0) if has_rest else 0
    shown: tuple[Mapping[str, Any], ...] = tuple(
        {name: _plain(row[name]) for name in (*question.keys, *question.values)} for row in rows
    )
    nothing = _nothing(question, what, by, shown, row_count)
    is_tree = question.keys[:-1] == question.tree != ()
    shown = _below_each_other(shown, question) if is_tree else shown
    return TopAnswer(what, by, rank, step, shown, row_count, whole_ns, elsewhere_ns, question.metric, nothing, is_tree)


def _nothing(
    question: TopQuestion, what: str, by: str, rows: tuple[Mapping[str, Any], ...], row_count: int
) -> str | None:
    """Say why no row has a value to be ordered by; None where one has. The first row has the largest."""
    if not rows:
        return f"no {what} there. {question.missing}".rstrip()
    largest = rows[0][question.by[by]]
    if largest is None:
        has_shapes = any(row.get("input_shapes") for row in rows)
        because = NO_PEAKS if by == "headroom" and has_shapes else question.unknown
        return f"{by} of all {row_count} {what} is unknown. {because}".rstrip()
    return f"{by} of all {row_count} {what} is 0. {question.meaning}" if largest <= 0 else None


def check_rank(con: duckdb.DuckDBPyConnection, rank: int | None) -> None:
    """Raise TraceAnalyzerError where a rank is named and the run does not hold it."""
    _check(con, "rank", rank, "SELECT DISTINCT rank FROM canonical.traces WHERE rank IS NOT NULL ORDER BY rank")


def _check(con: duckdb.DuckDBPyConnection, kind: str, given: int | None, query: str) -> None:
    if given is None:
        return
    known = [number for (number,) in con.execute(query).fetchall()]
    if given not in known:
        hint = f"{kind}s here: {ranges(known)}" if known else f"the traces name no {kind}s"
        raise TraceAnalyzerError(f"the run has no {kind} {given}", f"--{kind}", hint)


def _plain(value: Any) -> Any:
    """Return a sum, which DuckDB makes as wide as it gets, as a plain number."""
    return int(value) if value is not None and not isinstance(value, str | float | int) else value
