"""How a store is written: in a folder of its own, which gets its name when it is complete."""

from __future__ import annotations

import errno
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store.folders import (
    held,
    is_held,
    is_own_folder,
    is_sealed,
    keyed_hash,
    make_own_folder,
    put_in_place,
    remove,
    seal,
)
from traceanalyzer.unfinished import unfinished

# A folder of a killed command is removed by the next one; where locks do not work, once nobody can still write it.
ABANDONED_AFTER_S = 86_400
_SCRATCH_PREFIX = "write-"
# The names that a store gives: nothing else in it is ever removed.
_SCRATCH_NAME = re.compile(rf"{_SCRATCH_PREFIX}\w+", re.ASCII)
_WRITE_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class StoreError(TraceAnalyzerError):
    """The store cannot be written or read: no fault of a trace, and no trace is left out for it."""


class StoreWriter:
    """Writes files and folders of one store, which appear under their names when they are complete."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder = folder
        self.key = key

    def replace_file(self, file: Path, write: Callable[[Path], object]) -> None:
        """Write a file of the store and put it in place at once."""
        with self.scratch() as scratch:
            fresh = scratch / file.name
            write(fresh)
            fresh.chmod(0o600)
            put_in_place(fresh, file)

    def put_folder(self, scratch: Path, target: Path) -> None:
        """Give a folder that was written its name, unless another command was faster."""
        parent = self.folder
        for part in target.parent.relative_to(self.folder).parts:
            parent = make_own_folder(parent / part)
        seal(scratch, self.key)
        with suppress(OSError):
            scratch.rename(target)  # fails where a folder is there that holds anything
            return
        if not is_sealed(target, self.key):  # else another command was faster
            put_in_place(scratch, target)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a new folder to write in, which is removed again unless it was published.

        Raises StoreError where it cannot be written.
        """
        try:
            with ExitStack() as stack:
                scratch = self._new_scratch(stack)
                stack.enter_context(unfinished(scratch))
                try:
                    yield scratch
                finally:
                    remove(scratch)
        except Exception as error:
            if cause := self._write_failure(error):
                hint = "make room there, or give --store DIR on a disk with more"
                raise StoreError(f"the store cannot be written: {cause}", self.folder, hint) from error
            raise

    def remove_abandoned(self) -> int:
        """Remove what killed commands left unfinished, and return how many folders that were."""
        folder = make_own_folder(self.folder / "scratch")
        with held(folder):
            return _remove_abandoned(folder)

    def _write_failure(self, error: Exception) -> str | None:
        """Return why the store could not be written, if this error says so; reading a trace may fail, too."""
        if isinstance(error, OSError):
            in_store = error.filename is not None and self.folder in Path(os.fsdecode(error.filename)).parents
            known = error.errno in _WRITE_FAILURES
            return os.strerror(error.errno) if error.errno is not None and (known or in_store) else None
        import duckdb  # whoever finds all in the store starts without it

        if not isinstance(error, duckdb.IOException):
            return None
        causes = (os.strerror(number) for number in _WRITE_FAILURES)  # DuckDB gives them as text
        return next((cause for cause in causes if cause in str(error)), None)

    def _new_scratch(self, stack: ExitStack) -> Path:
        """Return a new folder, held until `stack` is left; those that killed commands left behind are removed."""
        folder = make_own_folder(self.folder / "scratch")
        with held(folder):  # between making a folder and holding it
            _remove_abandoned(folder)
            scratch = Path(tempfile.mkdtemp(prefix=_scratch_prefix(), dir=folder))
            stack.enter_context(held(scratch))
        return scratch


def _remove_abandoned(folder: Path) -> int:
    found = [left for left in folder.iterdir() if _SCRATCH_NAME.fullmatch(left.name) and is_own_folder(left)]
    abandoned = [left for left in found if _is_abandoned(left)]
    for left in abandoned:
        remove(left)
    return len(abandoned)


def _scratch_prefix() -> str:
    """Return what the names of folders begin with that this machine writes in."""
    return f"{_SCRATCH_PREFIX}{keyed_hash(socket.gethostname().encode(), b'', size_bytes=4)}_"


def _is_abandoned(scratch: Path) -> bool:
    """Return whether no process writes in a folder any more; where that cannot be known, by its age.

    Some file systems on a network keep the locks of each machine apart: of another machine's folders, they say nothing.
    """
    being_written = is_held(scratch)
    if being_written or (being_written is False and scratch.name.startswith(_scratch_prefix())):
        return not being_written
    try:
        return time.time() - os.lstat(scratch).st_mtime > ABANDONED_AFTER_S
    except FileNotFoundError:  # another thread or command has just finished with it
        return False
