"""Profiles of XLA that are cut, damaged or none: each has its sentence or its counted defect, and none crashes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_xla_profiles import gpu_plane, host_plane
from xla_profiles import diagnose
from xspace import START_NS, US, Event, PlaneMaker, Tables, block_field, number_field, read, space, varint

from traceanalyzer.discovery import discover
from traceanalyzer.errors import TraceAnalyzerError

GOOD = space(gpu_plane(), host_plane())


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def defects(tables: Tables) -> dict[str, str]:
    return {row["defect"]: row["severity"] for row in tables["defects"]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"this is no profile\n", "is text, and no profile of XLA"),
        (b"\xff\xfe\x00\x01", "is no profile of XLA: its first byte is no field of one"),
        (
            GOOD.decode("utf-8", "replace").encode() if b"\xff" in GOOD else None,
            "was saved as text (UTF-8), which destroyed it",
        ),
        (block_field(1, block_field(2, "a note")), "is no profile of XLA: none of its planes is of a host or a device"),
        (block_field(4, "host0"), "is no profile of XLA: it holds no planes"),
        (GOOD[:2], "was cut short, before the name of its first plane ends"),
        (GOOD[:10], "was cut short, before the name of its first plane ends"),
        (b"\n{" + b"}" * 9, "is no profile of XLA: none of its planes is of a host or a device"),
    ],
)
def test_what_is_no_profile_is_refused_with_what_it_is(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    with pytest.raises(TraceAnalyzerError) as error:
        read(content if content is not None else b"\n\xc0\x80", tmp_path)
    assert error.value.what == sentence


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(b"")
    with pytest.raises(TraceAnalyzerError, match="the file is empty"):
        discover(tmp_path / "vm.xplane.pb")


def test_a_continuous_capture_is_named(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.riegeli").write_bytes(b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f")
    with pytest.raises(TraceAnalyzerError, match="continuous capture of xprof"):
        discover(tmp_path / "vm.xplane.riegeli")


@pytest.mark.parametrize("packed", [GOOD, gzip.compress(GOOD, mtime=0)])
def test_a_packed_profile_is_read_as_the_plain_one(tmp_path: Path, packed: bytes) -> None:
    assert len(read(packed, tmp_path)["gpu_ops"]) == 4


@pytest.mark.parametrize(
    ("line", "work"), [("Stream #7", ("kernel", "?1")), ("Stream #7(MemcpyD2H)", ("memcpy", "MemcpyD2H"))]
)
def test_a_cut_plane_keeps_its_events_under_their_ids(tmp_path: Path, line: str, work: tuple[str, str]) -> None:
    """Names come after lines, so of a plane that is cut behind its lines only times are left, and what streams say."""
    plane = PlaneMaker("/device:GPU:0").line(7, line, [(US, US, "a", {}), (3 * US, US, "b", {})])
    content = space(gpu_plane()) + block_field(1, plane.content())
    end = content.rindex(line.encode()) + len(line) + 20
    tables = read(content[:end], tmp_path)
    assert [(op["kind"], op["name"]) for op in tables["gpu_ops"]][3:] == [("memcpy", "MemcpyH2D"), work]
    (cut,) = [row for row in tables["defects"] if row["defect"] == "truncated"]
    assert (cut["severity"], cut["defect_count"]) == ("loss", 1)
    assert tables["traces"][0]["truncated"]


@pytest.mark.parametrize("more", [b"\0" * 7, b"\x0b\x0c"])
def test_bytes_behind_the_end_are_counted(tmp_path: Path, more: bytes) -> None:
    tables = read(GOOD + more, tmp_path)
    assert len(tables["gpu_ops"]) == 4
    assert defects(tables)["trailing-data"] == "loss"


def test_joined_profiles_are_read_plane_by_plane(tmp_path: Path) -> None:
    later = PlaneMaker("/device:GPU:0").line(7, "Stream #7", [(n * US, US // 2, "later", {}) for n in range(90, 94)])
    tables = read(GOOD + space(later), tmp_path)
    assert len(tables["gpu_ops"]) == 8
    assert len({op["op_id"] for op in tables["gpu_ops"]}) == 8
    assert defects(tables)["duplicate-plane"] == "note"


def test_a_profile_joined_with_itself_is_read_once(tmp_path: Path) -> None:
    warned = GOOD + block_field(3, "7 events dropped")
    once, twice = read(warned, tmp_path), read(written(tmp_path / "joined.xplane.pb", warned + warned), tmp_path)
    for table in ("gpu_ops", "host_slices", "counters", "devices", "event_args"):
        assert once[table] == twice[table]
    counts = {row["defect"]: row["defect_count"] for row in twice["defects"]}
    assert counts == {"repeated-plane": 3, "events-dropped": 7, "command-buffer": 1}


def test_planes_that_were_merged_with_themselves_under_other_ids_are_read_once(tmp_path: Path) -> None:
    """A later plane with a line of its own keeps that line."""
    planes = [number_field(1, number) + plane.content() for number in (1, 2) for plane in (gpu_plane(), host_plane())]
    later = gpu_plane()
    later.event_names, later.stat_names = dict(gpu_plane().event_names), dict(gpu_plane().stat_names)
    later.line(31, "Stream #31", [(90 * US, US, "fusion_1", {})])
    once = read(GOOD, tmp_path)
    tables = read(written(tmp_path / "merged.xplane.pb", space(*planes, later)), tmp_path)
    ops = [(op["stream"], op["name"], op["start_ns"]) for op in tables["gpu_ops"]]
    assert ops[:4] == [(op["stream"], op["name"], op["start_ns"]) for op in once["gpu_ops"]]
    assert [row[:2] for row in ops[4:]] == [(31, "fusion_1")]
    assert len(tables["host_slices"]) == len(once["host_slices"])
    counts = {row["defect"]: row["defect_count"] for row in tables["defects"]}
    assert counts == {"repeated-plane": 3, "duplicate-plane": 1, "command-buffer": 1}


def test_events_of_a_plane_of_an_unknown_name_are_kept_and_are_no_work(tmp_path: Path) -> None:
    unknown = PlaneMaker("/megascale:0").line(1, "transfers", [(US, US, "send", {"bytes": 8})])
    tables = read(space(gpu_plane(), host_plane(), unknown), tmp_path)
    assert len(tables["gpu_ops"]) == 4
    (kept,) = [row for row in tables["async_slices"] if row["pid"] == "/megascale:0"]
    assert (kept["name"], kept["category"], kept["dur_ns"]) == ("send", "span", 1000)


@pytest.mark.check
@pytest.mark.parametrize("kind", ["XPU", "METAL"])
def test_work_of_a_device_of_another_kind_is_named_and_not_called_absent(kind: str, tmp_path: Path) -> None:
    work = PlaneMaker(f"/device:{kind}:0").line(1, "Stream #1(Compute)", [(0, 5 * US, "gemm", {})] * 3)
    found = diagnose(space(work, host_plane()), tmp_path)
    (finding,) = [item for item in found.findings if item.rule == "tq-missing-gpu-activity"]
    assert f"a kind whose work is not read yet ({kind.lower()}, 3 events)" in finding.message


def test_a_device_that_lost_its_name_is_the_next_one(tmp_path: Path) -> None:
    streams = PlaneMaker("").line(9, "Stream #9(Compute)", [(US, US, "fusion_2", {})])
    unknown = PlaneMaker("").line(9, "transfers", [(US, US, "send", {})])
    tables = read(space(streams, unknown, gpu_plane(), host_plane()), tmp_path)
    assert [op["device"] for op in tables["gpu_ops"] if op["name"] == "fusion_2"] == [1]
    assert len(tables["gpu_ops"]) == 5
    assert [row["device"] for row in tables["devices"]] == [0, 1]
    (found,) = [row for row in tables["defects"] if row["defect"] == "unnamed-device"]
    assert (found["defect_count"], found["example"]) == (1, "read as device 1")


def test_numbers_beyond_any_clock_leave_the_others(tmp_path: Path) -> None:
    events: list[tuple[int, int, str, dict[str, Any]]] = [
        (2**63 - 1, US, "late", {}),
        (US, 2**63 - 1, "long", {}),
        (2 * US, US, "fine", {}),
    ]
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", events)), tmp_path)
    assert [op["name"] for op in tables["gpu_ops"]] == ["fine"]
    assert {"bad-duration", "bad-timestamp"} <= defects(tables).keys()


DAY_PS = 86_400 * 10**12


@pytest.mark.parametrize("start_ns", [START_NS, None], ids=["stopped", "no stop is written"])
@pytest.mark.parametrize(
    ("at_ps", "dur_ps", "defect"),
    [
        (2 * US, DAY_PS, "bad-duration"),
        (DAY_PS, US, "bad-timestamp"),
        (-DAY_PS, US, "bad-timestamp"),
        (2 * US, 61 * 10**12, "bad-duration"),
    ],
)
def test_events_that_last_for_minutes_after_the_recording_was_stopped_are_left_out(
    tmp_path: Path, at_ps: int, dur_ps: int, defect: str, start_ns: int | None
) -> None:
    good: list[tuple[int, int, str, dict[str, Any]]] = [(n * US, US // 2, "fine", {}) for n in range(20)]
    planes = [
        PlaneMaker(plane).line(1, line, [*good, (at_ps, dur_ps, "wrong", {})])
        for plane, line in (("/device:GPU:0", "Stream #1"), ("/host:CPU", "python"))
    ]
    tables = read(space(*planes, start_ns=start_ns), tmp_path)
    names = [row["name"] for table in ("gpu_ops", "host_slices") for row in tables[table]]
    assert names == ["fine"] * 40
    (found,) = [row for row in tables["defects"] if row["severity"] == "loss"]
    assert (found["defect"], found["defect_count"]) == (defect, 2)
    (trace,) = tables["traces"]
    assert trace["last_ns"] - trace["first_ns"] == 19_500


def test_long_events_of_a_long_recording_that_says_no_stop_are_kept(tmp_path: Path) -> None:
    """
    host  [frame of an hour                       ]
    GPU   [10 s ]   [10 s ]   [10 s ]  …     [900 s]
    """
    work: list[tuple[int, int, str, dict[str, Any]]] = [
        (n * 30 * 10**12, (900 if n == 89 else 10) * 10**12, "step", {}) for n in range(90)
    ]
    host = PlaneMaker("/host:CPU").line(1, "python", [(0, 3600 * 10**12, "$train.py:1 main", {})])
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work), host, start_ns=None), tmp_path)
    assert sum(op["dur_ns"] for op in tables["gpu_ops"]) == (89 * 10 + 900) * 10**9
    assert [row["dur_ns"] for row in tables["host_slices"]] == [3600 * 10**9]
    assert defects(tables) == {"unknown-clock": "note"}


def test_events_that_end_soon_after_the_recording_was_stopped_are_kept(tmp_path: Path) -> None:
    stream = PlaneMaker("/device:GPU:0").line(1, "Stream #1", [(0, 30 * 10**12, "long", {})])
    tables = read(space(stream), tmp_path)
    assert [op["dur_ns"] for op in tables["gpu_ops"]] == [30 * 10**9]
    assert not tables["defects"]


def shifted_work(shift_us: int, drift: float = 0) -> bytes:
    """Return a profile in which each of 40 calls launches work that a device starts 9 µs later, by its own clock."""
    calls = [(n * 100 * US, 5 * US, "cuLaunchKernel", {"correlation_id": n + 1}) for n in range(40)]
    at = [(shift_us + 9 + int(n * 100 * (1 + drift))) * US for n in range(40)]
    work = [(start, 30 * US, "gemm", {"correlation_id": n + 1}) for n, start in enumerate(at)]
    stream = PlaneMaker("/device:GPU:0").line(1, "Stream #1", work, 10**8)
    return space(stream, PlaneMaker("/host:CPU").line(9, "python", calls, 10**8))


@pytest.mark.parametrize("shift_us", [25_000, -25_000, 2_000, -400])
def test_the_clock_of_a_device_that_is_apart_is_moved_by_what_its_launches_prove(shift_us: int, tmp_path: Path) -> None:
    tables = read(shifted_work(shift_us), tmp_path)
    starts = sorted(op["start_ns"] for op in tables["gpu_ops"])
    calls = sorted(row["start_ns"] for row in tables["host_slices"])
    assert {start - call for start, call in zip(starts, calls, strict=True)} == {5_000}
    assert [row["defect"] for row in tables["defects"]] == ["clock-shifted"]


def test_a_clock_of_another_rate_is_named(tmp_path: Path) -> None:
    assert [row["defect"] for row in read(shifted_work(0, 0.02), tmp_path)["defects"]] == ["clocks-contradict"]


@pytest.mark.parametrize("shift_us", [0, 40, 900])
def test_work_that_starts_soon_after_its_launch_proves_no_clock(shift_us: int, tmp_path: Path) -> None:
    assert not read(shifted_work(shift_us), tmp_path)["defects"]


def test_lines_whose_clock_is_not_that_of_the_recording_keep_their_events(tmp_path: Path) -> None:
    late: list[tuple[int, int, str, dict[str, Any]]] = [(DAY_PS + n * US, US, "work", {}) for n in range(20)]
    gpu, host = PlaneMaker("/device:GPU:0").line(1, "Stream #1", late), PlaneMaker("/host:CPU")
    host.line(1, "python", [(n * US, US, "call", {}) for n in range(20)])
    tables = read(space(gpu, host), tmp_path)
    assert len(tables["gpu_ops"]) == 20
    (found,) = tables["defects"]
    assert (found["defect"], found["defect_count"], found["example"]) == ("clocks-contradict", 20, "line Stream #1")
    assert not read(written(tmp_path / "alone.xplane.pb", space(gpu)), tmp_path)["defects"]


def test_work_that_runs_over_what_is_behind_it_on_its_stream_counts_as_equal_work(tmp_path: Path) -> None:
    work = [(n * 10 * US, 8 * US * (10_000 if n == 7 else 1), "gemm", {"correlation_id": n + 1}) for n in range(40)]
    calls = [(n * 10 * US, US, "cuLaunchKernel", {"correlation_id": n + 1}) for n in range(40)]
    host = PlaneMaker("/host:CPU").line(9, "python", calls)
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work), host), tmp_path)
    assert {op["dur_ns"] for op in tables["gpu_ops"]} == {8_000}
    (found,) = tables["defects"]
    assert (found["defect"], found["defect_count"], found["example"]) == ("overrun-duration", 1, "80.000 ms of gemm")
    assert tables["traces"][0]["last_ns"] - tables["traces"][0]["first_ns"] == 398_000


@pytest.mark.parametrize(
    ("times", "at", "expected"),
    [(10_000, 7, 1), (10_000, 0, 1), (50, 7, 0), (10_000, 35, 1), (10_000, 38, 1), (500, 35, 0), (10_000, 39, 0)],
)
def test_work_without_launches_that_lasts_as_long_as_what_is_behind_it_is_damaged(
    times: int, at: int, expected: int, tmp_path: Path
) -> None:
    work: list[tuple[int, int, str, dict[str, Any]]] = [
        (n * 10 * US, 8 * US * (times if n == at else 1), "gemm", {}) for n in range(40)
    ]
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work)), tmp_path)
    assert [row["defect"] for row in tables["defects"]].count("overrun-duration") == expected
    assert sum(op["dur_ns"] == 8_000 for op in tables["gpu_ops"]) == 39 + expected


def test_branches_of_a_graph_that_run_beside_others_are_kept(tmp_path: Path) -> None:
    work: list[tuple[int, int, str, dict[str, Any]]] = [(n * 10 * US, 8 * US, "gemm", {}) for n in range(400)]
    work += [(n * 1_000 * US, 900 * US, "attention", {}) for n in range(4)]
    work += [(5 * US, 3_000 * US, "once", {})]
    work.sort(key=lambda row: row[0])
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work)), tmp_path)
    assert not tables["defects"]


@pytest.mark.parametrize(("number", "calls_with_it"), [(0, 1), (-1, 1), (2**32 - 1, 1), (5, 40), (5, 5)])
def test_a_number_that_is_no_id_ties_no_work(number: int, calls_with_it: int, tmp_path: Path) -> None:
    ids = [number] * calls_with_it + list(range(100, 140 - calls_with_it))
    work = [(n * 10 * US, 8 * US, "gemm", {"correlation_id": own}) for n, own in enumerate(ids)]
    calls = [(n * 10 * US - 5 * US, US, "cuLaunchKernel", {"correlation_id": own}) for n, own in enumerate(ids)]
    host = PlaneMaker("/host:CPU").line(9, "python", calls, 10**6)
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work, 10**6), host), tmp_path)
    assert [op["launch_id"] is None for op in tables["gpu_ops"]].count(True) == calls_with_it


@pytest.mark.check
@pytest.mark.parametrize(
    ("call", "graph", "is_linked"),
    [
        ("cuLaunchKernel", 0, False),
        ("hipModuleLaunchKernel", 0, False),
        ("cuGraphLaunch", 0, True),
        ("cuGraphLaunch", 7, True),
    ],
)
def test_kernels_that_share_a_plain_launch_are_those_of_none(
    call: str, graph: int, is_linked: bool, tmp_path: Path
) -> None:
    shared = {"correlation_id": 5, **({"cuda_graph_id": graph} if graph else {})}
    work = [(n * 10 * US, 8 * US, "gemm", shared if n < 2 else {"correlation_id": 6}) for n in range(3)]
    calls = [(n * 9 * US, US, call, {"correlation_id": 5 + n}) for n in range(2)]
    frame: list[Event] = [(0, 90 * US, "$model.py:9 run", {})]
    host = PlaneMaker("/host:CPU").line(9, "python", [*frame, *calls], 10**6)
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work, 10**6 + 20_000), host), tmp_path)
    links = [(op["launch_id"] is not None, op["python_id"] is not None) for op in tables["gpu_ops"]]
    assert links == [(is_linked, is_linked), (is_linked, is_linked), (True, True)]


@pytest.mark.check
def test_events_that_stand_in_a_line_twice_count_once(tmp_path: Path) -> None:
    work = [(n * 10 * US, 8 * US, "gemm", {"correlation_id": n + 1}) for n in range(9)]
    calls = [(n * 10 * US, US, "cuLaunchKernel", {"correlation_id": n + 1}) for n in range(9)]
    frames: list[Event] = [(n * 10 * US, 3 * US, "$model.py:9 run", {}) for n in range(9)]
    found = []
    for times in (1, 2):
        host = PlaneMaker("/host:CPU").line(9, "python", [*frames, *calls] * times, 10**6)
        gpu = PlaneMaker("/device:GPU:0").line(1, "Stream #1", work * times, 10**6 + 2_000)
        folder = tmp_path / str(times)
        folder.mkdir()
        found.append(read(space(gpu, host), folder))
    assert [len(tables["gpu_ops"]) for tables in found] == [9, 9]
    assert [len(tables["host_slices"]) for tables in found] == [18, 18]
    assert [op["launch_id"] is None for op in found[1]["gpu_ops"]] == [False] * 9
    (defect,) = found[1]["defects"]
    assert (defect["defect"], defect["defect_count"]) == ("repeated-record", 27)


@pytest.mark.check
def test_a_mark_of_a_step_without_a_length_is_no_step(tmp_path: Path) -> None:
    marks = [(n * 10 * US, 8 * US if n < 3 else 0, "train", {"step_num": n}) for n in range(4)]
    tables = read(space(PlaneMaker("/host:CPU").line(9, "python", marks, 10**6)), tmp_path)
    steps = [row["name"] for row in tables["host_slices"] if row["raw_category"] == "step_num"]
    assert steps == ["train 0", "train 1", "train 2"]


def test_calls_inside_each_other_share_an_id(tmp_path: Path) -> None:
    calls = [(n * US, (10 - n) * US, f"hipCall{n}", {"correlation_id": 7}) for n in range(3)]
    host = PlaneMaker("/host:CPU").line(9, "python", calls)
    gpu = PlaneMaker("/device:GPU:0").line(1, "Stream #1", [(20 * US, US, "gemm", {"correlation_id": 7})])
    tables = read(space(gpu, host), tmp_path)
    names = {row["slice_id"]: row["name"] for row in tables["host_slices"]}
    assert [names[op["launch_id"]] for op in tables["gpu_ops"]] == ["hipCall0"]


def test_launches_out_of_order_move_no_work(tmp_path: Path) -> None:
    work = [(n * 10 * US, 8 * US, "gemm", {"correlation_id": n + 1}) for n in range(40)]
    work[7], work[8] = (*work[7][:3], {"correlation_id": 9}), (*work[8][:3], {"correlation_id": 8})
    calls = [(n * 10 * US - 200 * US, US, "cuLaunchKernel", {"correlation_id": n + 1}) for n in range(40)]
    host = PlaneMaker("/host:CPU").line(9, "python", calls)
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", work), host), tmp_path)
    first = min(op["start_ns"] for op in tables["gpu_ops"])
    assert sorted(op["start_ns"] - first for op in tables["gpu_ops"]) == [n * 10_000 for n in range(40)]
    assert not tables["defects"]


def test_many_lines_and_long_texts_are_bounded(tmp_path: Path) -> None:
    plane = PlaneMaker("/host:CPU").line(1, "python", [(US, US, "x" * 10**6, {"note": "y" * 10**6})])
    plane.lines += [number_field(1, number) for number in range(20_000)]
    tables = read(space(plane), tmp_path)
    assert len(tables["threads"]) == 20_001
    assert len(tables["host_slices"][0]["name"]) == 65_536
    assert defects(tables)["long-text"] == "loss"


def test_one_event_of_many_values_is_read(tmp_path: Path) -> None:
    values = {f"key{number}": number for number in range(500)}
    tables = read(space(PlaneMaker("/device:GPU:0").line(1, "Stream #1", [(US, US, "a", values)] * 40)), tmp_path)
    assert len(tables["event_args"]) == 40


@pytest.mark.check
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_a_sentence_or_a_defect(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(content)), st.integers(1, len(content))))
    try:
        tables = read(bytes(content[:end]), tmp_path_factory.mktemp("damaged"))
    except TraceAnalyzerError:
        return
    assert len(tables["traces"]) == 1


@pytest.mark.check
@pytest.mark.parametrize("part", range(4))
def test_a_cut_anywhere_keeps_what_is_whole(tmp_path: Path, part: int) -> None:
    for end in range(60 + 11 * part, len(GOOD), 44):
        folder = tmp_path / str(end)
        folder.mkdir()
        tables = read(GOOD[:end], folder)
        found = defects(tables)
        # Between two planes nothing shows the cut, but no plane says then when the profile began.
        assert "truncated" in found or "unknown-clock" in found
        # Names come last in a plane: without them bookkeeping of the memory on a stream is not known from work.
        assert len(tables["gpu_ops"]) <= 5


@pytest.mark.check
def test_a_text_of_100_mb_and_100_000_lines_take_bounded_memory(tmp_path: Path) -> None:
    plane = PlaneMaker("/host:CPU").line(1, "python", [(US, US, "a", {"note": "y" * 10**8})])
    plane.lines += [number_field(1, number) for number in range(100_000)]
    tables = read(space(plane), tmp_path)
    assert len(tables["threads"]) == 100_001
    assert all(len(row["args"]) < 10**6 for row in tables["event_args"])


def test_what_lies_behind_2_gib_of_a_compiled_program_is_read_in_place(tmp_path: Path) -> None:
    small = read(GOOD, tmp_path)
    head = block_field(2, "/host:metadata")
    program_bytes = 2**31 + 2**28
    entry = varint(4 << 3 | 2) + varint(program_bytes)
    file = tmp_path / "large.xplane.pb"
    with file.open("wb") as stream:
        stream.write(varint(1 << 3 | 2) + varint(len(head) + len(entry) + program_bytes) + head + entry)
        stream.seek(program_bytes, os.SEEK_CUR)  # a hole: it takes no space on the disk
        stream.write(GOOD)
    large = read(file, tmp_path)
    assert defects(large) == defects(small)
    for table, key in (("gpu_ops", "op_id"), ("host_slices", "slice_id")):
        columns = [name for name in small[table][0] if not name.endswith("_id")]
        assert [[row[name] for name in columns] for row in large[table]] == [
            [row[name] for name in columns] for row in small[table]
        ]
        assert {row[key] - other[key] for row, other in zip(large[table], small[table], strict=True)} == {
            file.stat().st_size - len(GOOD)
        }
    assert [row["args"] for row in large["event_args"]] == [row["args"] for row in small["event_args"]]
