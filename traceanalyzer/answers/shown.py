"""Tables and what-if answers as Python users get them: their numbers, and how a prompt and a notebook show them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from traceanalyzer.display import display
from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from traceanalyzer.attribution.replay.what_if import Answer, Change, DeviceAnswer, RunAnswer


SHOWN_ROWS = 20


@dataclass(frozen=True, eq=False)
class RunTable:
    """Rows of a run under a name; nothing is computed before they are asked for."""

    name: str
    relation: duckdb.DuckDBPyRelation

    @property
    def columns(self) -> list[str]:
        return list(self.relation.columns)

    def arrow(self) -> pa.Table:
        rows: pa.Table = self.relation.to_arrow_table()
        return rows

    def df(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.relation.df()

    def pl(self) -> Any:
        """Return the rows as a polars DataFrame; raises TraceAnalyzerError where polars is not installed."""
        if find_spec("polars") is None:
            raise TraceAnalyzerError("polars is not installed", self.name, "pip install polars, or take .arrow()")
        return self.relation.pl()

    def __len__(self) -> int:
        return len(self.relation)

    def __repr__(self) -> str:
        return f"{self.name}\n{self.relation.limit(SHOWN_ROWS)}"

    def _repr_html_(self) -> str:
        rows = self.relation.limit(SHOWN_ROWS + 1).fetchall()
        return str(
            display("html.notebook.rows_html", self.name, self.columns, rows[:SHOWN_ROWS], len(rows) > SHOWN_ROWS)
        )


@dataclass(frozen=True, repr=False)
class ShownAnswer:
    """What a change saves, per device and for the run; `print` and notebooks show what `traceanalyzer whatif` shows."""

    answer: Answer
    name: str  # of the run

    @property
    def change(self) -> Change:
        """The change that was asked about."""
        return self.answer.change

    @property
    def devices(self) -> tuple[DeviceAnswer, ...]:
        """What it saves on each device."""
        return self.answer.devices

    @property
    def run(self) -> RunAnswer | None:
        """What it saves for the run; None: the run has one device."""
        return self.answer.run

    def __repr__(self) -> str:
        return str(display("results.what_if_text", self.answer, self.name))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else repr(self))

    def _repr_html_(self) -> str:
        return str(display("html.notebook.what_if_html", self.answer, self.name))
