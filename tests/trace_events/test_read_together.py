"""Small files that are read together have the tables that each has by itself."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_event_tables import slice_text

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester, ingest_together
from traceanalyzer.pipeline.finding import locate_store
from traceanalyzer.pipeline.ingesting import Ingested, ingest_each

CALL = slice_text("cudaLaunchKernel", cat='"cuda_runtime"', ts=5, dur=2, args='{"correlation": 7, "External id": 1}')
KERNEL = slice_text("k", cat='"kernel"', pid=0, tid=7, ts=9, dur=3, args='{"device": 0, "stream": 7, "correlation": 7}')
OPERATOR = slice_text("aten::mm", cat='"cpu_op"', ts=4, dur=4, args='{"External id": 1}')
SYNC = slice_text(
    "Stream Sync", cat='"cuda_sync"', pid=0, tid=7, ts=9, dur=3, args='{"device": 0, "stream": 7, "correlation": 8}'
)
WAIT = slice_text("cudaStreamSynchronize", cat='"cuda_runtime"', ts=8, dur=6, args='{"correlation": 8}')
CROSSING = slice_text("aten::add", cat='"cpu_op"', ts=6, dur=9)
FRAME = slice_text(
    "f.py(1): f", cat='"python_function"', ts=1, dur=20, args='{"Python id": 1, "Python parent id": null}'
)
INNER = slice_text("f.py(2): g", cat='"python_function"', ts=2, dur=40, args='{"Python id": 2, "Python parent id": 1}')
LONG_STEP, *STEPS = (
    slice_text(f"ProfilerStep#{number}", cat='"user_annotation"', ts=100 * number, dur=90_000 if number == 1 else 90)
    for number in (1, 2, 3)
)
SPAN = slice_text("PyTorch Profiler (0)", cat='"Trace"', pid='"Spans"', tid='"PyTorch Profiler"', ts=1, dur=30)
NAMED = '{"ph": "M", "name": "process_labels", "pid": 1, "tid": 0, "args": {"labels": "CPU"}}'
MEMORY = (
    '{"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 6, "args": {"Bytes": 64, "Device Id": -1}}'
)
FLOW = '{"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 5, "cat": "ac2g", "name": "ac2g"}'
COUNTER = '{"ph": "C", "name": "Queue", "pid": 0, "ts": 5, "args": {"7": 3}}'


def write(folder: Path, name: str, events: Sequence[str], **keys: object) -> Path:
    """Write a file of PyTorch's profiler."""
    file = folder / name
    file.write_text(json.dumps({"schemaVersion": 1, **keys})[:-1] + f', "traceEvents": [{", ".join(events)}]}}')
    return file


def together(folder: Path, files: Sequence[Path]) -> dict[str, dict[str, pa.Table]]:
    """Return the tables of the files that could be read together, by name."""
    places = [(file, folder / str(number)) for number, file in enumerate(files)]
    for _, place in places:
        place.mkdir(parents=True)
    done = ingest_together(places, folder, IngestOptions())
    return {file.name: tables(place) for (file, place), is_done in zip(places, done, strict=True) if is_done}


def alone(folder: Path, file: Path) -> dict[str, pa.Table]:
    """Return the tables of a file that is read by itself."""
    folder.mkdir(parents=True)
    TraceEventIngester().ingest(file, folder, IngestOptions())
    return tables(folder)


def tables(folder: Path) -> dict[str, pa.Table]:
    return {file.name: pq.ParquetFile(file).read() for file in sorted(folder.glob("*/*.parquet"))}


KINDS = {
    "work, calls and operators": [OPERATOR, CALL, KERNEL],
    "another device": [OPERATOR, CALL, KERNEL.replace('"device": 0', '"device": 3')],
    "records of synchronisation": [OPERATOR, CALL, KERNEL, WAIT, SYNC],
    "slices that cross": [OPERATOR, CROSSING, CALL, KERNEL],
    "Python frames that stay open": [FRAME, INNER, OPERATOR],
    "spans, labels, memory, flows and counters": [SPAN, NAMED, OPERATOR, MEMORY, FLOW, COUNTER],
    "processes of the same number": [OPERATOR.replace('"tid": 1', '"tid": 2'), CALL, KERNEL],
    "work whose external id is its correlation id": [
        OPERATOR.replace("1}", "7}"),
        KERNEL.replace('n": 7', 'n": 7, "External id": 7'),
        CALL.replace('n": 7', 'n": 8'),
        KERNEL.replace('n": 7', 'n": 8, "External id": 8'),
    ],
    "the same without calls": [OPERATOR.replace("1}", "7}"), KERNEL.replace('n": 7', 'n": 7, "External id": 7')],
    "no events": [],
}


def test_files_of_all_kinds_have_the_tables_that_each_has_alone(tmp_path: Path) -> None:
    files = [write(tmp_path, f"{number}.json", events) for number, events in enumerate(KINDS.values())]
    found = together(tmp_path / "together", files)
    assert found.keys() >= {file.name for file in files[:-1]}
    for file in files[:-1]:
        assert found[file.name] == alone(tmp_path / f"alone-{file.stem}", file), file


@pytest.mark.check
def test_ranks_of_real_traces_have_the_tables_that_each_has_alone(tmp_path: Path, root: Path) -> None:
    files = []
    for name in ("plain", "stacks", "memory"):
        trace = json.loads(gzip.decompress((root / f"tests/data/traces/{name}.json.gz").read_bytes()))
        for rank in (0, 1):
            trace["distributedInfo"] = {"rank": rank, "world_size": 2}
            files.append(tmp_path / f"{name}{rank}.json")
            files[-1].write_text(json.dumps(trace))
    found = together(tmp_path / "together", files)
    assert found.keys() == {file.name for file in files}
    for file in files:
        assert found[file.name] == alone(tmp_path / f"alone-{file.stem}", file), file


@pytest.mark.sampled
@pytest.mark.parametrize(
    "events",
    [
        pytest.param([OPERATOR, KERNEL.replace('"device": 0', '"device": "x"')], id="work of no device"),
        pytest.param([OPERATOR, '{"ph": "B", "name": "a", "pid": 1, "tid": 1, "ts": 1}'], id="begin events"),
        pytest.param([OPERATOR, OPERATOR.replace('"ts": 4', '"ts": 0')], id="times of zero"),
        pytest.param([OPERATOR, OPERATOR.replace('"ts": 4', '"ts": 99000000')], id="silence"),
        pytest.param([OPERATOR, CALL.replace('"correlation": 7', '"correlation": 7777777777')], id="long ids"),
        pytest.param([OPERATOR, slice_text("a", pid="null")], id="no process"),
        pytest.param([OPERATOR, KERNEL.replace("correlation", "External id")], id="work with external ids alone"),
    ],
)
def test_a_file_that_needs_a_look_of_its_own_is_left_and_its_neighbours_are_not(
    events: list[str], tmp_path: Path
) -> None:
    plain = [write(tmp_path, f"{number}.json", [OPERATOR, CALL, KERNEL]) for number in (0, 1)]
    unusual = write(tmp_path, "unusual.json", events)
    assert together(tmp_path / "together", [plain[0], unusual, plain[1]]).keys() == {"0.json", "1.json"}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([OPERATOR, OPERATOR], id="operators twice"),
        pytest.param([LONG_STEP, *STEPS, OPERATOR], id="a step that runs over the next"),
    ],
)
def test_files_of_which_one_needs_a_repair_are_read_one_by_one(events: list[str], tmp_path: Path) -> None:
    plain = [write(tmp_path, f"{number}.json", [OPERATOR, CALL]) for number in range(12)]
    assert together(tmp_path / "plain", plain).keys() == {file.name for file in plain}
    assert together(tmp_path / "together", [*plain, write(tmp_path, "damaged.json", events)]) == {}


@pytest.mark.check
def test_a_run_with_broken_files_has_the_traces_and_the_errors_of_each_file_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    whole = [write(run, f"rank{n}.json", [OPERATOR, CALL, KERNEL], distributedInfo={"rank": n}) for n in range(6)]
    cut = run / "rank6.json"
    cut.write_text(whole[0].read_text()[:-40])
    (run / "rank7.json").write_text('{"schemaVersion": 1, "traceEvents": 3}')
    opened_store = locate_store(run, tmp_path / "store").open()
    sources = [(file, TraceEventIngester()) for file in sorted(run.iterdir())]
    *read, failed = ingest_each(sources, opened_store, 2, lambda progress: None)
    for file, answer in zip([*whole, cut], read, strict=True):
        assert isinstance(answer, Ingested)
        assert tables(answer.folder) == alone(tmp_path / f"alone-{file.stem}", file), file
    assert "traceEvents" in str(failed)
    again = ingest_each(sources[:7], opened_store, 2, lambda progress: None)
    assert all(isinstance(answer, Ingested) and answer.was_there for answer in again)
