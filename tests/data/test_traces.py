"""Traces of a CPU that PyTorch's profiler wrote, recorded by traces/record.py: tables hold what the files do."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from traceanalyzer.cli import main

FOLDER = Path(__file__).parent / "traces"
STEPS = 4
SINGLE = ["autocast", "compiled", "compiling", "memory", "plain", "stacks"]
CATEGORIES = {"cpu_op": "cpu_op", "user_annotation": "annotation", "python_function": "python"}

Query = Callable[[str], list[tuple[Any, ...]]]


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json.gz"


def events_of(path: Path) -> list[dict[str, Any]]:
    """Return the events of a file with every number as it is written."""
    loaded: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    return loaded


@pytest.fixture
def query(store_of: Callable[[Path], Path]) -> Callable[[str], Query]:
    """A function that opens a trace and returns what asks it."""

    def opened(name: str) -> Query:
        def asked(sql: str) -> list[tuple[Any, ...]]:
            path = path_of(name) if name in SINGLE else FOLDER / name
            with ta.open(path, store=store_of(path)) as run:
                return run.sql(sql).fetchall()

        return asked

    return opened


@pytest.mark.check
@pytest.mark.parametrize("name", SINGLE)
def test_slices_and_their_nanoseconds_are_those_of_the_file(name: str, query: Callable[[str], Query]) -> None:
    counts: Counter[str] = Counter()
    dur_ns: Counter[str] = Counter()
    for event in events_of(path_of(name)):
        if event["ph"] == "X" and event.get("cat") in CATEGORIES:
            counts[CATEGORIES[event["cat"]]] += 1
            dur_ns[CATEGORIES[event["cat"]]] += int(event["dur"] * 1000)
    found = query(name)(
        "SELECT category, count(*), sum(dur_ns) FROM host_slices WHERE category <> 'other' GROUP BY ALL"
    )
    assert {category: (count, int(total_ns)) for category, count, total_ns in found} == {
        category: (counts[category], dur_ns[category]) for category in counts
    }


@pytest.mark.check
@pytest.mark.parametrize("name", SINGLE)
def test_steps_are_the_profilers_and_nothing_is_lost(name: str, query: Callable[[str], Query]) -> None:
    ask = query(name)
    assert ask("SELECT count(*) FROM host_slices WHERE name LIKE 'ProfilerStep#%'") == [(STEPS,)]
    assert ask("FROM defects WHERE severity <> 'note'") == []
    assert ask("SELECT count(*) FROM gpu_ops") == [(0,)]


@pytest.mark.check
def test_an_operators_parent_is_the_one_around_it(query: Callable[[str], Query]) -> None:
    """By brute force: the innermost operator of the thread that holds it whole."""
    operators = [event for event in events_of(path_of("plain")) if event.get("cat") == "cpu_op"]
    holds: Counter[tuple[str, str]] = Counter()
    for inner in operators:
        around = [
            outer
            for outer in operators
            if outer is not inner and outer["tid"] == inner["tid"]
            if outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
            if (outer["dur"], -int(outer["args"]["External id"])) > (inner["dur"], -int(inner["args"]["External id"]))
        ]
        if around:
            holds[(min(around, key=lambda outer: outer["dur"])["name"], inner["name"])] += 1
    found = query("plain")(
        "SELECT outer_.name, inner_.name, count(*) FROM host_slices AS inner_ JOIN host_slices AS outer_"
        " ON outer_.slice_id = inner_.op_id WHERE inner_.category = 'cpu_op' GROUP BY ALL"
    )
    assert {(outer, inner): count for outer, inner, count in found} == dict(holds)


def test_allocator_events_add_up_to_what_is_in_use(query: Callable[[str], Query]) -> None:
    raw = [event for event in events_of(path_of("memory")) if event.get("name") == "[memory]"]
    bytes_ = sum(int(event["args"]["Bytes"]) for event in raw)
    found = query("memory")("SELECT count(*), sum(size_bytes) FROM memory_events")
    assert [(count, int(total)) for count, total in found] == [(len(raw), bytes_)]


@pytest.mark.check
@pytest.mark.parametrize("is_renamed", [False, True])
def test_two_recordings_of_one_process_are_one_rank(
    is_renamed: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without PyTorch's names and without a GPU, the process and the times tell."""
    run = tmp_path / "run"
    run.mkdir()
    for number, path in enumerate(sorted((FOLDER / "cycles").iterdir())):
        shutil.copy(path, run / (f"part{number}.json.gz" if is_renamed else path.name))
    assert main(["info", str(run), "--store", str(tmp_path / "store")]) == 0
    assert "one process of unknown rank, recorded 2 times" in capsys.readouterr().out
    assert main(["diagnose", str(run), "--store", str(tmp_path / "store")]) == 0
    assert "in all recordings, worst in " in capsys.readouterr().out


@pytest.mark.check
def test_ranks_of_gloo_are_two_ranks(query: Callable[[str], Query]) -> None:
    ask = query("gloo")
    assert ask("SELECT rank FROM traces ORDER BY rank") == [(0,), (1,)]
    late = ask(
        "SELECT rank, sum(dur_ns) FROM host_slices JOIN traces USING (trace_id) WHERE name = 'augment' GROUP BY rank"
        " ORDER BY rank"
    )
    assert late[1][1] > max(STEPS * 4_000_000, 4 * late[0][1])


def test_recordings_name_no_host_and_no_folder() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < 6_000_000
    for path in FOLDER.rglob("*.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        places = set(re.findall(r'"(/[a-z]+/[a-z]+)/', text)) | set(re.findall(r'"hostname": "(\w*)"', text))
        assert places <= {"/home/user", "trainer"}
