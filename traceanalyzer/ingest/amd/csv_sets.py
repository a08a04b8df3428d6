"""Which CSV tables of rocprofv3 belong together: files of one prefix in one folder; known by headers, not by names."""

from __future__ import annotations

import csv
import re
from pathlib import Path

_HEAD_BYTES = 2**16
# kind of table → columns that only it has, in small letters. The first kind that a set has leads it.
_TABLES = {
    "kernel": {"kind", "kernel_name", "agent_id", "start_timestamp", "end_timestamp"},
    "copy": {"kind", "direction", "source_agent_id", "start_timestamp", "end_timestamp"},
    "api": {"domain", "function", "thread_id", "start_timestamp", "end_timestamp"},
    "counter": {"counter_name", "counter_value", "dispatch_id", "start_timestamp"},
    "agent": {"agent_type", "node_id"},
}
_LEADING = ("kernel", "copy", "api", "counter")
_ENDING = re.compile(
    r"_(?:kernel_trace|hip_api_trace|hsa_api_trace|memory_copy_trace|marker_api_trace|rccl_api_trace"
    r"|memory_allocation_trace|scratch_memory_trace|counter_collection|agent_info)\.csv$",
    re.IGNORECASE,
)


def table_kind(head: bytes) -> str | None:
    """Return which of rocprofv3's tables begins with some bytes; None: none."""
    text = head[:_HEAD_BYTES].decode("utf-8-sig", "replace")
    line = text.splitlines()[0] if text.strip() else ""
    if "," not in line or line.lstrip().startswith(("{", "[")):
        return None
    columns = {name.strip().lower() for name in next(csv.reader([line]), [])}
    return next((kind for kind, wanted in _TABLES.items() if wanted <= columns), None)


def set_of(path: Path) -> dict[Path, str]:
    """Return the tables of a file's set, the one that leads it first, with their kinds."""
    prefix = _ENDING.sub("", path.name)
    siblings = [path] if prefix == path.name else sorted(path.parent.glob("*.csv"))
    kinds = {}
    for file in siblings:
        if file == path or (_ENDING.search(file.name) and _belongs(file.name, prefix)):
            kind = table_kind(_head(file))
            if kind is not None:
                kinds[file] = kind
    order = (*_LEADING, "agent")
    return dict(sorted(kinds.items(), key=lambda item: (order.index(item[1]), len(item[0].name), item[0].name)))


def leader_of(path: Path) -> Path | None:
    """Return the table that stands for a file's set; None where the file is no table of work or calls."""
    if table_kind(_head(path)) not in _LEADING:
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
