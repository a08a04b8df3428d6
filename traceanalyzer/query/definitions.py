"""What a connection defines over its tables: macros, metrics, and tables under their names without a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import duckdb

from traceanalyzer.macros import macro_files
from traceanalyzer.metrics import metrics, metrics_in_order
from traceanalyzer.query.kernel_patterns import pattern_macros

NOT_COMPUTED = "was not computed, as it takes longer than"


def add_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the macros."""
    for text in (macro_files() | pattern_macros()).values():
        connection.execute(text)


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
