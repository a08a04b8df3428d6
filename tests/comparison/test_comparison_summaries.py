"""Summaries of runs: what is in them, files of them, and the commands around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from drawn_summaries import FINGERPRINT, capture, finding
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

import traceanalyzer
from traceanalyzer.cli import main
from traceanalyzer.comparison.summary import is_summary_file, read_summaries, text_of
from traceanalyzer.errors import TraceAnalyzerError

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(NAMES, st.integers(0, 2**62), st.floats(0, 1)), min_size=1, max_size=4))
@examples()
def test_a_file_of_summaries_reads_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, float]]
) -> None:
    summaries = [
        capture(label=label, kernels={label: (3, ns / 1e9)}, findings=[finding(share=share)], joint_saving_ns=ns)
        for label, ns, share in drawn
    ]
    path = tmp_path_factory.mktemp("summaries") / "base.json"
    path.write_text(text_of(summaries), encoding="utf-8")
    assert is_summary_file(path)
    assert read_summaries(path) == summaries
    assert len(path.read_text(encoding="utf-8").rstrip("\n").split("\n")) == 2 + len(summaries)


def document(**changed: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(text_of([capture()]))
    whole["captures"][0] |= changed
    return whole


def test_a_newer_summary_with_more_fields_reads(tmp_path: Path, root: Path) -> None:
    whole = document(later="more")
    path = tmp_path / "base.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert read_summaries(path) == [capture()]
    jsonschema.validate(whole, json.loads((root / "docs" / "summary.schema.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no file of summaries"),
        ('{"summary_version": 2, "captures": []}', "summary_version is '2'"),
        ('{"summary_version": 1, "captures": []}', "field captures"),
        (
            json.dumps(document(devices=[{"rank": 0}])),
            "field captures[0].devices[0]: Object missing required field `device`",
        ),
        (json.dumps(document(kernels=3)), "field captures[0].kernels: Expected `object`"),
        (json.dumps(document(below_noise={"a": "b"})), "field captures[0].below_noise[...]: Expected `float`"),
        (
            json.dumps({"summary_version": 1, "captures": [{}]}),
            "field captures[0]: Object missing required field `label`",
        ),
        ("[" * 100_000, "is no file of summaries"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_field(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TraceAnalyzerError) as raised:
        read_summaries(path)
    assert words in raised.value.what
    assert raised.value.where == str(path)


def test_a_folder_is_no_file_of_summaries(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError) as raised:
        read_summaries(tmp_path)
    assert raised.value.what == "cannot be read: Is a directory"


def test_a_trace_is_no_file_of_summaries(root: Path, tmp_path: Path) -> None:
    assert not is_summary_file(root / "sample_traces" / "healthy")
    assert not is_summary_file(root / "sample_traces" / "healthy" / "rank0.json.gz")
    assert not is_summary_file(tmp_path / "missing.json")


@pytest.fixture(scope="module")
def baseline(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline of the healthy sample."""
    folder = tmp_path_factory.mktemp("baseline")
    write = ("export", "baseline", str(folder / "base.json"), str(root / "sample_traces" / "healthy"))
    assert main([*write, "--store", str(folder / "store"), "--label", "abc123"]) == 0
    return folder


@pytest.mark.check
def test_a_summary_has_the_numbers_of_the_diagnosis(baseline: Path, root: Path) -> None:
    (summary,) = read_summaries(baseline / "base.json")
    (device,) = summary.devices
    assert summary.label == "abc123"
    assert device.buckets is not None
    assert sum(device.buckets.values()) == device.window_ns == sum(device.steps_ns)
    assert len(device.steps_ns) == device.step_count == summary.kernels.step_count == 5
    compute_ns = sum(row.dur_ns for row in summary.kernels.rows)
    assert compute_ns >= device.buckets["compute"]
    assert summary.fingerprint["gpu"] == ("NVIDIA H100 80GB HBM3",)
    assert summary.fingerprint["cuda_driver"] == "12080"
    assert summary.taken_at == "2026-04-16T04:18:37Z"
    text = (baseline / "base.json").read_text(encoding="utf-8")
    assert str(root) not in text and "simulator" not in text
    jsonschema.validate(
        json.loads(text), json.loads((root / "docs" / "summary.schema.json").read_text(encoding="utf-8"))
    )


@pytest.mark.check
def test_a_second_summary_of_a_run_has_the_same_bytes(baseline: Path, root: Path) -> None:
    again = ("export", "baseline", str(baseline / "again.json"), str(root / "sample_traces" / "healthy"))
    assert main([*again, "--store", str(baseline / "other store"), "--label", "abc123"]) == 0
    assert (baseline / "again.json").read_bytes() == (baseline / "base.json").read_bytes()


def test_captures_are_added_and_the_newest_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(text_of([capture(label=f"capture {number}")]), encoding="utf-8")
    file = str(tmp_path / "base.json")
    for number in range(3):
        assert main(["export", "baseline", file, str(tmp_path / f"{number}.json"), "--add", "--keep", "2"]) == 0
    assert [item.label for item in read_summaries(tmp_path / "base.json")] == ["capture 1", "capture 2"]
    capsys.readouterr()
    assert main(["export", "baseline", file]) == 0
    assert "capture 2" in capsys.readouterr().out


def test_a_capture_of_another_configuration_is_refused_with_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = capture(label="other", fingerprint={**FINGERPRINT, "gpu": ("NVIDIA A100",)})
    for name, item in (("base", capture()), ("other", other)):
        (tmp_path / f"{name}.json").write_text(text_of([item]), encoding="utf-8")
    before = (tmp_path / "base.json").read_bytes()
    assert main(["export", "baseline", str(tmp_path / "base.json"), str(tmp_path / "other.json"), "--add"]) == 2
    assert "gpu ('NVIDIA H100 80GB HBM3',) → ('NVIDIA A100',)" in capsys.readouterr().err
    assert (tmp_path / "base.json").read_bytes() == before


def test_a_run_that_cannot_be_judged_is_no_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text(text_of([capture(blocked="thinned")]), encoding="utf-8")
    assert main(["export", "baseline", str(tmp_path / "base.json"), str(tmp_path / "run.json")]) == 3
    assert "no baseline of a run that cannot be judged: thinned" in capsys.readouterr().err
    assert not (tmp_path / "base.json").exists()


@pytest.mark.check
def test_the_worked_example_is_faster_because_nothing_waits_for_the_loader(root: Path, tmp_path: Path) -> None:
    sides = []
    for name in ("slow", "fixed"):
        runs = sorted((root / "sample_traces" / "torch_cpu_pairs").glob(f"{name}_*"))
        assert len(runs) == 4
        file = tmp_path / f"{name}.json"
        assert main(["export", "baseline", str(file), *map(str, runs), "--store", str(tmp_path / "store")]) == 0
        sides.append(str(file))
    assert main(["diff", *sides, "--fail-on", "any", "--format", "json", "-o", str(tmp_path / "diff.json")]) == 0
    diff = json.loads((tmp_path / "diff.json").read_text(encoding="utf-8"))
    assert (diff["judgement"]["verdict"], diff["time_of"]) == ("faster", "host")
    first = diff["ledger"][0]
    assert (first["bucket"], first["shown"]) == ("host.dataloader", "shown")
    assert first["delta_ns"] < 0.9 * diff["delta_ns"] < 0
    # Steps on the host are the marked ones, without the first.
    assert all(len(item["steps_ns"]) == 5 for item in (*diff["base"], *diff["new"]))


def test_python_compares_files_and_summaries(tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(text_of([capture(label="before")]), encoding="utf-8")
    difference = traceanalyzer.diff(tmp_path / "base.json", [capture((90.0,) * 4, label="after")])
    assert difference.delta_ns == -10_000_000
    assert str(difference).startswith("before → after")
    assert "data-delta-ns" in difference._repr_html_()
