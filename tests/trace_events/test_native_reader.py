"""The native reader gives what DuckDB gives, or leaves the chunk to it."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from both_readers import (
    BothReaders,
    assert_alike,
    assert_same_tables,
    library,
    mutated,
    need_library,
    tables_by,
)
from fuzz.mutating import small_json
from trace_event_tables import events, read, slice_text

from hatch_build import build_library
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import native
from traceanalyzer.ingest.trace_events.chunks import sql
from traceanalyzer.ingest.trace_events.stream import CHUNK_BYTES

KERNEL = slice_text(
    "k", cat='"kernel"', pid=0, tid=7, args='{"device": 0, "stream": 7, "correlation": 1, "bw": 0.0041666666666666667}'
)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> BothReaders:
    """Both readers of chunks."""
    return BothReaders(tmp_path_factory.mktemp("chunks"))


@pytest.fixture(scope="module")
def corpus_if_any(root: Path) -> Path:
    """Where the corpus of real traces lies, or would lie."""
    return Path(os.environ.get("TRACEANALYZER_CORPUS", root.parent / "shared" / "corpus"))


ACCEPTED = {
    "host slices with their arguments": slice_text(
        "aten::mm",
        args='{ "External id": 5, "Sequence number" : 18446744073709551615, "Fwd thread id":0,\n'
        ' "Input Dims": [[2, 3], [], [3]], "Concrete Inputs": ["", "1e-05"], "Ev Idx": 7 }',
    ),
    "ids that stand for none": slice_text("a", args='{"External id": 18446744073709551615, "correlation": 4294967295}'),
    "ids in quotes": slice_text("a", args='{"External id": "12", "correlation": "-1"}'),
    "names of 2021": slice_text("a", args='{"external id": 12, "Input dims": [[1]]}'),
    "Python frames": slice_text("f", cat='"python_function"', args='{"Python id": 4, "Python parent id": null}'),
    "stacks": slice_text("a", args='{"Call stack": "f.py(3): f"}'),
    "calls of the driver": slice_text("cuLaunch", cat='"cuda_driver"', args='{"correlation_id": 9, "cbid": 1}'),
    "calls of the runtime": slice_text("cudaLaunch", cat='"CUDA_Runtime"', args='{"corr_id": 9}'),
    "steps": slice_text("ProfilerStep#3") + "," + slice_text("Optimizer.step#SGD.step"),
    "categories that no table lists": slice_text("a", cat='"mine"'),
    "events without a category": '{"ph": "X", "name": "a", "ts": 1, "dur": 2, "args": {}}',
    "GPU work": KERNEL,
    "GPU categories of other tools": slice_text("k", cat='"kernel"', args='{"x": 1}')
    + ","
    + slice_text("k", cat='"Kernel"', tid=99),
    "GPU work with a number or a size alone": slice_text("k", cat='"kernel"', args='{"External id": 25}')
    + ","
    + slice_text("k", cat='"kernel"', args='{"external id": 25}')
    + ","
    + slice_text("k", cat='"kernel"', args='{"grid": [1, 1, 1]}'),
    "GPU work without arguments": slice_text("k", cat='"kernel"', pid='"7"'),
    "synchronisations": slice_text("Stream Sync", cat='"cuda_sync"', args='{"stream": 7, "correlation": 3}'),
    "slices that begin flows": slice_text("a", bind_id='"0x1"', flow_out="true", flow_in="null"),
    "naming events": '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},'
    '{"ph": "M", "name": "process_sort_index", "pid": 1, "ts": 4.5, "args": {"sort_index": 5}}',
    "flows": '{"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 3, "cat": "ac2g", "name": "ac2g"},'
    '{"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 4, "cat": "ac2g", "name": "ac2g", "bp": "e"}',
    "instants and counters": '{"ph": "i", "s": "t", "name": "[memory]", "ts": 1, "pid": 1, "args": {"Bytes": -512}},'
    '{"ph": "C", "name": "c", "pid": 1, "ts": 2, "args": {"a": 1.50, "b": 5e-05}}',
    "instants that are written as slices": slice_text(
        "[memory]", 1, 9000, cat='"cpu_instant_event"', args='{"Bytes": 512, "Device Type": 0, "Addr": 77}'
    ),
    "async events": '{"ph": "b", "id2": {"local": "0x1"}, "name": "a", "cat": "c", "ts": 1, "dur": -5, "pid": 1}',
    "fields that nobody reads": slice_text("a", tts=5, more='{"deep": [[{"x": [null, true, 1.0]}]]}'),
    "characters beyond ASCII": slice_text("ядро \U0001f600", args='{"é": "ü"}'),
    "escapes": slice_text(r"a\"b\\c\/d\n\u00e9\u0041\u4e2d\u0022", args=r'{"a\"": "\/\u005c\t"}'),
    "blanks of every kind": "\r\n\t " + slice_text("a").replace(",", " ,\r\n\t").replace(":", "\t: ") + " \n",
    "fractions of any length": ",".join(
        slice_text("a", ts, "0.4999999") for ts in ("1.0005", "2.123456789", "0.0", "-0.0004")
    ),
    "times of the epoch": ",".join(slice_text("a", ts, 3.1) for ts in ("1712345678901234.567", "1712345678901235")),
    "times of the epoch, many digits": slice_text("a", "1712345678901234.56749951234567891234567", "0.1234567"),
    "whole times of the epoch": slice_text("a", 1712345678901234, "0.0005"),
    "times near the limit of doubles": slice_text("a", "8796093022207.999"),
    "keys that come again with other blanks and in another order": ",".join(
        f'{{"ph": "X",{blanks}"name":{blanks}"a", {keys}, "args": {{"External id":{blanks}5, "b": 1{blanks}}}{blanks}}}'
        for blanks in ("", " ", "\n", " " * 7, " " * 80, " ")
        for keys in ('"ts": 1, "dur": 2', '"dur": 2, "ts": 1', '"cat": "cpu_op", "ts": 1, "dur": 2')
    ),
    "stacks of several slices": ",".join(
        slice_text("a", args='{"Ev Idx": 1, "Call stack": "f.py(3): f"}') for _ in "ab"
    ),
    "more keys than are kept": ",".join(
        slice_text("a", args=f'{{"{number} and more": {number}, "{number % 9}": [], "x": {{}}}}')
        for number in range(400)
    ),
    "times beyond the limit of doubles": slice_text("a", "8796093022208.001") + "," + slice_text("b", "-0.0015", 1),
}


def test_both_readers_give_the_same_rows_of_events_of_every_kind(readers: BothReaders) -> None:
    texts = [text for name, text in ACCEPTED.items() if not name.startswith(("times", "whole times"))]
    assert assert_alike(readers, ",".join(texts).encode())


@pytest.mark.check
@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_both_readers_give_the_same_rows(readers: BothReaders, text: str) -> None:
    assert assert_alike(readers, b",\n" + text.encode())


REFUSED = {
    "no events": "",
    "text that is no JSON": slice_text("a") + ", {",
    "trailing commas": slice_text("a") + ",",
    "a comma before a key that came before": slice_text("a")
    + ", {"
    + slice_text("a").replace('{"ph": "X"', ', "ph": "X"'),
    "arguments that begin with a comma": ",".join(
        slice_text("a", args=args) for args in ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}', '{, "b": 2}')
    ),
    "events without a comma between them": slice_text("a") + slice_text("a"),
    "what is no event": "5",
    "empty events": "{}",
    "events without a phase": '{"name": "a", "ts": 1}',
    "unknown phases": '{"ph": "Z", "ts": 1}',
    "phases of two letters": '{"ph": "XX", "ts": 1, "dur": 2}',
    "lost times": '{"ph": "X", "dur": 1}',
    "lost durations": '{"ph": "X", "ts": 1}',
    "negative durations": slice_text("a", 5, -1),
    "durations of a month": slice_text("a", 5, 2592000000001),
    "times in quotes": slice_text("a", '"5"'),
    "times with an exponent": slice_text("a", "5e3"),
    "times beyond all": slice_text("a", 99999999999999999),
    "fields that are there twice": slice_text("a").replace("}", ', "ts": 4}'),
    "arguments that are there twice": slice_text("a", args='{"External id": 1, "External id": 2}'),
    "arguments that are no object": slice_text("a", args="[1]"),
    "ids that are no numbers": slice_text("a", args='{"External id": "x"}'),
    "ids with a fraction": slice_text("a", args='{"External id": 1.5}'),
    "shapes that are no list": slice_text("a", args='{"Input Dims": "x"}'),
    "truths that are texts": slice_text("a", bind_id=1, flow_in='"true"'),
    "categories beyond ASCII": slice_text("a", cat='"\u212aernel"'),
    "broken UTF-8": slice_text("a\udcff"),
    "halves of pairs": slice_text(r"\ud83d"),
    "control characters": slice_text("a\x01"),
    "unknown escapes": slice_text(r"\x41"),
    "bytes of nothing": slice_text(r"\u0000"),
    "numbers of two zeros": slice_text("a", args='{"a": 00}'),
    "words of Python": slice_text("a", args='{"a": NaN}'),
    "numbers beyond 64 bits": slice_text("a", args='{"a": 18446744073709551616}'),
    "numbers beyond doubles": slice_text("a", args='{"a": 1e400}'),
    "names of 70,000 bytes": slice_text("a" * 70_000),
    "values 65 levels deep": slice_text("a", args='{"a": ' + "[" * 65 + "]" * 65 + "}"),
    "events of a megabyte": slice_text("a", args='{"a": "' + "x" * 2**20 + '"}'),
    "work of XLA": '{"ph": "X", "name": "k", "pid": 1, "ts": 1, "dur": 1, "args": {"kernel_details": "regs:1"}}',
    "steps of XLA": '{"ph": "X", "name": "k", "pid": 1, "ts": 1, "dur": 1, "args": {"step_num": "1"}}',
    "frames of XLA": '{"ph": "X", "name": "$a.py:1 f", "pid": 1, "ts": 1, "dur": 1}',
    "work of rocprof": '{"ph": "X", "name": "k", "pid": 1, "ts": 1, "dur": 1, "args": {"BeginNs": "1", "EndNs": "2"}}',
    "work of rocprofv3": slice_text("k", cat='"kernel_dispatch"', args='{"corr_id": 1}'),
    "work of Omnitrace": slice_text("k", cat='"device_hip"', args='{"corr_id": 1}'),
    "work of rocprof-sys": slice_text("k", cat='"rocm_kernel_dispatch"', args='{"corr_id": 1}'),
    "times of the epoch beside inner ones": slice_text(
        "a", "1712345678901234.5", args='{"a": {"ts": 1712345678901234.5}}'
    ),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_unusual_is_left_to_duckdb(readers: BothReaders, text: str) -> None:
    assert readers.is_accepted(slice_text("good").encode())
    assert not readers.is_accepted(text.encode(errors="surrogateescape"))
    assert readers.is_accepted(slice_text("good").encode())


@pytest.mark.check
def test_a_refused_chunk_lies_beside_accepted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    need_library()
    unusual = slice_text("in", 20, 5, args='{"External id": "x"}')
    document = events(slice_text("out", 10, 30), unusual, KERNEL, slice_text("later", 50))
    read_by = {}
    for reader in native.READERS:
        monkeypatch.setenv(native.READER_VARIABLE, reader)
        read_by[reader] = read(document, chunk_bytes=200)
    assert read_by["native"].rows == read_by["duckdb"].rows
    assert read_by["native"].defects == {"bad-number": 1}


def test_version_says_what_reads_json_traces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(native.READER_VARIABLE, "duckdb")
    assert main(["version", "-v"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "reader of JSON traces: DuckDB"
    if library() is not None:
        monkeypatch.delenv(native.READER_VARIABLE)
        assert main(["version", "-v"]) == 0
        assert capsys.readouterr().out.splitlines()[1] == "reader of JSON traces: native, and DuckDB for unusual chunks"


def test_a_reader_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.READER_VARIABLE, "natve")
    with pytest.raises(TraceAnalyzerError, match="natve is no reader"):
        native.reader_in_use()
    monkeypatch.setenv(native.READER_VARIABLE, "native")
    monkeypatch.setattr(native, "_library", lambda: None)
    with pytest.raises(TraceAnalyzerError, match="was not built here"):
        native.reader_in_use()
    monkeypatch.delenv(native.READER_VARIABLE)
    assert native.reader_in_use() == "duckdb"


def test_a_library_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_library()
    changed = tmp_path / "scanner.c"
    changed.write_bytes(native.SOURCES[-1].read_bytes() + b"\n")
    monkeypatch.setattr(native, "SOURCES", [*native.SOURCES[:-1], changed])
    assert native._library.__wrapped__() is None


_WORK = (
    '"External id": 1180591, "queued": 0, "device": 3, "context": 1, "stream": 7, "correlation": 1180,'
    ' "registers per thread": 56, "shared memory": 16384, "blocks per SM": 0.30000000000000004,'
    ' "warps per SM": 4.8484850000, "grid": [640, 1, 2], "block": [128,1,1], "est. achieved occupancy %": 7'
)
_COLLECTIVE = (
    '"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 274877906944, "Group size": 1048576,'
    ' "dtype": "BFloat16", "Process Group Name": "", "Process Group Description": "données",'
    ' "Process Group Ranks": "[0, 1, 2]", "Seq": -4'
)
# Arguments of GPU work that the scanner types by itself.
TYPED = {
    "kernels": _WORK,
    "collectives": f"{_WORK}, {_COLLECTIVE}",
    "copies": '"device": 0, "stream": 4294967295, "bytes": 17592186044416, "memory bandwidth (GB/s)": 0.5',
    "numbers in quotes": '"device": "12", "stream": "-1", "context": "9223372036854775807",'
    ' "Seq": "-9223372036854775807"',
    "numbers that stand for none": '"device": 0, "stream": 0, "correlation": 0, "External id": 18446744073709551615,'
    ' "graph id": 4294967295, "graph node id": 5',
    "graphs": '"device": 0, "stream": 0, "graph id": 9, "graph node id": 18446744073709551615, "correlation": -1',
    "nothing": '"device": 0, "stream": 0, "grid": null, "bytes": null, "blocks per SM": null, "dtype": null',
    "keys by escapes": r'"\u0064evice": 5, "stre\u0061m": 6',
    "keys in other letters": '"device": 0, "stream": 0, "Grid": "x", "BYTES": [], "Device": "y", "external ID": {}',
    "keys of nested values": '"device": 0, "stream": 0, "x": {"grid": "y", "device": 7, "copy kind": "HtoD"}',
    "words that queries look for": '"device": 0, "stream": 0, "x": "\\"grid\\" \\"block", "gridx": 1',
    "limits of a launch": '"device": 2147483647, "stream": 0, "grid": [17592186044416, 1, 1], "block": [0, 0, 0]',
}
# Those that it leaves to DuckDB, together with all others of the trace.
UNTYPED = {
    "no device": '"stream": 7',
    "no stream": '"device": 0',
    "a device that is null": '"device": null, "stream": 7',
    "keys that come twice": '"device": 0, "stream": 0, "bytes": 5, "bytes": 6',
    "keys of other recorders": '"device": 0, "stream": 0, "original_stream": 9',
    "numbers that are texts": '"device": 0, "stream": "default"',
    "numbers with a fraction": '"device": 0, "stream": 0, "bytes": 5.5',
    "numbers of 64 bits without a sign": '"device": 0, "stream": 18446744073709551615',
    "ids of 64 bits without a sign": '"device": 0, "stream": 0, "correlation": 18446744073709551614',
    "numbers of 32 bits": '"device": 2147483648, "stream": 0',
    "copies of more than any device has": '"device": 0, "stream": 0, "bytes": 17592186044417',
    "shares in quotes": '"device": 0, "stream": 0, "blocks per SM": "0.5"',
    "two sides": '"device": 0, "stream": 0, "grid": [1, 2]',
    "four sides": '"device": 0, "stream": 0, "grid": [1, 2, 3, 4]',
    "negative sides": '"device": 0, "stream": 0, "block": [1, -2, 3]',
    "sides that are no numbers": '"device": 0, "stream": 0, "grid": [1, null, "3"]',
    "sides with a fraction": '"device": 0, "stream": 0, "grid": [1.5, 1, 1]',
    "sides in quotes": '"device": 0, "stream": 0, "grid": "[1, 2, 3]"',
    "more than any device launches": '"device": 0, "stream": 0, "grid": [17592186044416, 2, 1]',
    "names with escapes": r'"device": 0, "stream": 0, "dtype": "a\"b"',
    "names that are lists": '"device": 0, "stream": 0, "Process Group Ranks": [0, 1]',
    "true and false": '"device": true, "stream": false',
}


def _works(args: str) -> bytes:
    """Return GPU work of each kind with these arguments."""
    named = (
        ("kernel", "ncclKernel"),
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
        ("gpu_memset", "Memset (Device)"),
    )
    return ",".join(slice_text(name, cat=f'"{kind}"', args=f"{{{args}}}") for kind, name in named).encode()


@pytest.mark.parametrize("args", TYPED.values(), ids=TYPED)
def test_usual_work_is_typed_as_duckdb_types_it(readers: BothReaders, args: str) -> None:
    assert readers.is_typed(_works(args))
    assert assert_alike(readers, _works(args))


def test_work_with_unusual_arguments_is_typed_by_duckdb(readers: BothReaders) -> None:
    typed = [name for name, args in UNTYPED.items() if readers.is_typed(_works(_WORK) + b"," + _works(args))]
    assert typed == []
    assert readers.is_typed(_works(_WORK))
    assert assert_alike(readers, b",".join(map(_works, [_WORK, *UNTYPED.values()])))


# Values at which readers of numbers, texts and lists part ways.
_NUMBERS = (
    "0",
    "-1",
    "7",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
)
_ODD = (
    "18446744073709551615",
    "1.0",
    "0.1",
    "1e3",
    "5e-05",
    "123456789012345678",
    "0.30000000000000004",
    "null",
    "true",
)
_TEXTS = ('""', '"12"', '"-0"', '"007"', '" 7"', '"1.5"', '"x"', '"é"', r'"\u0031"', r'"a\/b"', '"[1,2,3]"', '"null"')
_LISTS = (
    "[]",
    "[1,2,3]",
    "[ 0, 0, 0 ]",
    "[1,2,3.0]",
    "[1,2,null]",
    '["1","2","3"]',
    "[[1],2,3]",
    "{}",
    '{"grid":[1,2,3]}',
)


def test_arguments_of_any_kind_are_typed_as_duckdb_types_them(readers: BothReaders) -> None:
    chosen = random.Random(3)
    keys = [
        *dict.fromkeys(re.findall(r'"([^"]+)": \[?"(?:VARCHAR|BIGINT)"', sql("gpu"))),
        "queued",
        "external id",
        "Grid",
    ]
    works = []
    for _ in range(4000):
        values = {"device": chosen.choice(("0", '"3"')), "stream": chosen.choice(_NUMBERS[:5])}
        for key in chosen.choices(keys, k=chosen.randrange(4)):
            values[key] = chosen.choice((*_NUMBERS, *_ODD, *_TEXTS, *_LISTS))
        works.append(_works(", ".join(f'"{key}": {value}' for key, value in values.items())))
    typed = [work for work in works if readers.is_typed(work)]
    assert len(typed) > 500
    assert assert_alike(readers, b",".join(typed))


def test_the_scanner_knows_every_argument_that_duckdb_types(root: Path) -> None:
    source = (root / "traceanalyzer" / "ingest" / "native" / "scanner.c").read_text(encoding="utf-8")
    listed = set(re.findall(r'"([^"]+)"', source.split("ARGUMENT_NAMES[] = {")[1].split("};")[0]))
    assert set(re.findall(r'"([^"]+)": \[?"(?:VARCHAR|BIGINT)"', sql("gpu"))) <= listed


def test_names_say_alike_what_work_communicates_and_copies(readers: BothReaders) -> None:
    names = (
        "NCCLDevKernel", "x_RcclY", "mccl", "amccl", "9CNCL", "void Cross_Device_Reduce_1", "cncx", "Memcpy",
        "Memcpy DtoH (Device -> Pageable)", "Memcpy PtoP (Device -> Device)", "CopyD2D", "DEVICE_TO_DEVICE",
        "Memcpy HtoH (HOST -> SHARED)", "MEMORY_COPY_HOST_TO_DEVICE", "Memset (MEMORY)", "Memset (Managed)",
    )  # fmt: skip
    works = (
        slice_text(name, cat=f'"{kind}"', args=f"{{{_WORK}}}")
        for name in names
        for kind in ("kernel", "gpu_memcpy", "gpu_memset")
    )
    nameless = slice_text("a", cat='"kernel"', args=f"{{{_WORK}}}").replace('"name": "a", ', "")
    events = ",".join((nameless, *works)).encode()
    assert readers.is_typed(events)
    assert assert_alike(readers, events)


def test_work_with_its_rank_before_its_names_has_the_same_tables(tmp_path: Path) -> None:
    listed = [
        slice_text(f"[R3] {name}", cat=f'"{kind}"', args=f"{{{_WORK}}}")
        for name, kind in (("aten::mm", "cpu_op"), ("cudaLaunchKernel", "cuda_runtime"), ("ncclKernel", "kernel"))
    ]
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents": [{",".join(listed)}]}}', encoding="utf-8")
    assert not any("] nccl" in rows for rows in tables_by("native", path, tmp_path, CHUNK_BYTES).values())
    assert_same_tables(path, tmp_path / "both", CHUNK_BYTES)


SMALL = ("healthy/rank0.json.gz", "torch_cpu_slow_loader/trace.json.gz")


def _small_chunks(path: Path) -> list[bytes]:
    """Return the first events of each kind of a trace as chunks, written with and without blanks."""
    document = json.loads(small_json(path))
    listed = document["traceEvents"] if isinstance(document, dict) else document
    chunks = [listed[at : at + 12] for at in range(0, len(listed), 12)]
    styles: tuple[dict[str, Any], ...] = ({"separators": (",", ":"), "ensure_ascii": False}, {"indent": 2})
    return [b",\n".join(json.dumps(event, **style).encode() for event in chunk) for chunk in chunks for style in styles]


def _mutations(root: Path, corpus: Path, seed: int, count: int) -> Iterator[bytes]:
    paths = [root / "sample_traces" / name for name in SMALL] + sorted((corpus / "kineto").glob("*.json.gz"))
    chunks = [chunk for path in paths if path.stat().st_size < 2**20 for chunk in _small_chunks(path)]
    chosen = random.Random(seed)
    for _ in range(count):
        yield mutated(chosen.choice(chunks), chosen)


@pytest.mark.long
@pytest.mark.check
@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_chunks_are_refused_or_read_alike(
    readers: BothReaders, root: Path, corpus_if_any: Path, seed: int
) -> None:
    accepted = sum(assert_alike(readers, chunk) for chunk in _mutations(root, corpus_if_any, seed, 1000))
    assert accepted > 100


@pytest.mark.check
@pytest.mark.parametrize("chunk_bytes", [700, 20_000, 300_000])
def test_a_trace_in_chunks_of_any_size_has_the_same_tables(root: Path, tmp_path: Path, chunk_bytes: int) -> None:
    text = gzip.decompress((root / "sample_traces" / SMALL[1]).read_bytes())
    path = tmp_path / "trace.json"
    path.write_bytes(text[: max(40 * chunk_bytes, 10_000)])
    assert_same_tables(path, tmp_path, chunk_bytes)


@pytest.mark.long
@pytest.mark.check
def test_a_trace_cut_anywhere_has_the_same_tables(root: Path, tmp_path: Path) -> None:
    text = gzip.decompress((root / "sample_traces" / SMALL[0]).read_bytes())
    chosen = random.Random(5)
    for _ in range(12):
        path = tmp_path / f"cut{chosen.randrange(10**9)}.json"
        path.write_bytes(text[: chosen.randrange(len(text))])
        assert_same_tables(path, tmp_path / path.stem, 100_000)


@pytest.mark.long
@pytest.mark.check
@pytest.mark.parametrize("folder", ["sample_traces", "tests/data"])
def test_traces_of_the_repository_have_the_same_tables(root: Path, tmp_path: Path, folder: str) -> None:
    paths = [path for path in sorted((root / folder).rglob("*")) if path.name.endswith((".json", ".json.gz"))]
    for number, path in enumerate(paths):
        assert_same_tables(path, tmp_path / str(number), 2**20)


@pytest.mark.long
@pytest.mark.parametrize("chunk_bytes", [300_000, CHUNK_BYTES])
def test_the_corpus_has_the_same_tables(corpus: Path, tmp_path: Path, chunk_bytes: int) -> None:
    for number, path in enumerate(sorted((corpus / "kineto").rglob("*.json.gz"))):
        if chunk_bytes == CHUNK_BYTES or path.stat().st_size < 2**21:
            assert_same_tables(path, tmp_path / str(number), chunk_bytes)
            shutil.rmtree(tmp_path / str(number))


def test_no_chunk_of_the_corpus_is_refused(readers: BothReaders, corpus: Path) -> None:
    for path in sorted((corpus / "kineto").rglob("*.json.gz")):
        text = gzip.decompress(path.read_bytes())
        start = text.index(b"[", text.index(b'"traceEvents"')) + 1
        _, length = json.JSONDecoder(strict=False).raw_decode(text[start - 1 :].decode("latin-1"))
        assert readers.is_accepted(text[start : start - 1 + length - 1]), path.name


@pytest.mark.long
@pytest.mark.check
def test_sanitizers_find_nothing_in_mutated_chunks(root: Path, corpus_if_any: Path, tmp_path: Path) -> None:
    options = (
        "-std=c11",
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    )
    driver = root / "tests" / "trace_events" / "scan_chunks.c"
    program = build_library(root, (*options, str(driver)), tmp_path / "scan_chunks")
    if program is None:
        pytest.skip("no C compiler with sanitizers")
    chunks = tmp_path / "chunks"
    count = 20_000
    with chunks.open("wb") as out:
        for chunk in _mutations(root, corpus_if_any, 7, count):
            out.write(len(chunk).to_bytes(4, "little") + chunk)
    done = subprocess.run([str(program), str(chunks)], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr[-2000:]) == (0, "")
    scanned, accepted = (int(word) for word in done.stdout.split())
    assert scanned == count and accepted > count // 20
