"""The catalogue that lies in a store: which tables it shows, and whether it is the one that was written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from traceanalyzer.store.folders import file_seal, read_own_text
from traceanalyzer.store.writing import StoreWriter

CATALOG_NAME = "catalog.duckdb"
_SHOWS = "catalog.txt"


class CatalogFile:
    """The catalogue of one store."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._file = writer.folder / CATALOG_NAME
        self._note = writer.folder / _SHOWS

    def exists(self) -> bool:
        """Return whether anything lies where the catalogue does."""
        return os.path.lexists(self._file)

    def shows(self) -> str | None:
        """Return the name of the derived folder that the catalogue shows, '' for none; None: there is no catalogue."""
        shows, _, looked_like = (read_own_text(self._note) or "").partition("\n")
        return shows if looked_like and looked_like == file_seal(self._file, self._writer.key) else None

    def replace(self, shows: str, write: Callable[[Path], object]) -> None:
        """Write the catalogue, and remember which derived folder it shows."""
        self._writer.replace_file(self._file, write)
        text = f"{shows}\n{file_seal(self._file, self._writer.key)}"
        self._writer.replace_file(self._note, lambda file: file.write_text(text))
