"""The export for Perfetto: the original unchanged behind tracks that add up and never overlap."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import corpus_path
from hypothesis import given
from hypothesis import strategies as st
from nsys_export import launched, write_sqlite
from tiers import examples

import traceanalyzer as ta
from traceanalyzer.cli import cli
from traceanalyzer.exports.perfetto import FIRST_PROCESS, padded_us, unpadded_us

SAMPLES = Path(__file__).parents[2] / "sample_traces"
# Of folders of ranks, which are alike, the first.
FILES = sorted(
    next(iter(sorted(path.rglob("*.json.gz"))), path)
    for part in ("kineto", "more")
    for path in (corpus_path() / part).glob("*")
)
FILES = [path for path in FILES if path.name.endswith(".json.gz")]


def exported(source: Path, target: Path, *options: str, store: Path | None = None) -> bytes:
    """Export a trace, and return what was written, unpacked."""
    named = ["--store", str(store or target.parent / "s1")]
    answer = CliRunner().invoke(cli, ["export", "perfetto", str(source), "-o", str(target), *named, "-q", *options])
    assert answer.exit_code == 0, answer.output
    return gzip.decompress(target.read_bytes())


def events(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(data, parse_float=str)["traceEvents"]
    return found


def ns(text: str | int) -> int:
    whole, _, rest = str(text).partition(".")
    return int(whole) * 1000 + int((rest or "0").ljust(3, "0"))


def ours(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in found if event.get("pid", 0) in range(FIRST_PROCESS, FIRST_PROCESS + 10**6)]


def tracks(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = {event["tid"]: event["args"]["name"] for event in ours(found) if event["name"] == "thread_name"}
    return {
        name: [event for event in ours(found) if event["ph"] == "X" and event["tid"] == tid]
        for tid, name in names.items()
    }


@pytest.mark.check
def test_the_original_follows_unchanged_behind_tracks_of_ours(tmp_path: Path) -> None:
    original = gzip.decompress((SAMPLES / "slow_loader" / "rank0.json.gz").read_bytes())
    data = exported(SAMPLES / "slow_loader", tmp_path / "a.json.gz")
    begins = re.search(rb'"traceEvents"\s*:\s*\[', original)
    assert begins is not None
    assert data.startswith(original[: begins.end()]) and data.endswith(original[begins.end() :])
    found = events(data)
    assert len(found) - len(ours(found)) == len(events(original))
    assert {"steps", "ledger", "dataloader-bound", "gaps ≥ 20 µs"} <= tracks(found).keys()
    assert any(event["ph"] == "C" and event["name"].startswith("queue depth stream") for event in ours(found))
    assert [entry.name for entry in tmp_path.iterdir() if not entry.is_dir()] == ["a.json.gz"]


@pytest.mark.check
def test_tracks_never_overlap_and_the_ledger_adds_up(tmp_path: Path) -> None:
    found = events(exported(SAMPLES / "slow_loader", tmp_path / "a.json.gz"))
    for boxes in tracks(found).values():
        ends = 0
        for box in boxes:
            assert ns(box["ts"]) >= ends and ns(box["dur"]) > 0
            ends = ns(box["ts"]) + ns(box["dur"])
    with ta.open(SAMPLES / "slow_loader", store=tmp_path / "s1") as run:
        rows = run.sql("SELECT bucket, sum(dur_ns)::BIGINT FROM attribution.ledger_rows GROUP BY ALL").fetchall()
    sums: Counter[str] = Counter()
    for box in tracks(found)["ledger"]:
        sums[box["args"]["bucket"]] += ns(box["dur"])
    assert dict(sums) == dict(rows)


@pytest.mark.check
def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    exported(SAMPLES / "slow_loader", tmp_path / "a.json.gz")
    exported(SAMPLES / "slow_loader", tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


@pytest.mark.check
def test_a_step_holds_what_touches_it(tmp_path: Path) -> None:
    found = events(exported(SAMPLES / "slow_loader", tmp_path / "a.json.gz", "--step", "3"))
    with ta.open(SAMPLES / "slow_loader", store=tmp_path / "s1") as run:
        ((first, last, base),) = run.sql(
            "SELECT least(host_start_ns, start_ns), greatest(host_end_ns, end_ns), coalesce(base_ns, 0) "
            "FROM attribution.steps JOIN canonical.traces USING (trace_id) WHERE step = 3"
        ).fetchall()
        kernels = run.sql(
            f"SELECT count(*) FROM gpu_ops WHERE start_ns < {last} AND start_ns + dur_ns > {first}"
        ).fetchall()[0][0]
    timed = [event for event in found if event["ph"] == "X"]
    assert all(ns(e["ts"]) < last - base and ns(e["ts"]) + ns(e["dur"]) > first - base for e in timed)
    assert sum(event["pid"] >= 1000 for event in timed if event["pid"] < FIRST_PROCESS) == kernels > 0


@pytest.mark.check
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--step", "99"], "step 99 is not in rank0"),
        (["--rank", "7"], "rank 7 is not in the run"),
        (["--window", "9-3"], "is no window"),
        (["--window", "1-2", "--step", "3"], "both given"),
    ],
)
def test_what_a_run_does_not_hold_is_an_error(options: list[str], words: str, tmp_path: Path) -> None:
    target = tmp_path / "a.json.gz"
    arguments = ["export", "perfetto", str(SAMPLES / "slow_loader"), "-o", str(target), "--store", str(tmp_path / "s1")]
    answer = CliRunner().invoke(cli, [*arguments, *options])
    assert words in str(answer.exception) and not target.exists()


@pytest.mark.check
def test_an_export_of_nsight_systems_comes_from_tables(tmp_path: Path) -> None:
    write_sqlite(tmp_path / "rank0.sqlite", launched())
    found = events(exported(tmp_path / "rank0.sqlite", tmp_path / "a.json.gz"))
    assert sum(event.get("cat") == "kernel" for event in found) == 2


@pytest.mark.check
def test_no_work_crosses_other_work_of_its_track(tmp_path: Path) -> None:
    """Perfetto leaves out slices that cross on one track (google/perfetto#4280, 2026)."""
    source = tmp_path / "rank0.json"
    work = [("a", 7, 100, 10), ("b", 7, 105, 10), ("c", 7, 108, 1), ("d", 7, 110, 4), ("e", 8, 103, 10)]
    args = {"device": 0, "context": 1}
    kernels = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": at, "dur": us}
        | {"args": args | {"stream": stream, "correlation": at}}
        for name, stream, at, us in work
    ]
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": kernels}))
    plain = [str(event["name"]) for event in events(exported(source, tmp_path / "o.json.gz"))]
    (note,) = [name for name in plain if name.startswith("Perfetto leaves out")]
    assert "leaves out 1 of" in note  # b; d begins where a ends, and c lies within b
    found = events(exported(source, tmp_path / "a.json.gz", "--from-tables"))
    drawn = [event for event in found if event.get("cat") == "kernel"]
    assert Counter(event["name"] for event in drawn) == Counter("abcde")
    by_track: dict[int, list[tuple[int, int]]] = {}
    for event in drawn:
        by_track.setdefault(event["tid"], []).append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    assert len(by_track) == 4
    for spans in by_track.values():
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    names = {event["tid"]: event["args"]["name"] for event in found if event["name"] == "thread_name"}
    assert {names[track] for track in by_track} == {"stream 7", "stream 8", "stream 7, beside the work above"}
    again = exported(tmp_path / "a.json.gz", tmp_path / "b.json.gz", "--from-tables", store=tmp_path / "s2")
    streams = {(event["name"], event["args"]["stream"]) for event in events(again) if event.get("cat") == "kernel"}
    assert streams == {(name, stream) for name, stream, _, _ in work}


@pytest.mark.check
def test_ranks_are_one_file_each_in_a_tar_file(corpus: Path, tmp_path: Path) -> None:
    source, target = corpus / "kineto" / "two_ranks_2023", tmp_path / "a.tar"
    arguments = ["export", "perfetto", str(source), "--store", str(tmp_path / "s1"), "-q", "-o"]
    alone = CliRunner().invoke(cli, [*arguments, str(tmp_path / "a.json.gz")])
    assert "2 traces are not one file" in str(alone.exception)
    assert CliRunner().invoke(cli, [*arguments, str(target)]).exit_code == 0
    with tarfile.open(target) as archive:
        assert archive.getnames() == ["perfetto_manifest.json", "rank0-0.json.gz", "rank1-1.json.gz"]
    with ta.open(target, store=tmp_path / "s2", attribution=False) as run:
        assert [trace.rank for trace in run.traces] == [0, 1]


@examples(200)
@given(st.integers(-(2**62), 2**62))
def test_times_are_exact(time_ns: int) -> None:
    whole, _, rest = padded_us(time_ns).lstrip("-").partition(".")
    assert (int(whole) * 1000 + int(rest)) * (-1 if time_ns < 0 else 1) == time_ns and len(rest) == 3
    whole, _, rest = unpadded_us(time_ns).lstrip("-").partition(".")
    assert (int(whole) * 1000 + int(rest)) * (-1 if time_ns < 0 else 1) == time_ns


TABLES = ("gpu_ops", "host_slices", "syncs", "flows", "memory_events", "instants", "counters", "async_slices")
# What numbers events and threads of a file: ours stand in front.
NUMBERS = re.compile(r"_id$|^thread")


def stored(folder: Path) -> tuple[dict[str, Counter[tuple[Any, ...]]], Counter[str]]:
    """Return the events of each table as a multiset, without ours, and the kinds of defects."""
    mine = {row["thread_id"] for row in _read(folder, "threads") if _is_ours(row)}
    tables = {
        table: Counter(
            tuple((key, str(value)) for key, value in row.items() if not NUMBERS.search(key) or key == "external_id")
            for row in _read(folder, table)
            if row.get("thread_id") not in mine and not _is_ours(row)
        )
        for table in TABLES
    }
    return tables, Counter({row["defect"]: row.get("defect_count", 1) for row in _read(folder, "defects")})


def _is_ours(row: dict[str, Any]) -> bool:
    process = str(row.get("pid"))
    return process.isdigit() and int(process) >= FIRST_PROCESS


def _read(folder: Path, table: str) -> list[dict[str, Any]]:
    files = sorted(folder.glob(f"{table}.parquet")) + sorted(folder.glob(f"{table}-*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.check
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_export_of_a_real_trace_holds_the_same_events_and_no_new_defect(
    path: Path, tmp_path: Path, store_of: Callable[[Path], Path]
) -> None:
    exported(path, tmp_path / "a.json.gz", store=store_of(path))
    with ta.open(path, store=store_of(path), attribution=False) as run:
        before, defects_before = stored(run.traces[0].folder)
    with ta.open(tmp_path / "a.json.gz", store=tmp_path / "s2", attribution=False) as run:
        after, defects_after = stored(run.traces[0].folder)
    for table in TABLES:
        assert after[table] == before[table], table
    assert defects_after == defects_before


@pytest.mark.check
def test_ranks_are_one_archive_with_a_manifest_that_puts_them_on_one_clock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    # The same instant, 1,000.5 us after the epoch: the second file counts from 1,000 us on.
    for rank, (base_ns, ts) in enumerate(((0, 1000.5), (1_000_000, 0.5))):
        event = {"ph": "X", "cat": "kernel", "name": "k", "ts": ts, "dur": 20, "pid": 0, "tid": 7}
        document = {
            "schemaVersion": 1,
            "baseTimeNanoseconds": base_ns,
            "distributedInfo": {"rank": rank, "world_size": 2},
            "traceEvents": [{**event, "args": {"device": rank, "stream": 7, "correlation": 1}}],
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document), encoding="utf-8")
    target = tmp_path / "a.tar"
    answer = CliRunner().invoke(
        cli, ["export", "perfetto", str(folder), "-o", str(target), "--store", str(tmp_path / "s"), "-q"]
    )
    assert answer.exit_code == 0, answer.output
    with tarfile.open(target) as archive:
        names = archive.getnames()
        texts = {name: archive.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    manifest = json.loads(texts["perfetto_manifest.json"])["perfetto_manifest"]
    assert (
        texts["perfetto_manifest.json"].lstrip(b"{ \n").startswith(b'"perfetto_manifest"') and manifest["version"] == 1
    )
    first, second = manifest["files"]
    assert [first["path"], second["path"]] == [name for name in names if name != "perfetto_manifest.json"]
    assert first["machine"]["name"].startswith("rank 0") and second["machine"]["name"].startswith("rank 1")
    assert "clocks" not in first and second["clocks"]["sync_to"] == {"file": first["path"]}
    times = []
    for file in (first, second):
        events = json.loads(gzip.decompress(texts[file["path"]]))["traceEvents"]
        (ts,) = [event["ts"] for event in events if event.get("cat") == "kernel"]
        times.append(round(ts * 1000) + file.get("clocks", {}).get("offset_ns", 0))
    assert times[0] == times[1]
