"""A trace that says the same in another way is diagnosed alike: ids, names, files beside it, clocks and frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten
from conftest import ROOT
from rewritten_trace import Document, Rewrite

from traceanalyzer.report.json import document as as_json
from traceanalyzer.run import open_run
from tracesim import simulate_job

SAMPLES = ("healthy", "launch_bound", "slow_loader")
TWO_RANKS = {"ranks": 2, "steps": 4, "kernels": 12, "comm_us": 500, "faults": {"rank": 1, "loader_us": 9_000}}
WORDS = ("sentence", "message", "why", "title", "text", "code", "confidence_because", "detail", "reason", "unlock")
NAMES = ("run", "trace", "rank", "ranks", "same_on_ranks", "same_on_traces", "host_hint")
EVENTS = 60_000  # real traces of more events take too long to be read that often

Found = dict[str, Any]


def sample(name: str) -> Document:
    """Return a sample trace."""
    return rewritten.read(ROOT / "sample_traces" / name / "rank0.json.gz")


def diagnosed(path: Path, store: Path) -> Found:
    """Return the JSON diagnosis of a trace or folder."""
    with open_run(path, store=store, with_settings=False) as run:
        found: Found = json.loads(json.dumps(as_json(run.diagnose())))
    return found


def diagnosis_of(document: Document, folder: Path) -> Found:
    """Return the diagnosis of one trace, written as the only file of a folder."""
    return diagnosed(rewritten.write(document, folder / "rank0.json.gz"), folder.parent / f"store_{folder.name}")


def without_names(value: Any, *, words: bool = False) -> Any:
    """Return a diagnosis without the names of its files and ranks, and without sentences, which hold them."""
    left_out = (*NAMES, *(() if words else WORDS), "first_offset")
    if isinstance(value, dict):
        return {key: without_names(item, words=words) for key, item in value.items() if key not in left_out}
    return [without_names(item, words=words) for item in value] if isinstance(value, list) else value


def same(found: Found, expected: Found) -> None:
    """Expect the same diagnosis to the letter, but for offsets in the file and the name of the run."""
    assert without_names(found, words=True) == without_names(expected, words=True)


def numbers(found: Found) -> Found:
    """Return the numbers of a diagnosis, in an order that does not depend on names."""
    parts = {key: without_names(found[key]) for key in ("ledgers", "findings", "run_ledger", "not_explained")}
    parts["findings"] = [{**finding, "evidence": None, "fixes": None, "params": None} for finding in parts["findings"]]
    return {
        key: sorted(part, key=lambda item: json.dumps(item, sort_keys=True)) if isinstance(part, list) else part
        for key, part in parts.items()
    }


def fired(found: Found) -> set[str]:
    """Return the rules that found something about the program."""
    return {finding["rule"] for finding in found["findings"] if finding["kind"] == "finding"}


def quality(found: Found) -> set[str]:
    """Return the rules that found something about the recording, and the defects of its records."""
    defects = {defect["defect"] for defect in found["defects"]}
    return defects | {finding["rule"] for finding in found["findings"] if finding["kind"] == "quality"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Found]:
    """The diagnosis of a sample as it is."""
    return cache(lambda name: diagnosis_of(sample(name), tmp_path_factory.mktemp(name) / "as_it_is"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """Two ranks, the second of which is late."""
    folder = tmp_path_factory.mktemp("ranks")
    return [rewritten.read(path) for path in simulate_job(TWO_RANKS).write_kineto(folder)]


@pytest.fixture(scope="module")
def plain_ranks(ranks: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The diagnosis of the two ranks in a folder."""
    folder = tmp_path_factory.mktemp("plain_ranks")
    for rank, document in enumerate(ranks):
        rewritten.write(document, folder / "run" / f"rank{rank}.json.gz")
    return diagnosed(folder / "run", folder / "store")


SAME: Mapping[str, Rewrite] = {
    "graph id 0": rewritten.with_graph_id_zero,
    "correlations permuted": rewritten.with_correlations_permuted,
    "correlations from one": rewritten.with_correlations_from_one,
}


@pytest.mark.check
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("change", SAME)
def test_the_same_in_other_ids_is_diagnosed_alike(
    name: str, change: str, plain: Callable[[str], Found], tmp_path: Path
) -> None:
    same(diagnosis_of(SAME[change](sample(name)), tmp_path / "changed"), plain(name))


@pytest.mark.check
@pytest.mark.parametrize("way", rewritten.MERGES)
def test_ranks_in_one_file_are_read_as_ranks_in_a_folder(
    way: str, ranks: list[Document], plain_ranks: Found, tmp_path: Path
) -> None:
    found = diagnosis_of(rewritten.merged(ranks, way), tmp_path / "merged")
    assert numbers(found) == numbers(plain_ranks)
    assert [ledger["rank"] for ledger in found["ledgers"]] == [0, 1]
    assert [finding["rank"] for finding in found["findings"]] == [
        finding["rank"] for finding in plain_ranks["findings"]
    ]


RUNS = ("kineto/two_ranks_2023", "more/llama_tp2", "more/dlrm_8_ranks")


@pytest.fixture(scope="module")
def plain_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[list[Document], Found]]:
    """The ranks of a real run, and their diagnosis in a folder."""

    @cache
    def read(name: str) -> tuple[list[Document], Found]:
        documents = [rewritten.read(path) for path in sorted((corpus / name).glob("*.json*"))]
        folder = tmp_path_factory.mktemp("real_ranks")
        for rank, document in enumerate(documents):
            rewritten.write(document, folder / "run" / f"rank{rank}.json.gz")
        return documents, diagnosed(folder / "run", folder / "store")

    return read


@pytest.mark.check
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("way", rewritten.MERGES)
def test_real_ranks_in_one_file_are_read_as_in_their_folder(
    name: str, way: str, plain_run: Callable[[str], tuple[list[Document], Found]], tmp_path: Path
) -> None:
    documents, expected = plain_run(name)
    found = diagnosis_of(rewritten.merged(documents, way), tmp_path / "merged")
    assert numbers(found) == numbers(expected)
    assert [ledger["rank"] for ledger in found["ledgers"]] == [ledger["rank"] for ledger in expected["ledgers"]]


@pytest.mark.check
@pytest.mark.parametrize("name", RUNS[:2])
@pytest.mark.parametrize("change", ["correlations permuted", "correlations from one"])
def test_real_ranks_with_other_ids_are_diagnosed_alike(
    name: str, change: str, plain_run: Callable[[str], tuple[list[Document], Found]], tmp_path: Path
) -> None:
    documents, expected = plain_run(name)
    for rank, document in enumerate(documents):
        rewritten.write(SAME[change](document), tmp_path / "run" / f"rank{rank}.json.gz")
    same(diagnosed(tmp_path / "run", tmp_path / "store"), expected)


@pytest.mark.check
@pytest.mark.parametrize("change", ["correlations permuted", "correlations from one"])
def test_merged_ranks_with_other_ids_are_diagnosed_alike(
    change: str, ranks: list[Document], plain_ranks: Found, tmp_path: Path
) -> None:
    others = [SAME[change](document) for document in ranks]
    assert numbers(diagnosis_of(rewritten.merged(others, "labels"), tmp_path / "merged")) == numbers(plain_ranks)


@pytest.mark.check
@pytest.mark.parametrize("names", rewritten.NAMES)
def test_names_of_files_change_no_number(names: str, ranks: list[Document], plain_ranks: Found, tmp_path: Path) -> None:
    found = diagnosed(rewritten.written_as(ranks, tmp_path / "run", names), tmp_path / "store")
    assert numbers(found) == numbers(plain_ranks)
    assert [trace["rank"] for trace in found["traces"]] == [0, 1]  # the traces say so


@pytest.mark.check
def test_a_late_rank_is_found_where_nothing_says_which_rank_it_is(tmp_path: Path) -> None:
    late = {"ranks": 3, "steps": 6, "kernels": 60, "comm_us": 1_600, "comm_count": 4, "comm_blocking": False}
    job = simulate_job({**late, "clock_offset_us": [0, 700, 1_300], "faults": {"rank": 2, "kernel_scale": 1.3}})
    documents = [rewritten.read(path) for path in job.write_kineto(tmp_path / "job")]
    expected = diagnosed(tmp_path / "job", tmp_path / "expected")
    assert "comm-straggler-wait" in fired(expected)
    unnamed = [{key: part for key, part in each.items() if key != "distributedInfo"} for each in documents]
    found = diagnosed(rewritten.written_as(unnamed, tmp_path / "run", "handler"), tmp_path / "store")
    assert [trace["rank"] for trace in found["traces"]] == [None] * 3
    assert fired(found) == fired(expected)
    (late_one,) = (finding for finding in found["findings"] if finding["rule"] == "comm-straggler-wait")
    (known,) = (finding for finding in expected["findings"] if finding["rule"] == "comm-straggler-wait")
    assert late_one["trace"] == "node9_4304.1767190000123456943.pt.trace.json.gz"
    assert late_one["message"].startswith(f"The rank of {late_one['trace']} is the last to enter")
    assert late_one["saving_ns"] == known["saving_ns"] > 0


@pytest.mark.check
@pytest.mark.parametrize("names", rewritten.NAMES)
def test_a_number_in_a_name_is_no_rank(names: str, plain: Callable[[str], Found], tmp_path: Path) -> None:
    folder = rewritten.written_as([sample("slow_loader")], tmp_path / "run", names)
    found = diagnosed(folder, tmp_path / "store")
    assert [trace["rank"] for trace in found["traces"]] == [None]
    assert numbers(found) == numbers(plain("slow_loader"))


@pytest.mark.check
@pytest.mark.parametrize("added", ["no recordings", "captures"])
def test_files_that_are_no_recordings_change_no_number(
    added: str, plain: Callable[[str], Found], tmp_path: Path
) -> None:
    document = sample("slow_loader")
    folder = rewritten.write(document, tmp_path / "run" / "rank0.json.gz").parent
    add = rewritten.add_captures if added == "captures" else partial(rewritten.add_no_recordings, document=document)
    names = add(folder)
    found = diagnosed(folder, tmp_path / "store")
    assert len(found["traces"]) == 1
    assert numbers(found) == numbers(plain("slow_loader"))
    assert sorted(file["file"] for file in found["left_out"]) == sorted(name for name in names if name != "config.json")


@pytest.mark.check
@pytest.mark.parametrize("damage", rewritten.DAMAGES)
def test_a_damaged_record_changes_no_other_number(damage: str, plain: Callable[[str], Found], tmp_path: Path) -> None:
    expected = plain("healthy")
    document = sample("healthy")
    events = document["traceEvents"]
    kernels = sorted(
        (at for at, event in enumerate(events) if event.get("cat") == "kernel"), key=lambda at: events[at]["ts"]
    )
    middle = len(kernels) // 2
    before, own, after = (events[kernels[middle + place]] for place in (-1, 0, 1))
    spared_us = after["ts"] - before["ts"] - before["dur"]  # what the record may change at most
    assert spared_us >= own["dur"]
    found = diagnosis_of(rewritten.damaged(document, kernels[middle], damage), tmp_path / "damaged")
    assert_alike_but_for(found, expected, int(spared_us * 1_000) + 1)


def assert_alike_but_for(found: Found, expected: Found, spared_ns: int) -> None:
    """Expect the same findings and ledgers, of which no bucket differs by more than the time of one record."""
    assert fired(found) == fired(expected)
    assert quality(found) > quality(expected), "the damage is named"
    for ledger, other in zip(found["ledgers"], expected["ledgers"], strict=True):
        assert (ledger["step_count"], ledger["step_source"]) == (other["step_count"], other["step_source"])
        assert abs(ledger["window_ns"] - other["window_ns"]) <= spared_ns
        here, there = ({part["bucket"]: part["dur_ns"] for part in side["buckets"]} for side in (ledger, other))
        for bucket in here.keys() | there.keys():
            assert abs(here.get(bucket, 0) - there.get(bucket, 0)) <= spared_ns, bucket


SHIFTS_US = {"25 ms ahead": -25_000.0, "25 ms behind": 25_000.0, "two days behind": 2 * 86_400e6}


@pytest.mark.check
@pytest.mark.parametrize("shift", SHIFTS_US)
@pytest.mark.parametrize("name", SAMPLES[1:])
def test_clocks_apart_are_named_and_nothing_is_concluded(
    name: str, shift: str, plain: Callable[[str], Found], tmp_path: Path
) -> None:
    found = diagnosis_of(rewritten.with_device_clock(sample(name), SHIFTS_US[shift]), tmp_path / "shifted")
    assert fired(found) <= fired(plain(name))  # it may shift the device back by what is proven
    assert quality(found) > quality(plain(name))


@pytest.mark.check
@pytest.mark.parametrize("share", [0.02, -0.02])
@pytest.mark.parametrize("name", SAMPLES[1:])
def test_a_clock_that_drifts_is_named_and_nothing_is_concluded(name: str, share: float, tmp_path: Path) -> None:
    found = diagnosis_of(rewritten.with_device_drift(sample(name), share), tmp_path / "drifting")
    assert fired(found) == set()
    assert {"clocks-contradict", "tq-damaged-times"} <= quality(found)


@pytest.mark.check
@pytest.mark.parametrize("name", SAMPLES)
def test_frames_left_open_change_nothing(name: str, tmp_path: Path) -> None:
    control = rewritten.with_built_in_frames(sample(name))
    calls = [event for event in control["traceEvents"] if event["name"].startswith("<built-in")]
    assert len(calls) > 20
    opened = rewritten.with_frames_open(control)
    assert opened != control
    same(diagnosis_of(opened, tmp_path / "open"), diagnosis_of(control, tmp_path / "control"))


@pytest.mark.check
def test_launches_of_graphs_none_of_whose_work_was_recorded_are_named(tmp_path: Path) -> None:
    here = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "dur": 5}
    events: list[rewritten.Event] = []
    for number in range(4):
        name = "cudaGraphLaunch" if number % 2 else "cudaLaunchKernel"
        events.append({**here, "name": name, "ts": 1_000 + 100 * number, "args": {"correlation": number + 1}})
        if name == "cudaLaunchKernel":
            work = {"device": 0, "stream": 7, "correlation": number + 1}
            kernel = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "dur": 50, "args": work}
            events.append({**here, **kernel, "ts": 1_010 + 100 * number})
    found = diagnosis_of({"traceEvents": events}, tmp_path / "run")
    assert "tq-graph-opaque" in quality(found)
