"""The rows of rocprofv3's CSV tables, and the processes that several of them may be of."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.amd.defects import AmdDefects
from traceanalyzer.ingest.amd.recording import integers
from traceanalyzer.ingest.nsys.masks import Column

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
        header = _header(file)
        if kind in ("agent", "counter") or not {"guid", "process_id"} & set(header):
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
            names = _header(file)
            with pc_csv.open_csv(
                cast("IO[bytes]", _Utf8File(opened, defects)),
                pc_csv.ReadOptions(column_names=names, skip_rows=1, block_size=_BLOCK_BYTES),
                pc_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
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
    """A file whose bytes are UTF-8, others replaced and counted: Arrow shows a rejected row in no other way."""

    def __init__(self, file: BinaryIO, defects: AmdDefects) -> None:
        self._file, self._defects = file, defects
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, no more than `size`: a bad byte becomes three."""
        while True:
            raw = self._file.read(max(size // 3, 1) if size > 0 else -1)
            text = self._decoder.decode(raw, final=not raw)
            bad = text.count("\ufffd") - raw.count("\ufffd".encode())
            self._defects.add("invalid-utf8", max(bad, 0), text[:80])
            if text or not raw:
                return text.encode()


def _header(file: Path) -> list[str]:
    import csv

    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        for row in csv.reader(lines):
            return [name.strip().lower() for name in row]
    raise TraceAnalyzerError("the file is empty", file, "record it again")


def numbers(batch: pa.RecordBatch, column: str) -> Column:
    """Return a column of numbers; NULL where the table has no such column, and for what is no number."""
    if column not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int64())
    texts = pc.utf8_trim_whitespace(batch.column(column))
    is_number = pc.match_substring_regex(texts, r"^-?\d{1,18}$")
    found: Column = pc.if_else(is_number, texts, pa.scalar(None, pa.string())).cast(pa.int64())
    return found
