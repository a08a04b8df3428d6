"""The exports for speedscope and for flame graphs: valid, balanced, and with the time that the tables have."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.cli import cli

ROOT = Path(__file__).parents[2]
SLOW_LOADER = ROOT / "sample_traces" / "slow_loader"


def exported(kind: str, source: Path, target: Path, *options: str) -> str:
    store = str(target.parent / "store")
    answer = CliRunner().invoke(cli, ["export", kind, str(source), "-o", str(target), "--store", store, *options])
    assert answer.exit_code == 0, answer.output
    return target.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    written: dict[str, object] = json.loads(
        exported("speedscope", SLOW_LOADER, tmp_path_factory.mktemp("e") / "a.json")
    )
    return written


@pytest.mark.check
def test_the_file_follows_the_schema_of_speedscope(profile: dict[str, object]) -> None:
    schema = json.loads((ROOT / "tests" / "schemas" / "speedscope-1.25.0.json").read_text(encoding="utf-8"))
    jsonschema.validate(profile, schema)


@pytest.mark.check
def test_every_profile_is_in_order_and_balanced(profile: dict[str, object]) -> None:
    profiles = profile["profiles"]
    assert isinstance(profiles, list) and len(profiles) >= 2
    for one in profiles:
        stack, at = [], one["startValue"]
        for event in one["events"]:
            assert event["at"] >= at
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert stack == [] and at == one["endValue"]


@pytest.mark.check
def test_stream_profiles_hold_the_time_of_the_stream(profile: dict[str, object], tmp_path: Path) -> None:
    profiles = profile["profiles"]
    assert isinstance(profiles, list)
    held = 0
    for one in profiles:
        if one["name"].startswith("device "):
            held += sum(event["at"] * (1 if event["type"] == "C" else -1) for event in one["events"])
    with ta.open(SLOW_LOADER, store=tmp_path) as run:
        ((expected,),) = run.sql("SELECT sum(dur_ns)::BIGINT FROM gpu_ops").fetchall()
    assert held == expected


@pytest.mark.check
def test_folded_stacks_add_up_to_the_outermost_slices_and_to_the_gpu(tmp_path: Path) -> None:
    host = exported("folded", SLOW_LOADER, tmp_path / "host.txt").splitlines()
    gpu = exported("folded", SLOW_LOADER, tmp_path / "gpu.txt", "--weight", "gpu").splitlines()
    with ta.open(SLOW_LOADER, store=tmp_path / "store") as run:
        ((launched,),) = run.sql("SELECT sum(dur_ns)::BIGINT FROM gpu_ops WHERE launch_id IS NOT NULL").fetchall()
    assert sum(int(line.rpartition(" ")[2]) for line in gpu) == launched
    assert all(";" in line and int(line.rpartition(" ")[2]) > 0 for line in host + gpu)
    assert any("dataset.py(27): __getitem__" in line for line in host)


@pytest.mark.check
def test_a_slice_that_outlives_the_frame_that_opened_it_is_not_inside(tmp_path: Path) -> None:
    slices = [
        slice_text("main", ts=0, dur=1000, cat='"cpu_op"'),
        slice_text("opener", ts=10, dur=5, cat='"cpu_op"'),
        slice_text("step; one", ts=12, dur=900, cat='"cpu_op"'),
        slice_text("late", ts=500, dur=10, cat='"cpu_op"'),
    ]
    (tmp_path / "a.json").write_text(events(*slices))
    lines = exported("folded", tmp_path / "a.json", tmp_path / "a.txt").splitlines()
    stacks = {line.rpartition(" ")[0].split(";", 1)[1]: int(line.rpartition(" ")[2]) for line in lines}
    assert stacks == {"main": 98_000, "main;opener": 2_000, "main;step one": 890_000, "main;step one;late": 10_000}
