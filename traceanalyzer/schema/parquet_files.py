"""How tables of the store are written as Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return how tables of the store are written.

    Times and ids hardly repeat: looking for repetitions in them costs more than writing them. Stacks do repeat.
    """
    repeating = [
        field.name
        for field in schema
        if field.type == pa.string() or pa.types.is_dictionary(field.type) or field.name == "stack_id"
    ]
    packed = [field.name for field in schema if pa.types.is_integer(field.type) and field.name not in repeating]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    }
