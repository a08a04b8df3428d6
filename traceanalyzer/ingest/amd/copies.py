"""Copies as rocprofiler names them."""

from __future__ import annotations

import pyarrow as pa

from traceanalyzer.ingest.amd.recording import flags
from traceanalyzer.ingest.nsys.masks import Column

_KINDS = {
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
}
_PREFIX = "MEMORY_COPY_"


def copy_kinds(names: Column, between_gpus: Column) -> Column:
    """Return the kinds of copies by their names, such as MEMORY_COPY_HOST_TO_DEVICE; NULL for other names."""
    kinds = [_KINDS.get((name or "").removeprefix(_PREFIX)) for name in names.to_pylist()]
    peers = flags(between_gpus).tolist()
    named = ["PtoP" if peer and kind == "DtoD" else kind for kind, peer in zip(kinds, peers, strict=True)]
    return pa.array(named, pa.string()).dictionary_encode()
