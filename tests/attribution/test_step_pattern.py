"""`--step-pattern`: a person says what a step is, and what was computed under another pattern is not reused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from drawn_timeline import tables
from trace_event_tables import events, slice_text

import traceanalyzer
from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline.finding import STORE_NAME
from tracesim import in_memory

STEPS = "SELECT step_source, step_count FROM windows"


def epochs(epochs: int = 3, per_epoch: int = 4) -> tuple[str, str]:
    """Return slices and ops: epochs of profiler steps of 100 us, each launching one kernel."""
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    for i in range(epochs * per_epoch):
        start = 100 * i
        if i % per_epoch == 0:
            slices.append(f"{i + 300} 0 annotation epoch~{i // per_epoch} {start} {start + 100 * per_epoch - 1}")
        slices.append(f"{i + 1} 0 annotation ProfilerStep#{i} {start + 1} {start + 99}")
        slices.append(f"{i + 101} 0 runtime cudaLaunchKernel {start + 10} {start + 15}")
        ops.append(f"{i + 201} 7 kernel {start + 20} {start + 70} {i + 101}")
    return "\n".join(slices), "\n".join(ops)


def test_a_pattern_wins_over_the_marks_of_the_profiler() -> None:
    drawn = tables(*epochs())
    assert in_memory.connect_tables(drawn).sql(STEPS).fetchall() == [("ProfilerStep", 10)]
    con = in_memory.connect_tables(drawn, AttributionOptions(step_pattern="^epoch"))
    assert con.sql(STEPS).fetchall() == [("annotation", 2)]
    assert con.sql("SELECT name, step FROM attribution.steps").fetchall() == [
        ("epoch 0", 0),
        ("epoch 1", 1),
        ("epoch 2", 2),
    ]


def test_of_ranges_that_match_inside_each_other_the_outer_ones_count() -> None:
    con = in_memory.connect_tables(tables(*epochs()), AttributionOptions(step_pattern="epoch|ProfilerStep"))
    assert con.sql(STEPS).fetchall() == [("annotation", 2)]


def test_a_pattern_that_matches_nothing_is_an_error_that_names_what_recurs() -> None:
    with pytest.raises(TraceAnalyzerError, match="no annotation of the run matches 'iteration'") as caught:
        in_memory.connect_tables(tables(*epochs()), AttributionOptions(step_pattern="iteration"))
    assert caught.value.hint == "what recurs here: epoch 0, ProfilerStep#0"


def test_a_mistake_in_a_pattern_is_explained() -> None:
    with pytest.raises(TraceAnalyzerError, match="is no pattern"):
        in_memory.connect_tables(tables(*epochs()), AttributionOptions(step_pattern="(epoch"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A trace of six phases, each with one linked kernel, that no built-in name of steps matches."""
    rows = []
    for i in range(6):
        rows += [
            slice_text(f"phase {'ab'[i % 2]}", ts=100 * i, dur=90, cat='"user_annotation"'),
            slice_text(
                "cudaLaunchKernel", ts=100 * i + 5, dur=5, cat='"cuda_runtime"', args=f'{{"correlation": {i + 1}}}'
            ),
            slice_text(
                "k",
                ts=100 * i + 20,
                dur=50,
                cat='"kernel"',
                args=f'{{"device": 0, "stream": 7, "correlation": {i + 1}}}',
            ),
        ]
    (tmp_path / "trace.json").write_text(events(*rows))
    return tmp_path


@pytest.mark.check
def test_what_other_options_computed_is_kept_apart_and_reused(run: Path) -> None:
    def counted(pattern: str | None) -> list[tuple[object, ...]]:
        with traceanalyzer.open_run(run, options=AttributionOptions(step_pattern=pattern)) as opened:
            return opened.sql(STEPS).fetchall()

    assert counted("^phase") == [("annotation", 4)]
    assert counted("^phase a") == [("annotation", 2)]
    folders = sorted((run / STORE_NAME / "derived").iterdir())
    assert len(folders) == 2
    assert counted("^phase") == [("annotation", 4)]
    assert sorted((run / STORE_NAME / "derived").iterdir()) == folders


@pytest.mark.check
def test_the_catalogue_shows_what_was_asked_for_last(run: Path) -> None:
    for pattern, count in (("^phase", 4), ("^phase a", 2), ("^phase", 4)):
        with traceanalyzer.open_run(run, options=AttributionOptions(step_pattern=pattern), catalog=True):
            pass
        with duckdb.connect(str(run / STORE_NAME / "catalog.duckdb"), read_only=True) as catalog:
            assert catalog.sql(STEPS).fetchall() == [("annotation", count)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("diagnose", "--format", "json"), '"step_source": "annotation"'),
        (("sql", STEPS, "--format", "csv"), "annotation,2"),
        (("whatif", "--remove", "host", "--format", "json"), '"step_count": 2'),
    ],
)
def test_commands_pass_the_pattern_on(
    command: tuple[str, ...], told: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command[0], str(run), *command[1:], "--step-pattern", "^phase a"]) == 0
    assert told in capsys.readouterr().out


@pytest.mark.check
def test_a_pattern_without_a_match_ends_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--step-pattern", "epoch"]) == 2
    assert "error: --step-pattern: no annotation" in capsys.readouterr().err
    assert main(["sql", str(run), "SELECT count(*) FROM gpu_ops"]) == 0
