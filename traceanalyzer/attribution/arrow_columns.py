"""Arrays as Arrow columns and back: here integers stand for NULL and for names, there neither does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.buckets import Ints

NO_ROW = -1

Texts: TypeAlias = "pa.Array[Any]"
Numbers: TypeAlias = "pa.Array[Any]"


def column(table: pa.Table, name: str, missing: int = NO_ROW) -> Ints:
    """Return an integer column as an array, `missing` for NULL."""
    values = cast(Any, table[name].combine_chunks().cast(pa.int64()))
    validity, data = values.buffers()
    if not len(values):
        return np.zeros(0, np.int64)
    # Arrow's own fill_null imports pandas where it is installed, for a third of a second.
    numbers = np.frombuffer(data, np.int64)[values.offset : values.offset + len(values)]
    if validity is None or not values.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return np.where(bits[values.offset : values.offset + len(values)] == 1, numbers, missing)


def optional(values: Ints, missing: int = NO_ROW) -> Numbers:
    """Return an integer column that is NULL where the array holds `missing`."""
    return pa.array(values, pa.int64(), mask=values == missing)


def named(codes: Ints, names: Sequence[str | None]) -> Texts:
    """Return names by code; codes below 0 and names that are None give NULL."""
    indices = cast(Any, pa.array(codes.astype(np.int32), mask=codes < 0))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())
