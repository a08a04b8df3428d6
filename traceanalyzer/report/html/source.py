"""What the sections of a page are made from: the diagnosis, the run's tables, and how much there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import RunVerdict
from traceanalyzer.process import dicts_of
from traceanalyzer.report.html.document import shown_name
from traceanalyzer.text.words import is_tpu

if TYPE_CHECKING:
    import duckdb

_QUERIES = Path(__file__).parent / "queries"


@dataclass(frozen=True)
class Limits:
    """How much of a run goes into a page: rows of a table, slices of an excerpt, letters of a name."""

    rows: int = 200
    slices: int = 1500
    name_letters: int = 4000


class Names:
    """The names that a page's script draws, each once."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._numbers: dict[str, int] = {}

    def number(self, name: str | None) -> int:
        """Return the number of a name, which is added where it is new."""
        return self._numbers.setdefault(shown_name(name, self._longest), len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


@dataclass(frozen=True)
class PageSource:
    """A diagnosis and, where there is one, a connection over the run's tables; sections ask nothing else."""

    diagnosis: Diagnosis
    verdict: RunVerdict
    connection: duckdb.DuckDBPyConnection | None
    limits: Limits
    names: Names = field(hash=False)
    _kept: dict[tuple[str, tuple[Any, ...]], list[dict[str, Any]]] = field(default_factory=dict, hash=False)

    @property
    def model(self) -> str | None:
        """The model of the devices where all are of one; words for time on them go by it."""
        models = {ledger.device_name for ledger in self.diagnosis.ledgers}
        return next(iter(models)) if len(models) == 1 else None

    @property
    def noun(self) -> str:
        """What the devices are called: GPU or TPU."""
        return "TPU" if is_tpu(self.model) else "GPU"

    def rows(self, name: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query in `queries/`; none without a connection."""
        return [] if self.connection is None else dicts_of(self.connection.execute(query(name), list(parameters)))

    def rows_once(self, name: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Return the rows of a query that is asked again and again, and each time reads all of a trace."""
        key = (name, parameters)
        if key not in self._kept:
            self._kept[key] = self.rows(name, parameters)
        return self._kept[key]


@cache
def query(name: str) -> str:
    """Return the text of one of the queries beside this module."""
    return (_QUERIES / f"{name}.sql").read_text(encoding="utf-8")


def queries() -> list[str]:
    """Return the texts of all queries, to define only the metrics that they name."""
    return [query(file.stem) for file in sorted(_QUERIES.glob("*.sql"))]
