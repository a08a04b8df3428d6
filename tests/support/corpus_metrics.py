"""Runs of real traces, opened once for all tests, and the numbers that independent scripts computed for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_path

from traceanalyzer.run import Run, open_run

EXPECTED = corpus_path().parent / "metrics" / "expected"
_FOLDERS = {"resnet50_num_workers_0_": "resnet50_num_workers_0", "two_ranks_2023_": "two_ranks_2023"}


def expected_names(kind: str) -> list[str]:
    """Return the traces for which numbers of a kind are there, none where the numbers are not."""
    return sorted(path.name.removeprefix(f"{kind}.").removesuffix(".json") for path in EXPECTED.glob(f"{kind}.*.json"))


def expected(kind: str, name: str) -> dict[str, Any]:
    """Return the numbers of a kind for a trace."""
    path = EXPECTED / f"{kind}.{name}.json"
    if not path.is_file():
        pytest.skip(f"no expected numbers at {path}")
    numbers: dict[str, Any] = json.loads(path.read_text())
    return numbers


def trace_path(name: str) -> Path:
    """Return the file of a trace, which the names of expected numbers join to its folder with an underscore."""
    for prefix, folder in _FOLDERS.items():
        if name.startswith(prefix):
            return next((corpus_path() / "kineto" / folder).glob(f"{name.removeprefix(prefix)}*"))
    return next(path for path in corpus_path().glob(f"*/{name}.*") if path.suffix in (".gz", ".sqlite", ".json"))


@pytest.fixture(scope="module")
def run_of(store_of: Callable[[Path], Path]) -> Iterator[Any]:
    """Return a function that opens the run of a trace, once for all tests of a module."""
    opened: list[Run] = []

    @cache
    def opening(name: str) -> Run:
        run = open_run(trace_path(name), store=store_of(trace_path(name)))
        opened.append(run)
        return run

    yield opening
    for run in opened:
        run.close()


def table(run: Run, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query by column."""
    answer = run.connection.execute(query)
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
