"""Memory snapshots and exported timelines: totals by hand and of a real file; a pickle with code is refused."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from corpus_metrics import EXPECTED

from traceanalyzer.answers.memory_snapshot import read_snapshot, snapshot_totals
from traceanalyzer.answers.memory_timeline import CATEGORIES, memory_file_kind, read_exported_timeline, timeline_totals
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError

FRAMES = [
    {"filename": "/opt/site-packages/torch/nn/linear.py", "line": 9, "name": "forward"},
    {"filename": "net.py", "line": 22, "name": "forward"},
]
SNAPSHOT: dict[str, Any] = {
    "segments": [
        {
            "device": 0,
            "address": 0,
            "total_size": 100,
            "blocks": [
                {"state": "active_allocated", "size": 40, "requested_size": 33, "address": 0, "frames": FRAMES},
                {"state": "active_awaiting_free", "size": 10, "address": 40, "frames": []},
                {"state": "inactive", "size": 50, "address": 50},
            ],
        },
        {"device": 0, "address": 500, "total_size": 30, "blocks": [{"state": "inactive", "size": 30, "address": 500}]},
    ],
    "device_traces": [
        [
            {"action": "alloc", "addr": 7, "size": 60},
            {"action": "alloc", "addr": 0, "size": 40},
            {"action": "free_requested", "addr": 7, "size": 60},
            {"action": "free_completed", "addr": 7, "size": 60},
        ],
        [],
    ],
}


def written(folder: Path, content: bytes) -> Path:
    path = folder / "snapshot.pickle"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("dump", [pickle.dumps, lambda snapshot: json.dumps(snapshot).encode()])
def test_only_free_blocks_beside_used_ones_are_fragments(tmp_path: Path, dump: Any) -> None:
    (totals,) = snapshot_totals(read_snapshot(written(tmp_path, dump(SNAPSHOT))))
    assert (totals.reserved_bytes, totals.allocated_bytes, totals.active_bytes) == (130, 40, 50)
    assert (totals.fragmented_bytes, totals.releasable_bytes, totals.rounding_bytes) == (50, 30, 7)
    assert (totals.before_bytes, totals.peak_bytes, totals.peak_entry) == (10, 110, 1)
    assert not totals.history_begins_late
    assert totals.lines == {"net.py:22 forward": 40, "(no frames: older than the history)": 10}


def test_a_history_that_frees_what_it_never_allocated_begins_late(tmp_path: Path) -> None:
    late = SNAPSHOT | {"device_traces": [[{"action": "free_completed", "addr": 99, "size": 8}]]}
    (totals,) = snapshot_totals(read_snapshot(written(tmp_path, pickle.dumps(late))))
    assert totals.history_begins_late
    assert (totals.before_bytes, totals.peak_bytes, totals.peak_entry) == (58, 58, None)


class Payload:
    """What a hostile file would run."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_names_code_is_refused_with_its_opcode(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "ran"
    content = pickle.dumps({"segments": [Payload(target)]}, protocol)
    with pytest.raises(TraceAnalyzerError, match=r"has the opcode (GLOBAL|STACK_GLOBAL)"):
        read_snapshot(written(tmp_path, content))
    assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x04.", pickle.dumps([1]), pickle.dumps(SNAPSHOT)[:-9], b"{"])
def test_what_is_no_snapshot_is_an_error_and_no_traceback(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TraceAnalyzerError):
        read_snapshot(written(tmp_path, content))


def test_rows_of_one_time_happen_together(tmp_path: Path) -> None:
    rows = [[-1, 1, 10, 0], [5, 2, 30, 3], [5, 4, -10, 0], [6, 3, -30, 3], [6, 3, 30, 4]]
    totals = timeline_totals(read_exported_timeline(written(tmp_path, json.dumps(rows).encode())))
    assert (totals.older_bytes, totals.peak_bytes, totals.peak_ns) == (10, 30, 5)
    assert dict(zip(CATEGORIES, totals.at_end, strict=True))["activation"] == 30


def test_a_timeline_without_older_memory_is_known_as_one(tmp_path: Path) -> None:
    path = tmp_path / "inside.raw.json.gz"
    path.write_bytes(gzip.compress(json.dumps([[5, 2, 30, 3], [6, 4, -30, 3]]).encode()))
    assert memory_file_kind(path) == "timeline"
    path.write_bytes(b"[[1, 2, 3], [4, 5, 6]]")
    assert memory_file_kind(path) is None


def test_the_screen_of_a_timeline_lists_what_was_alive_at_the_peak(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[-1, 1, 3 * 2**20, 0], [5, 2, 1200 * 2**20, 4]]
    assert main(["memory", str(written(tmp_path, json.dumps(rows).encode()))]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split() for line in shown if "GiB" in line or "parameter" in line] == [
        ["peak", "1.2", "GiB", "in", "2", "events"],
        ["1.2", "GiB", "activation"],
        ["3.0", "MiB", "parameter"],
    ]


@pytest.mark.check
def test_an_exported_timeline_of_a_real_program() -> None:
    path = EXPECTED / "memory_timeline_raw.json"
    if not path.is_file():
        pytest.skip(f"no expected numbers at {path}")
    wanted = json.loads(path.read_text())
    rows = read_exported_timeline(EXPECTED.parent / "inputs" / "memory_timeline.raw.gz")
    assert Counter(str(action) for _, action, *_ in rows) == wanted["actions"]
    times = [time_ns for time_ns, *_ in rows if time_ns >= 0]  # a negative time: older than the recording
    assert (min(times), max(times)) == (wanted["first_time"], wanted["last_time"])
    totals = timeline_totals(rows)
    assert (totals.event_count, totals.time_count) == (wanted["events"], wanted["distinct_times"])
    assert (totals.peak_bytes, totals.peak_ns) == (wanted["peak_bytes"], wanted["peak_time"])
    assert totals.older_bytes == wanted["preexisting_bytes"]
    for name, values in (
        ("categories_at_peak", totals.at_peak),
        ("peak_of_each_category", totals.peaks),
        ("at_end", totals.at_end),
    ):
        assert dict(zip(CATEGORIES, values, strict=True)) == wanted[name]


def test_the_command_shows_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", str(written(tmp_path, pickle.dumps(SNAPSHOT)))]) == 0
    shown = capsys.readouterr().out
    assert "fragmented    50 B  free in segments that are partly used" in shown
    assert "net.py:22 forward" in shown


@pytest.mark.check
def test_the_commands_show_a_run(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(root / "sample_traces" / "slow_loader")
    for arguments, words in (
        (["top", "modules", run], "no modules there"),
        (["top", "lines", run, "--by", "idle"], "dataset.py"),
        (["memory", run], "No allocations on devices were recorded"),
    ):
        assert main([*arguments, "--store", str(tmp_path / "store")]) == 0
        assert words in capsys.readouterr().out
    assert main(["top", "kernels", run, "--by", "flops", "--store", str(tmp_path / "store")]) == 2
    assert "kernels have no order by flops" in capsys.readouterr().err


STEERING = "\x1b]0;owned\x07\u202e\nerror: forged HF_TOKEN=swordfish4711"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
ABSURD: dict[str, Any] = {
    "texts that steer": STEERING,
    "a number without end": 10**6000,
    "none": None,
    "no number": float("nan"),
    "infinity": float("inf"),
    "a list": [5],
    "depth": [[[[[[{}]]]]]],
    "negative": -(2**63),
    "truth": True,
}
BLOCK_KEYS = ("state", "size", "requested_size", "address", "frames", "history")


@pytest.mark.parametrize("value", ABSURD.values(), ids=ABSURD)
def test_an_absurd_value_costs_itself(tmp_path: Path, value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [{"state": "active_allocated", "size": 2**21, "frames": FRAMES, key: value} for key in BLOCK_KEYS]
    frames = [{**FRAMES[1], key: value} for key in FRAMES[1]]
    blocks += [{"state": "active_allocated", "size": 2**21, "frames": [frame]} for frame in frames]
    blocks += [{"state": "active_allocated", "size": 2**21, "history": [value]}]
    good = {"device": 0, "total_size": 2**30, "blocks": [{"state": "inactive", "size": 2**30}]}
    odd = [
        {"device": 0, "total_size": 2**30, "blocks": blocks, key: value} for key in ("device", "total_size", "blocks")
    ]
    entry = {"action": "alloc", "addr": 7, "size": 60}
    entries = [{**entry, key: value} for key in entry]
    snapshot = {"segments": [good, *odd, value], "device_traces": [[*entries, value], value]}
    assert main(["memory", str(written(tmp_path, pickle.dumps(snapshot)))]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"releasable +[12]\.0 GiB", shown)
    assert RAW.search(shown) is None
    assert "swordfish4711" not in shown
    assert "\nerror: forged" not in shown


def test_sizes_that_are_none_are_counted(tmp_path: Path) -> None:
    blocks = [{"state": "active_allocated", "size": size, "requested_size": "x"} for size in (5, "5", 10**30, None)]
    (totals,) = snapshot_totals({"segments": [{"device": 0, "total_size": 9, "blocks": blocks}]})
    assert (totals.allocated_bytes, totals.rounding_bytes, totals.unreadable_count) == (5, 0, 3 + 4)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold the limit")
def test_a_pickle_of_ten_bytes_gets_no_memory(tmp_path: Path) -> None:
    path = written(tmp_path, b"\x80\x02]r\xff\xff\xff\x07.")  # the list is object 2**27 - 1
    program = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from traceanalyzer.answers.memory_snapshot import read_snapshot\n"
        "try:\n    read_snapshot(Path(sys.argv[1]))\nexcept Exception as error:\n    print(error)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) // 2**10, resource.getrlimit(resource.RLIMIT_AS)[0])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    said, numbers = done.stdout.splitlines()
    assert "asks for more memory than a snapshot of its size needs" in said
    assert int(numbers.split()[0]) < 500
    assert numbers.split()[1] == "-1"


def test_a_damaged_or_endless_timeline_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = gzip.compress(json.dumps([[-1, 1, at * 7919 % 1_000_003, 0] for at in range(2000)]).encode())
    damaged = bytearray(rows)
    damaged[-400] ^= 0xFF
    for content, words in (
        (bytes(damaged), "is no exported memory timeline"),
        (rows[:-400], "is no exported memory timeline"),
        (b"[[-1,1," + b"9" * 4000 + b",0]]", "its rows are not four numbers"),
        (b"[[-1,1," + b"9" * 5000 + b",0]]", "is no exported memory timeline"),
        (gzip.compress(b"[[-1,1," + b" " * 2**20), "unpacks to more than 100,000 bytes"),
    ):
        monkeypatch.setattr("traceanalyzer.answers.memory_timeline.MAX_BYTES", 100_000)
        assert main(["memory", str(written(tmp_path, content))]) == 2
        assert words in capsys.readouterr().err


class _CountedFrames(list[Any]):
    """A list that counts how often its frames are looked at."""

    looks = 0

    def __iter__(self) -> Any:
        for frame in super().__iter__():
            type(self).looks += 1
            yield frame


@pytest.mark.parametrize("key", ["frames", "history"])
def test_blocks_that_share_frames_are_looked_at_once_and_no_further_than_the_program(key: str) -> None:
    shared: list[Any] = _CountedFrames([FRAMES[0]] * 50 + [FRAMES[1]] + [FRAMES[0]] * 1000)
    value = shared if key == "frames" else [{"frames": shared}]
    blocks = [{"state": "active_allocated", "size": 1, key: value} for _ in range(1000)]
    _CountedFrames.looks = 0
    (totals,) = snapshot_totals({"segments": [{"device": 0, "total_size": 1000, "blocks": blocks}]})
    assert totals.lines == {"net.py:22 forward": 1000}
    assert _CountedFrames.looks == 51


@pytest.mark.parametrize("noun", ["blocks", "events"])
def test_lists_that_hold_more_than_the_file_has_bytes_are_refused(tmp_path: Path, noun: str) -> None:
    shared: list[dict[str, Any]] = [{}] * 300
    snapshot: dict[str, Any] = {"segments": [], "device_traces": []}
    snapshot |= {"segments": [{"blocks": shared}] * 300} if noun == "blocks" else {"device_traces": [shared] * 300}
    with pytest.raises(TraceAnalyzerError, match=f"lists 90,000 {noun}: the same ones again"):
        read_snapshot(written(tmp_path, pickle.dumps(snapshot)))


@pytest.mark.parametrize("size", ["1" + "0" * 6000, "-10"])
def test_an_absurd_number_in_json_costs_itself(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps(SNAPSHOT).replace('"size": 10', f'"size": {size}')
    (totals,) = snapshot_totals(read_snapshot(written(tmp_path, text.encode())))
    assert (totals.allocated_bytes, totals.unreadable_count) == (40, 1)
    assert main(["memory", str(tmp_path / "snapshot.pickle")]) == 0
    assert "Left out: 1 size of" in capsys.readouterr().out


@pytest.mark.parametrize("dump", [pickle.dumps, lambda snapshot: json.dumps(snapshot, indent=1).encode()])
@pytest.mark.parametrize("keys", [("segments", "device_traces"), ("device_traces", "segments")])
def test_a_compressed_snapshot_is_read(
    tmp_path: Path, dump: Any, keys: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = dump({key: SNAPSHOT[key] for key in keys})
    shown = []
    for content in (plain, gzip.compress(plain)):
        assert main(["memory", str(written(tmp_path, content))]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    with pytest.raises(TraceAnalyzerError, match="cannot be unpacked to its end"):
        read_snapshot(written(tmp_path, gzip.compress(plain)[:-12]))


def test_a_snapshot_without_memory_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", str(written(tmp_path, pickle.dumps({"segments": [], "device_traces": [[]]})))]) == 0
    assert "lists no memory" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["snapshot", "timeline"])
def test_a_file_about_memory_is_written_where_and_as_it_is_asked_for(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = pickle.dumps(SNAPSHOT) if kind == "snapshot" else b"[[-1, 1, 10, 0], [5, 2, 30, 4]]"
    source = str(written(tmp_path, content))
    for name in ("totals.md", "totals.html", "totals.json"):
        assert main(["memory", source, "-o", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == ""
    assert "| reserved | 130 B |" in (page := (tmp_path / "totals.md").read_text()) or "| older | 10 B |" in page
    assert "<html" in (tmp_path / "totals.html").read_text()
    totals = json.loads((tmp_path / "totals.json").read_text())
    assert totals["kind"] == kind
    assert (totals["at_peak"]["activation"] if kind == "timeline" else totals["devices"][0]["peak_bytes"]) in (30, 110)


def test_a_reader_that_the_system_ends_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr("traceanalyzer.answers.memory_snapshot._IN_A_PROCESS", ended)
    assert main(["memory", str(written(tmp_path, pickle.dumps(SNAPSHOT)))]) == 2
    assert "asks for more work than a snapshot of its size needs" in capsys.readouterr().err


@pytest.mark.check
def test_the_reader_of_a_snapshot_ends_at_its_share_of_time() -> None:
    program = (
        "from traceanalyzer.answers import memory_snapshot as snapshot\n"
        "snapshot._LEAST_CPU_S = 1\nsnapshot._limit_work(1000)\nwhile True:\n    pass"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode < 0


@pytest.mark.check
def test_a_timeline_takes_a_few_times_its_text_and_a_packed_one_has_a_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20_000
    text = b"[" + b",".join(b"[%d,2,8,0]" % at for at in range(count)) + b"]"
    tracemalloc.start()
    totals = timeline_totals(read_exported_timeline(written(tmp_path, text)))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (totals.event_count, totals.peak_bytes) == (count, 8 * count)
    assert peak_bytes < 2**23 + 6 * len(text)
    monkeypatch.setattr("traceanalyzer.answers.memory_timeline._SMALL_BYTES", 1000)
    same = gzip.compress(b"[" + b",".join([b"[5,2,8,0]"] * count) + b"]")
    with pytest.raises(TraceAnalyzerError, match="unpacks to more than 100 times its size"):
        read_exported_timeline(written(tmp_path, same))


@pytest.mark.parametrize(
    "text", ["[[1,2,3]]", "[[1,2,3,8]]", "[[1,2,3,0]", "[[1,2,3,0]]]", "[[1,2,3,0] [1,2,3,0]]", "[[1,2,0.5,0]]", "["]
)
def test_what_is_no_timeline_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceAnalyzerError, match="is no exported memory timeline"):
        read_exported_timeline(written(tmp_path, text.encode()))


@pytest.mark.parametrize("chunk_bytes", [20, 33, 2**18])
def test_rows_are_the_same_in_any_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr("traceanalyzer.answers.memory_timeline._CHUNK_BYTES", chunk_bytes)
    rows = [[-1, 1, 512, 0], [2**60, 4, -512, 7], [3, 2, 0, 1]] * 20
    path = written(tmp_path, json.dumps(rows, indent=1).encode() + b"\n")
    assert read_exported_timeline(path).tolist() == rows
    assert read_exported_timeline(written(tmp_path, b"[ ]")).tolist() == []
