"""Which files of TensorBoard's folders of logs are a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from xspace import MS, START_NS, Event, PlaneMaker, block_field, space

from traceanalyzer.discovery import discover, find_run
from traceanalyzer.run import open_run

NEW, OLD = "2026_11_27_06_45_15", "2026_11_26_23_59_59"


def profile(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space(PlaneMaker("/host:CPU").line(1, "python", [(0, 1000, "load", {})])))
    return path


def json_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 701, "tid": 1}, {}]}')
    return path


def found(path: Path) -> list[str]:
    return [source.name for source, _ in discover(path).sources]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    session = tmp_path / "logs" / "plugins" / "profile" / NEW
    for host in ("host0", "host1"):
        json_file(profile(session / f"{host}.xplane.pb").with_name(f"{host}.trace.json"))
    json_file(session / "perfetto_trace.json")
    profile(session.with_name(OLD) / "host0.xplane.pb")
    (tmp_path / "logs" / "events.out.tfevents.1.host0").write_bytes(b"\x18\0\0\0")
    return tmp_path / "logs"


@pytest.mark.parametrize("below", [".", "plugins", "plugins/profile", f"plugins/profile/{NEW}"])
def test_hosts_of_the_newest_recording_are_the_run_from_wherever_it_is_named(logs: Path, below: str) -> None:
    assert found(logs / below) == ["host0.xplane.pb", "host1.xplane.pb"]


def test_one_note_names_the_other_recordings(logs: Path) -> None:
    (note,) = find_run([logs]).set_aside
    assert note.what == f"holds 2 recordings; the newest is read, {NEW}, and not plugins/profile/{OLD}"
    assert find_run([logs / "plugins" / "profile" / OLD]).set_aside == ()


@pytest.mark.parametrize("part", ["train", "validation"])
def test_recordings_of_keras_lie_below_the_part_of_the_job(tmp_path: Path, part: str) -> None:
    profile(tmp_path / part / "plugins" / "profile" / NEW / "vm.xplane.pb")
    assert found(tmp_path) == ["vm.xplane.pb"]


def test_json_of_a_host_without_a_profile_is_read(logs: Path) -> None:
    session = logs / "plugins" / "profile" / NEW
    (session / "host1.xplane.pb").unlink()
    assert found(logs) == ["host0.xplane.pb", "host1.trace.json"]


def files(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        json_file(folder / name)


def test_json_alone_counts_once(tmp_path: Path) -> None:
    files(tmp_path, ["vm.trace.json", "perfetto_trace.json"])
    assert found(tmp_path) == ["vm.trace.json"]


def test_names_without_a_time_are_ordered_by_their_files(tmp_path: Path) -> None:
    for number, name in enumerate(["b", "a"]):
        file = profile(tmp_path / "plugins" / "profile" / name / "vm.xplane.pb")
        os.utime(file, (number, number))
    assert [source.parent.name for source, _ in discover(tmp_path).sources] == ["a"]


@pytest.mark.parametrize("place", ["rank{}/plugins/profile/" + NEW, "plugins/profile/rank{}_vm"])
def test_processes_with_sessions_of_their_own_are_the_ranks_of_one_run(tmp_path: Path, place: str) -> None:
    for rank in range(3):
        profile(tmp_path / place.format(rank) / "vm.xplane.pb")
    assert len(found(tmp_path)) == 3
    assert find_run([tmp_path]).set_aside == ()


def test_of_each_rank_the_newest_recording_is_read(tmp_path: Path) -> None:
    for rank in range(2):
        for session in (OLD, NEW):
            profile(tmp_path / f"rank{rank}" / "plugins" / "profile" / session / "vm.xplane.pb")
    assert {source.parent.name for source, _ in discover(tmp_path).sources} == {NEW}
    (note,) = find_run([tmp_path]).set_aside
    assert "holds 4 recordings; the newest of each rank is read" in note.what


@pytest.mark.check
@pytest.mark.parametrize("hosts", [("node1", "node2"), ("node1", "node1")])
def test_hosts_whose_clocks_differ_are_no_recordings_of_one_process(tmp_path: Path, hosts: tuple[str, str]) -> None:
    for place, (name, host) in enumerate(zip(("first", "second"), hosts, strict=True)):
        gpu = PlaneMaker("/device:GPU:0").line(13, "Stream #13(Compute)", [(0, 5 * MS, "fusion", {})])
        content = space(gpu, start_ns=START_NS + place * 3 * 10**9, more=block_field(4, host))
        (tmp_path / f"{name}.xplane.pb").write_bytes(content)
    with open_run(tmp_path, store=tmp_path / "store", attribution=False) as run:
        counts = run.sql("SELECT recording_count, known_by FROM recordings").fetchall()
    assert counts == ([(1, None)] * 2 if len(set(hosts)) == 2 else [(2, "times")] * 2)


def test_hosts_of_a_pod_have_the_steps_of_their_programs(tmp_path: Path) -> None:
    """Each trace of a run of several is attributed on a connection of its own."""
    for host in range(2):
        events: list[Event] = [(at * 10 * MS, 8 * MS, "%fusion", {}) for at in range(6)]
        tpu = PlaneMaker("/device:TPU:0").line(3, "XLA Ops", events, 0)
        tpu.line(2, "XLA Modules", [(at, dur, "jit_step(8)", {}) for at, dur, _, _ in events], 0)
        content = space(tpu, start_ns=START_NS + host * 3 * 10**9, more=block_field(4, f"t1v-n-{host}:8471"))
        (tmp_path / f"t1v-n-{host}.xplane.pb").write_bytes(content)
    with open_run(tmp_path, store=tmp_path / "store") as run:
        found = run.sql("SELECT step_source, step_count FROM attribution.windows").fetchall()
    assert found == [("programs", 5)] * 2
