"""NCCL's payloads: what its NVTX ranges carry as bytes, laid out by schemas that the export describes."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import pyarrow as pa

from traceanalyzer.ingest.nsys.masks import Column, count, filled

# Before the fields: domain (u32), flags, schema (u32), flags, size of the fields (u64), size of it all (u64).
_HEADER = struct.Struct("<IIIIQQ")
# NVTX payload entry types (nvToolsExtPayload.h) that have one size on 64-bit Linux.
_FORMATS = {
    3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h", 14: "H", 15: "i",
    16: "I", 17: "q", 18: "Q", 19: "f", 20: "d", 22: "Q", 23: "Q",
}  # fmt: skip


@dataclass(frozen=True)
class PayloadField:
    """One field of a payload: its name, its offset and how its bytes are read."""

    name: str
    offset: int
    format: str


@dataclass(frozen=True)
class CommunicatorInit:
    """The record of a process that joined a communicator."""

    scope: int
    rank: int
    rank_count: int
    device: int | None


class PayloadDecoder:
    """Decodes payload bytes into JSON objects by field name, and notes who joined which communicator as which rank."""

    def __init__(self, entries: pa.Table) -> None:
        self.inits: list[CommunicatorInit] = []
        self._schemas: dict[tuple[int, int], list[PayloadField]] = {}
        rows = [row for row in entries.to_pylist() if row["schemaId"] is not None]
        for row in sorted(rows, key=lambda row: (row["domainId"] or 0, row["schemaId"], row["idx"] or 0)):
            shape = _FORMATS.get(row["type"])
            if shape and row["name"]:
                key = (row["domainId"] or 0, row["schemaId"])
                self._schemas.setdefault(key, []).append(PayloadField(row["name"], row["offset"] or 0, "<" + shape))

    def decode(self, blobs: Column, threads: Column) -> Column:
        """Return each payload as JSON text; NULL where there is none or its schema is unknown."""
        if not self._schemas or not count(filled(blobs)):
            return pa.nulls(len(blobs), pa.string())
        texts = []
        for blob, thread in zip(blobs.to_pylist(), threads.to_pylist(), strict=True):
            fields = self._fields(blob) if blob else None
            if fields:
                self._note_init(fields, thread)
            texts.append(json.dumps(fields) if fields else None)
        return pa.array(texts, pa.string())

    def _fields(self, blob: bytes) -> dict[str, int | float] | None:
        if len(blob) < _HEADER.size:
            return None
        domain, _, schema, _, _, _ = _HEADER.unpack_from(blob)
        entries = self._schemas.get((domain, schema))
        if entries is None:
            return None
        fields = {}
        for entry in entries:
            place = _HEADER.size + entry.offset
            if place + struct.calcsize(entry.format) <= len(blob):
                (fields[entry.name],) = struct.unpack_from(entry.format, blob, place)
        return fields

    def _note_init(self, fields: dict[str, int | float], thread: int | None) -> None:
        rank, count = fields.get("Rank"), fields.get("No. of ranks")
        if rank is not None and count:
            device = fields.get("CUDA device")
            self.inits.append(
                CommunicatorInit(
                    (thread or 0) & -16777216, int(rank), int(count), None if device is None else int(device)
                )
            )
