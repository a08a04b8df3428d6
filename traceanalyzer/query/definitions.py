"""What a connection defines over its tables: macros, metrics, and tables under their names without a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import duckdb

from traceanalyzer.metrics import in_reading_order, metrics, metrics_in_order
from traceanalyzer.query.kernel_patterns import pattern_macros

NOT_COMPUTED = "was not computed, as it takes longer than"
_CALLED = re.compile(r"(\w+)\s*\(")


def add_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the macros."""
    for text in (macro_files() | pattern_macros()).values():
        connection.execute(text)


@cache
def macro_files() -> dict[str, str]:
    """Return the definition of every macro that has a file by name, each after those that it calls."""
    files = sorted((Path(__file__).parent / "macros").glob("*.sql"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    calls = {name: set(_CALLED.findall(text)) & texts.keys() - {name} for name, text in texts.items()}
    return {name: texts[name] for name in in_reading_order(calls)}


def define_metric(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    kind: Literal["TABLE", "VIEW"],
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Define one metric, after those that it reads; raise ValueError with its name where its query is wrong."""
    query = replaced.get(name, metrics_in_order()[name].sql)
    try:
        connection.execute(f"CREATE OR REPLACE {kind} main.{name} AS {query}")
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException) as error:
        raise ValueError(f"metric {name}: {error}") from error


def define_not_computed(connection: duckdb.DuckDBPyConnection, name: str, limit_s: float) -> None:
    """Define a metric whose rows could not be had in time: every query of it fails with these words."""
    why = f"'the metric {name} {NOT_COMPUTED} {limit_s:g} s'"
    columns = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in metrics()[name].columns)
    connection.execute(
        f"CREATE OR REPLACE VIEW main.{name} AS SELECT {columns} FROM range(1) WHERE error({why}) IS NULL"
    )


def add_pass_through(connection: duckdb.DuckDBPyConnection, schema: str, names: Iterable[str]) -> None:
    """Let queries name tables without their schema, except where a metric has the same name."""
    for name in names:
        if name not in metrics():
            connection.execute(f"CREATE OR REPLACE VIEW main.{name} AS FROM {schema}.{name}")
