"""The rows of rocprofv3's CSV tables: which tables belong together, and the processes that several may be of.

Tables of one prefix in one folder are one trace; tables are known by their headers, not by their names.
Earlier recorders write a table of kernels.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.amd.recording import AmdDefects, integers
from traceanalyzer.ingest.nsys.masks import Column

_HEAD_BYTES = 2**16
# kind of table → columns that it has, in small letters: those of counters have all that those of kernels have.
_TABLES = {
    "counter": {"counter_name", "counter_value", "dispatch_id", "start_timestamp"},
    "kernel": {"kernel_name", "agent_id", "start_timestamp", "end_timestamp"},
    "copy": {"kind", "direction", "source_agent_id", "destination_agent_id", "start_timestamp", "end_timestamp"},
    "api": {"domain", "function", "thread_id", "start_timestamp", "end_timestamp"},
    "allocation": {"operation", "allocation_size", "address", "end_timestamp"},
    "agent": {"agent_type", "node_id"},
}
# As the first versions of rocprofv3 say it.
_COLUMNS_OF_FIRST = {"group_segment_size": "lds_block_size", "private_segment_size": "scratch_size"}
# rocprof 1 and 2, and ROCm Compute Profiler: their tables name the GPU, and have a column for each counter.
_EARLIER = {"gpu-id", "gpu_id"}
# What is no counter there, by rocprofv3's name where it has one. Grids and work-groups are products of their sides.
_COLUMNS_OF_EARLIER = {
    **dict.fromkeys(_EARLIER, "agent_id"),
    "kernelname": "kernel_name",
    "kernel_name": "kernel_name",
    "index": "dispatch_id",
    "dispatch_id": "dispatch_id",
    "queue-id": "queue_id",
    "queue_id": "queue_id",
    "pid": "process_id",
    "tid": "thread_id",
    "grd": "grid_size_x",
    "grid_size": "grid_size_x",
    "wgr": "workgroup_size_x",
    "workgroup_size": "workgroup_size_x",
    "lds": "lds_block_size",
    "lds_per_workgroup": "lds_block_size",
    "scr": "scratch_size",
    "scratch_per_workitem": "scratch_size",
    "vgpr": "vgpr_count",
    "arch_vgpr": "vgpr_count",
    "beginns": "start_timestamp",
    "endns": "end_timestamp",
}
_NO_COUNTER = re.compile(
    r"(?:queue[-_]index|accum_vgpr|sgpr|fbar|wave_size|sig|obj|(?:dispatch|complete|duration)ns|node_id"
    r"|(?:kernel|correlation)_id(?:_\d+)?|(?:start|end)_timestamp(?:_\d+)?)"
)
# The first kind that a set has leads it.
_LEADING = ("kernel", "copy", "api", "counter", "allocation")
_UNREADABLE = "unreadable"  # by its name one of the tables, but not by its header
_SCRATCH = re.compile(r"_scratch_memory_trace\.csv$", re.IGNORECASE)  # no allocations of the program: not read
_ENDING = re.compile(
    r"(?:^|_)(?:(?:[a-z]+_api|regions|hip|hsa|kernel|memory_copy|memory_allocation|scratch_memory)_trace"
    r"|counter_collection|agent_info)\.csv$",
    re.IGNORECASE,
)


def table_kind(head: bytes) -> str | None:
    """Return which of rocprofv3's tables begins with some bytes; None: none."""
    columns = _columns_in(head)
    return next((kind for kind, wanted in _TABLES.items() if wanted <= columns), None)


def _columns_in(head: bytes) -> set[str]:
    text = head[:_HEAD_BYTES].decode("utf-8-sig", "replace")
    line = text.splitlines()[0] if text.strip() else ""
    return set() if line.lstrip().startswith(("{", "[")) else set(_columns(line))


def _columns(header: str) -> list[str]:
    """Return the columns of a table in small letters, those of earlier recorders as rocprofv3 calls them."""
    names = [name.lower() for name in _written_columns(header)]
    others = _COLUMNS_OF_EARLIER if _EARLIER & set(names) else _COLUMNS_OF_FIRST
    return [others.get(name, name) for name in names]


def _written_columns(header: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([header], delimiter=separator_in(header)), [])]


def counters_of_earlier(file: Path) -> dict[str, str] | None:
    """Return the columns that are counters in a table of an earlier recorder, with their names; None for others."""
    written = _written_columns(_head(file).decode("utf-8-sig", "replace").partition("\n")[0])
    if not _EARLIER & {name.lower() for name in written}:
        return None
    return {
        name.lower(): name
        for name in written
        if name.lower() not in _COLUMNS_OF_EARLIER and not _NO_COUNTER.fullmatch(name.lower())
    }


def separator_in(header: str) -> str:
    """Return what stands between the columns of a table: spreadsheets of many languages write semicolons or tabs."""
    return max(",;\t", key=header.count)


def lacked_columns(head: bytes) -> str:
    """Return the columns that a table lacks which has most of what one of rocprofv3's has; empty for other tables."""
    columns = _columns_in(head)
    lacked = min((_TABLES[kind] - columns for kind in sorted(_LEADING, key=lambda kind: -len(_TABLES[kind]))), key=len)
    is_known = any(
        lacked < _TABLES[kind] and len(_TABLES[kind] - columns) * 2 < len(_TABLES[kind]) for kind in _LEADING
    )
    return ", ".join(sorted(name.title() for name in lacked)) if is_known else ""


def set_of(path: Path) -> dict[Path, str]:
    """Return the tables of a file's set, the one that leads it first, with their kinds."""
    prefix = _ENDING.sub("", path.name)
    siblings = [path] if prefix == path.name else sorted(path.parent.glob("*.csv"))
    kinds = {}
    for file in siblings:
        if file == path or (_ENDING.search(file.name) and _belongs(file.name, prefix)):
            kind = table_kind(_head(file))
            if kind is not None or (file.is_file() and not _SCRATCH.search(file.name)):
                kinds[file] = kind or _UNREADABLE
    order = (*_LEADING, "agent", _UNREADABLE)
    return dict(sorted(kinds.items(), key=lambda item: (order.index(item[1]), len(item[0].name), item[0].name)))


def leader_of(path: Path) -> Path | None:
    """Return the table that stands for a file's set; None where the file is no table of work or calls."""
    if table_kind(_head(path)) not in _LEADING:
        return None
    # rocprof 1 writes the same kernels with their calls as JSON.
    if path.with_suffix(".json").is_file() and counters_of_earlier(path) is not None:
        return None
    prefix = _ENDING.sub("", path.name)
    wider = [path]
    # Counters are collected in passes of their own, whose prefixes go on from that of the trace.
    if prefix != path.name:
        wider += [file for file in path.parent.glob("*.csv") if _belongs(path.name, _ENDING.sub("", file.name))]
    leaders = {next(iter(set_of(file))) for file in wider if table_kind(_head(file)) in _LEADING}
    return min(leaders, key=lambda file: (_LEADING.index(table_kind(_head(file)) or ""), len(file.name), file))


def _belongs(name: str, prefix: str) -> bool:
    return prefix == _ENDING.sub("", name) or _ENDING.sub("", name).startswith(f"{prefix}_")


def _head(path: Path) -> bytes:
    if not path.is_file():  # a pipe would be waited for
        return b""
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


_BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class CsvProcess:
    """A process: its guid where `rocpd convert` wrote the tables, its number, its threads; the others are known."""

    guid: str | None = None
    pid: int | None = None
    threads: set[int] = field(default_factory=set)
    others: list[CsvProcess] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Return the part of a trace's name that differs between processes."""
        return str(self.pid) if self.guid is None else f"{self.pid or ''}-{self.guid}".strip("-")

    def owns(self, batch: pa.RecordBatch, *, is_first: bool) -> Column | None:
        """Return which rows are of this process; None: no column names one. The first has rows of unknown ones, too."""
        if self.guid is not None and "guid" in batch.schema.names:
            own = np.array([text == self.guid for text in batch.column("guid").to_pylist()], np.bool_)
            return pa.array(own)
        for column, known in (("process_id", [self.pid]), ("thread_id", list(self.threads))):
            if column not in batch.schema.names:
                continue
            rows = integers(numbers(batch, column))
            own = np.isin(rows, np.array([one for one in known if one is not None], np.int64))
            if is_first:
                elsewhere = [
                    one for other in self.others for one in ([other.pid] if column == "process_id" else other.threads)
                ]
                own |= ~np.isin(rows, np.array([one for one in elsewhere if one is not None], np.int64))
            return pa.array(own)
        return None


def processes_in(tables: Mapping[Path, str]) -> list[CsvProcess]:
    """Return the processes that tables of calls, kernels and copies name; one that is unknown where none is named."""
    found: dict[tuple[str | None, int | None], CsvProcess] = {}
    for file, kind in tables.items():
        if kind in ("agent", "counter", _UNREADABLE) or not {"guid", "process_id"} & set(_names_and_separator(file)[0]):
            continue
        for batch in batches_of(file, AmdDefects(), ("guid", "process_id", "thread_id")):
            _add_processes(batch, found)
    # Kernels and copies have the guid alone: their process is that of the calls.
    named = {guid for guid, pid in found if pid is not None}
    kept = [one for (guid, pid), one in found.items() if pid is not None or (guid is not None and guid not in named)]
    kept.sort(key=lambda one: (one.pid is None, one.pid, one.guid or ""))
    for one in kept:
        one.others.extend(other for other in kept if other is not one)
    return kept or [CsvProcess()]


def _add_processes(batch: pa.RecordBatch, found: dict[tuple[str | None, int | None], CsvProcess]) -> None:
    columns = {
        name: integers(numbers(batch, name)) for name in ("process_id", "thread_id") if name in batch.schema.names
    }
    pids = columns.get("process_id", np.full(batch.num_rows, -1))
    guids = batch.column("guid").dictionary_encode() if "guid" in batch.schema.names else None
    codes = np.zeros(batch.num_rows, np.int64) if guids is None else guids.indices.to_numpy(zero_copy_only=False)
    threads = columns.get("thread_id", np.full(batch.num_rows, -1))
    for code, pid, thread in np.unique(np.stack([codes, pids, threads]), axis=1).T.tolist():
        guid = None if guids is None else guids.dictionary[code].as_py() or None
        known = pid if pid >= 0 else None
        if guid is None and known is None:
            continue
        process = found.setdefault((guid, known), CsvProcess(guid, known))
        if thread >= 0:
            process.threads.add(thread)


def batches_of(file: Path, defects: AmdDefects, wanted: tuple[str, ...] = ()) -> Iterator[pa.RecordBatch]:
    """Yield a table as texts, columns in small letters; rows of another length are left out and counted."""

    def refuse(row: pc_csv.InvalidRow) -> Literal["skip"]:
        defects.add("unreadable-record", example=f"{file.name}: {row.text[:200]}")
        return "skip"

    try:
        with file.open("rb") as opened:
            names, separator = _names_and_separator(file)
            with pc_csv.open_csv(
                cast("IO[bytes]", _Utf8File(opened, _whole_bytes(file, names, separator, defects), defects)),
                pc_csv.ReadOptions(column_names=names, skip_rows=1, block_size=_BLOCK_BYTES),
                pc_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse),
                pc_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=False,
                    include_columns=[name for name in names if name in wanted] if wanted else None,
                ),
            ) as reader:
                yield from reader
    except pa.ArrowInvalid as error:
        defects.add("unreadable-rows", example=f"{file.name}: {str(error)[:200]}")


class _Utf8File(io.RawIOBase):
    """A file whose bytes are UTF-8, others replaced and counted: Arrow shows a rejected row in no other way.

    It ends with a line break: without one Arrow takes a header alone for a file that is too short.
    """

    def __init__(self, file: BinaryIO, left_bytes: int, defects: AmdDefects) -> None:
        self._file, self._left_bytes, self._defects = file, left_bytes, defects
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, no more than `size`: a bad byte becomes three."""
        while True:
            most = max(size // 3, 1) if size > 0 else self._left_bytes
            raw = self._file.read(min(most, self._left_bytes))
            self._left_bytes -= len(raw)
            raw += b"\n" if raw and len(raw) < most else b""
            text = self._decoder.decode(raw, final=not raw)
            bad = text.count("\ufffd") - raw.count("\ufffd".encode())
            self._defects.add("invalid-utf8", max(bad, 0), text[:80])
            if text or not raw:
                return text.encode()


def _whole_bytes(file: Path, names: list[str], separator: str, defects: AmdDefects) -> int:
    """Return how many bytes of a table to read: all but a last row that may be cut inside its last number."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        opened.seek(max(size - _HEAD_BYTES, 0))
        _, line_end, last = opened.read().rpartition(b"\n")
    row = last.decode("utf-8", "replace")
    cells = dict(zip(names, next(csv.reader([row], delimiter=separator), []), strict=False))
    is_quoted = row.endswith('"') and not row.endswith(f'{separator}"')
    # Rows of another length are refused as such.
    if not line_end or is_quoted or len(cells) < len(names):
        return size
    start, end = cells.get("start_timestamp", ""), row.rpartition(separator)[2].strip().strip('"')
    start, end = (_plain_numbers(pa.array([text]))[0].as_py() for text in (start, end))
    # A time that lacks a digit lies ahead of the start.
    if names[-1] == "end_timestamp" and end.isdecimal() and (len(end), end) >= (len(start), start):
        return size
    defects.add("unreadable-record", example=f"{file.name}: the file ends inside {row[:200]}")
    return size - len(last)


def _names_and_separator(file: Path) -> tuple[list[str], str]:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        first = lines.readline(_HEAD_BYTES)
    if not first:
        raise TraceAnalyzerError("the file is empty", file, "record it again")
    return _columns(first), separator_in(first)


# Spreadsheets set thousands apart, and write whole numbers with a fraction of zeros, as tables of reals have them.
_NUMBER = r"^-?\d{1,18}$"
_GROUPED = "|".join(rf"^-?\d{{1,3}}(?:{mark}\d{{3}})+$" for mark in (r"\.", ",", r"[ '’\x{a0}\x{202f}]"))
_WITH_FRACTION = r"^(-?\d+)[.,]0*$"


def numbers(batch: pa.RecordBatch, column: str) -> Column:
    """Return a column of numbers; NULL where the table has no such column, and for what is no number."""
    if column not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int64())
    texts = pc.utf8_trim_whitespace(batch.column(column))
    is_number = pc.match_substring_regex(texts, _NUMBER)
    if not pc.all(is_number).as_py():
        texts = _plain_numbers(texts)
        is_number = pc.match_substring_regex(texts, _NUMBER)
    found: Column = pc.if_else(is_number, texts, pa.scalar(None, pa.string())).cast(pa.int64())
    return found


def _plain_numbers(texts: Any) -> Any:
    digits = pc.replace_substring_regex(texts, r"[., '’\x{a0}\x{202f}]", "")
    grouped = pc.if_else(pc.match_substring_regex(texts, _GROUPED), digits, texts)
    return pc.replace_substring_regex(grouped, _WITH_FRACTION, r"\1")
