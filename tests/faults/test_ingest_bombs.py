"""Work and memory are bounded by what is read: long texts and runs of junk cost themselves alone."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from trace_event_tables import Tables, read, slice_text

from traceanalyzer.ingest.trace_events import reader

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

START = '{"schemaVersion": 1, "traceEvents": ['
MIB = 2**20
MEMORY_MB = 1_000
# The file is inflated to many times of what reading may take.
INGEST = """
import resource, sys
from pathlib import Path
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester

shares = []
options = IngestOptions(report=lambda progress: shares.append(progress.read_bytes / progress.size_bytes))
Path(sys.argv[2]).mkdir()
TraceEventIngester().ingest(Path(sys.argv[1]), Path(sys.argv[2]), options)
assert shares == sorted(shares) and len(shares) >= 5, shares
# ru_maxrss of a new program begins with what its parent held.
status = Path("/proc/self/status")
if status.exists():
    print(int(status.read_text().split("VmHWM:")[1].split()[0]) // 2**10)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20)
"""


def between(middle: str, chunk_bytes: int = MIB) -> Tables:
    return read(
        START + slice_text("before", 1) + middle + "," + slice_text("after", 100) + '], "last": 1}',
        chunk_bytes=chunk_bytes,
    )


@pytest.fixture
def short_lookahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an event be endless that is longer than 256 KiB."""
    monkeypatch.setattr(reader, "LOOKAHEAD_BYTES", 256 * 2**10)
    monkeypatch.setattr(reader, "_GROWTH_BYTES", 32 * 2**10)


@pytest.mark.usefixtures("short_lookahead")
@pytest.mark.parametrize("key", ["name", "cat", "args"])
def test_an_event_longer_than_any_costs_one_event(key: str) -> None:
    text = '"' + "a" * (2 * MIB) + '"'
    endless = '{"ph": "X", "ts": 5, "dur": 1, "' + key + '": ' + (f'{{"a": {text}}}' if key == "args" else text) + "}"
    tables = between("," + endless, chunk_bytes=64 * 2**10)
    assert tables.names() == ["before", "after"]
    assert tables.defects == {"unreadable-event": 1}
    assert [row["key"] for row in tables["metadata"]] == ["last", "schemaVersion"]


@pytest.mark.usefixtures("short_lookahead")
def test_an_endless_last_event_leaves_those_before_it() -> None:
    tables = read(START + slice_text("before", 1) + ',{"ph": "X", "name": "' + "a" * (2 * MIB), chunk_bytes=64 * 2**10)
    assert tables.names() == ["before"]
    assert tables.defects == {"unreadable-event": 1, "truncated": 1}


@pytest.mark.parametrize("key", ["cat", "pid", "tid", "id"])
def test_a_long_text_is_lost_and_its_event_kept(key: str) -> None:
    tables = between("," + slice_text("x", 20, **{key: '"' + "a" * 70_000 + '"'}))
    assert sorted(map(str, tables.names())) == ["after", "before", "x"]
    assert tables.defects == {"long-text": 1}


def test_a_long_name_is_cut() -> None:
    tables = between("," + slice_text("é" * 70_000, 20))
    assert tables.names() == ["before", "é" * 65_536, "after"]
    assert tables.defects == {"long-text": 1}


def test_long_arguments_are_lost() -> None:
    tables = between("," + slice_text("x", 20, args='{"a": "' + "b" * (9 * MIB) + '"}'))
    assert tables.names() == ["before", "x", "after"]
    assert tables.defects == {"long-text": 1}


def test_a_long_value_outside_the_events_is_lost() -> None:
    tables = read(START + slice_text("kept", 1) + '], "long": "' + "b" * (9 * MIB) + '", "last": 1}')
    assert [row["key"] for row in tables["metadata"]] == ["last", "schemaVersion"]
    assert tables.defects == {"long-text": 1}


@pytest.mark.parametrize(
    ("junk", "defects"),
    [
        ("\0" * MIB, {}),
        ("," * MIB, {"extra-comma": 1}),
        (",1" * 200_000, {"not-an-event": 1001}),
        ('""' * 200_000, {"not-an-event": 1001, "missing-comma": 1001}),
        (',{"ph":' * 50_000, {"unreadable-event": 50_000}),
        ("{" * MIB, {"unreadable-event": 1, "missing-comma": 1}),
    ],
    ids=["NULs", "commas", "numbers", "quotes", "beginnings", "braces"],
)
def test_runs_of_junk_are_passed_over(junk: str, defects: dict[str, int]) -> None:
    tables = between(junk)
    assert tables.names() == ["before", "after"]
    assert tables.defects == defects


@pytest.mark.parametrize("place", ["before", "between", "after", "in a name"])
def test_a_gzip_bomb_needs_bounded_memory_and_its_progress_moves(tmp_path: Path, place: str) -> None:
    first, last = slice_text("before", 1).encode(), slice_text("after", 9).encode()
    document = {
        "before": (START.encode(), first + b"]}"),
        "between": (START.encode() + first, b"," + last + b"]}"),
        "after": (START.encode() + first + b'], "long": "', b'"}'),
        "in a name": (START.encode() + first + b',{"ph": "X", "name": "', b'"},' + last + b"]}"),
    }[place]
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb") as packed:
        packed.write(document[0])
        for _ in range(256):
            packed.write(b"a" * MIB if place == "in a name" else bytes(MIB))
        packed.write(document[1])
    done = subprocess.run(
        [sys.executable, "-c", INGEST, str(path), str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MEMORY_MB
