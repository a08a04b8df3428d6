"""Rows of numbers that are put aside on disk until all of them are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

_BATCH_ROWS = 16_384


class RowSpool:
    """Collects rows, and yields them in batches afterwards; nothing is written where they are few."""

    def __init__(self, path: Path, columns: Sequence[str], reals: Sequence[str] = ()) -> None:
        self._path = path
        fields = [pa.field(name, pa.int64()) for name in columns] + [pa.field(name, pa.float64()) for name in reals]
        self._schema = pa.schema(fields)
        self._rows: list[tuple[Any, ...]] = []
        self._file: pa.RecordBatchFileWriter | None = None
        self.count = 0

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row."""
        self._rows.append(row)
        self.count += 1
        if len(self._rows) == _BATCH_ROWS:
            if self._file is None:
                self._file = pa.ipc.new_file(str(self._path), self._schema)
            self._file.write_batch(self._batch())
            self._rows = []

    def close(self) -> None:
        """Finish what was written."""
        if self._file is not None:
            self._file.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, any number of times."""
        if self._file is not None:
            with pa.memory_map(str(self._path)) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
        if self._rows:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
