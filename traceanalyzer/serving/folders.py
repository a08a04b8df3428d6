"""The folders that are served: which runs lie in them, and which paths lead out of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store.locating import STORE_NAME

# A run is a file, or a folder whose traces lie in it, in a folder in it, or in the files of such a folder.
_DEPTH = 3
MOST_RUNS = 200


@dataclass(frozen=True)
class ServedFolders:
    """Folders by their real paths; nothing outside them is read as a trace."""

    roots: tuple[Path, ...]

    def run(self, name: str) -> Path:
        """Return the real path of a run that is named in full, or below one of the folders.

        Raises TraceAnalyzerError where it does not exist, lies elsewhere, or holds a link that leads elsewhere.
        """
        if "\0" in name:
            raise TraceAnalyzerError("the name holds a NUL", "run", "`runs` lists what can be asked about")
        # An absolute name replaces the root before it.
        for path in dict.fromkeys(Path(os.path.realpath(root / name)) for root in self.roots):
            if path.exists() and self._holds(path):
                self._check_links(path)
                return path
        hint = f"`runs` lists what can be asked about; served: {', '.join(map(str, self.roots))}"
        raise TraceAnalyzerError("no such run in the folders that are served", name, hint)

    def runs(self) -> list[str]:
        """Return what may be runs: the folders themselves, and the files and folders in them that are not hidden."""
        found: list[str] = []
        for root in self.roots:
            found.append(str(root))
            found += sorted(str(entry) for entry in root.iterdir() if not entry.name.startswith("."))
        return found

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _check_links(self, run: Path) -> None:
        """Raise TraceAnalyzerError for a link in a run that leads out of the folders, wherever discovery may follow."""
        # Readers of a file also look for files beside it: SQLite for its log.
        beside = (entry for entry in run.parent.iterdir() if entry.name.startswith(run.name))
        for entry in beside if run.is_file() else _entries(run, _DEPTH):
            if entry.is_symlink() and not self._holds(Path(os.path.realpath(entry))):
                raise TraceAnalyzerError(
                    "is a link that leads out of the folders that are served", entry, "serve the folder it leads to"
                )


def served_folders(folders: Sequence[Path]) -> ServedFolders:
    """Return folders to serve; raises TraceAnalyzerError for what is no folder."""
    for folder in folders:
        if not folder.is_dir():
            raise TraceAnalyzerError("no such folder", folder, "name the folders whose runs may be asked about")
    return ServedFolders(tuple(dict.fromkeys(folder.resolve() for folder in folders)))


def _entries(path: Path, depth: int) -> Iterator[Path]:
    if depth == 0 or not path.is_dir():
        return
    for entry in path.iterdir():
        if entry.name == STORE_NAME:
            continue
        # Whoever asks looks at a link before it is followed.
        yield entry
        yield from _entries(entry, depth - 1)
