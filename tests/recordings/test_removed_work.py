"""Files from which work was removed after the recording: their arrows show it, and no verdict is built on the rest.

HTA's overlay of the critical path leaves out all other work by default (HolisticTraceAnalysis 0.5.0,
`only_show_critical_events`), TraceLens' filter_trace.py what lies outside an annotation; both leave the arrows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten
from rewritten_trace import Document

from traceanalyzer.run import open_run
from tracesim import simulate_job


def lost_records(path: Path, store: Path) -> list[str]:
    """Return the severity and the message of each finding about lost records."""
    with open_run(path, store=store, with_settings=False) as run:
        found = run.diagnose().findings
        return [f"{item.severity}: {item.message}" for item in found if item.rule == "tq-lost-records"]


def _keeps(document: Document, keep: Callable[[dict[str, Any]], bool]) -> Document:
    return {**document, "traceEvents": [event for event in document["traceEvents"] if keep(event)]}


def without_every_other_kernel(document: Document) -> Document:
    return _keeps(document, lambda event: event.get("cat") != "kernel" or event["args"]["correlation"] % 2 == 0)


def without_short_slices(document: Document) -> Document:
    """Leave out kernels with the calls that launch them, as where a file is to become smaller."""
    return _keeps(document, lambda event: event["ph"] != "X" or event["dur"] >= 50)


@pytest.mark.check
@pytest.mark.parametrize("removed", [without_every_other_kernel, without_short_slices])
def test_removed_work_is_named_where_its_arrows_are_there(
    removed: Callable[[Document], Document], tmp_path: Path
) -> None:
    (file,) = simulate_job({"steps": 12, "kernels": 8}).write_kineto(tmp_path / "job")
    path = rewritten.write(removed(rewritten.read(file)), tmp_path / "removed.json")
    (finding,) = lost_records(path, tmp_path / "store")
    assert "arrows end where the file has no GPU work: it was removed after the recording" in finding


@pytest.mark.check
@pytest.mark.check
def test_a_file_of_whole_steps_that_were_cut_out_lost_nothing(tmp_path: Path) -> None:
    (file,) = simulate_job({"steps": 12, "kernels": 8}).write_kineto(tmp_path / "job")
    document = rewritten.read(file)
    steps = [event for event in document["traceEvents"] if event["name"].startswith("ProfilerStep#")]
    begin = steps[4]["ts"]
    later = _keeps(document, lambda event: event["ph"] != "X" or event["ts"] >= begin)
    path = rewritten.write(later, tmp_path / "later.json")
    assert lost_records(path, tmp_path / "store") == []


@pytest.mark.check
def test_a_step_of_which_the_begin_was_cut_off_is_not_judged(corpus: Path, tmp_path: Path) -> None:
    document = rewritten.read(corpus / "kineto" / "h100_vit.json.gz")
    (step,) = (event for event in document["traceEvents"] if event.get("cat") == "user_annotation")
    begin = step["ts"] + 0.4 * step["dur"]
    later = _keeps(document, lambda event: event["ph"] != "X" or event["ts"] + event["dur"] >= begin)
    (finding,) = lost_records(rewritten.write(later, tmp_path / "later.json"), tmp_path / "store")
    assert finding.startswith("blocker: ")
    assert "61 arrows end where the file has no GPU work" in finding


@pytest.mark.check
@pytest.mark.filterwarnings("ignore")
def test_the_critical_path_of_hta_is_not_judged(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    analysis = pytest.importorskip("hta.trace_analysis").TraceAnalysis
    drop = pandas.DataFrame.drop

    def drop_once(frame: Any, labels: Any = None, *, axis: int = 0, **options: Any) -> Any:
        """Drop what HTA 0.5.0 names twice, as an axis and as columns, which pandas 3 refuses."""
        return drop(frame, **options) if "columns" in options else drop(frame, labels, axis=axis, **options)

    monkeypatch.setattr(pandas.DataFrame, "drop", drop_once)
    traces = tmp_path / "traces"
    file = corpus / "kineto" / "h100_bert_small.json.gz"
    rewritten.write(rewritten.read(file), traces / file.name)
    hta = analysis(trace_dir=str(traces))
    graph, _ = hta.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
    shown = {}
    for only_critical in (False, True):
        folder = str(tmp_path / f"overlaid-{only_critical}")
        path = hta.overlay_critical_path_analysis(0, graph, output_dir=folder, only_show_critical_events=only_critical)
        shown[only_critical] = lost_records(Path(path), tmp_path / "store")
    assert shown == {
        False: [],
        True: [
            "blocker: The first 59 kernel launches have no kernel. 60 arrows end where the file has no GPU work: it was"
            " removed after the recording, as HTA's critical path does. The GPU was idle for less time than the trace"
            " shows."
        ],
    }
