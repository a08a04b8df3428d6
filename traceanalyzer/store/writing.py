"""How a store is written: in a folder of its own, which gets its name when it is complete.

Its folders and files are made, checked, sealed and removed without following a link.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import unfinished

OWN_FOLDER_MODE = 0o700
NOT_A_FOLDER = "is a link, a file or a folder of another user"
_OWN_FILE_MODE = 0o600
SEAL_NAME = "seal.txt"


def is_own_folder(path: Path) -> bool:
    """Return whether a path is a real folder, not a link, that belongs to this user."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()


def make_own_folder(path: Path) -> Path:
    """Return a folder of the store, made when it is not there; raise TraceAnalyzerError when something else is."""
    with suppress(FileExistsError):
        path.mkdir(mode=OWN_FOLDER_MODE)
    if not is_own_folder(path):
        raise TraceAnalyzerError(f"a part of the store {NOT_A_FOLDER}", path, "remove it, or give --store DIR")
    return path


def read_own_text(path: Path) -> str | None:
    """Return the text of a real file of this user; None when there is none."""
    data = read_own(path)
    return None if data is None else data.decode(errors="replace")


def read_own(path: Path) -> bytes | None:
    """Return the content of a real file of this user; None when there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read() if _is_own_file(os.fstat(handle)) else None


def is_own_file(path: Path) -> bool:
    """Return whether a path is a real file, not a link, that belongs to this user."""
    try:
        return _is_own_file(os.lstat(path))
    except OSError:
        return False


def _is_own_file(state: os.stat_result) -> bool:
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid()


def put_in_place(fresh: Path, target: Path) -> None:
    """Move a finished file or folder to its name in the store, at once; what is damaged under that name goes."""
    try:
        fresh.replace(target)
    except OSError:
        if not os.path.lexists(target):
            raise
        remove(target)
        fresh.replace(target)


def remove(path: Path) -> None:
    """Remove an entry of a folder of the store, and what it holds; of a link only the link, and follow none."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(path.name, dir_fd=parent).st_mode):
                shutil.rmtree(path.name, ignore_errors=True, dir_fd=parent)
            else:
                os.unlink(path.name, dir_fd=parent)
    finally:
        os.close(parent)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder until the block or the process ends, however it ends, as far as the file system has locks."""
    handle = _handle_of(folder)
    try:
        with suppress(OSError):  # a file system without locks
            if handle is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def is_held(folder: Path) -> bool | None:
    """Return whether a process holds a folder; None where that cannot be known."""
    handle = _handle_of(folder)
    if handle is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(handle)


def _handle_of(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def seal(folder: Path, key: bytes) -> None:
    """Make what a folder holds the user's alone, and write beside it what `is_sealed` knows it by."""
    for parent, folders, files in os.walk(folder):
        for name in folders:
            Path(parent, name).chmod(OWN_FOLDER_MODE)
        for name in files:
            Path(parent, name).chmod(_OWN_FILE_MODE)
    file = folder / SEAL_NAME
    file.write_text(_seal_text(folder, key) or "")
    file.chmod(_OWN_FILE_MODE)


def is_sealed(folder: Path, key: bytes) -> bool:
    """Return whether a folder holds the very files that it was sealed with: none gone, changed, linked or added."""
    if not is_own_folder(folder):
        return False
    written, now = read_own_text(folder / SEAL_NAME), _seal_text(folder, key)
    return bool(written) and now is not None and hmac.compare_digest((written or "").encode(), now.encode())


def _seal_text(folder: Path, key: bytes) -> str | None:
    lines: list[str] = []
    for parent, folders, files in os.walk(folder):
        below = os.path.relpath(parent, folder)
        for name in (*folders, *files):
            try:
                state = os.lstat(f"{parent}/{name}")
            except FileNotFoundError:  # another command removes the folder
                return None
            if _is_own_file(state):
                lines.append(f"{below}/{name} {_file_facts(state)}")
            elif not (stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()):
                return None
    sealed = sorted(line for line in lines if not line.startswith(f"./{SEAL_NAME} "))
    return keyed_hash("\n".join(sealed).encode(errors="surrogateescape"), key, size_bytes=16)


def file_seal(file: Path, key: bytes) -> str | None:
    """Return what a file of the store is known by until it changes; None when it is not a real file of this user."""
    try:
        state = os.lstat(file)
    except OSError:
        return None
    return keyed_hash(_file_facts(state).encode(), key, size_bytes=16) if _is_own_file(state) else None


def _file_facts(state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"


def keyed_hash(data: bytes, key: bytes, size_bytes: int = 8) -> str:
    """Return a hash that nobody can compute without the key."""
    return hashlib.blake2b(data, digest_size=size_bytes, key=key).hexdigest()


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
