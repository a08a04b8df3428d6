"""Whose a store is: a store is used only when it carries the mark of this user for this very folder.

A run's folder may come from a stranger, with a store planted in it; unpacked from an archive, it belongs to the user
like everything else. The mark is a hash under a secret key, which lies in the user's own folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import unfinished
from traceanalyzer.store import writing

MARK_NAME = "traceanalyzer-store.txt"
PARTS = ("sources", "traces", "cards", "derived", "ranks", "answers", "scratch")
UNWRITABLE = "cannot be written"
NOT_MADE_HERE = "holds what this user's traceanalyzer did not write in this place"
_MARK_TEXT = "Computed by traceanalyzer from traces; it is safe to delete this folder."
_KEY_NAME = "store.key"
_KEY_BYTES = 32
_UNUSED_AFTER_S = 30 * 86_400
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# In the name of a database, for DuckDB, which would then write other files.
_BEGINS_PARAMETERS = "?"


def claim_store(folder: Path, key: bytes) -> str | None:
    """Return why a folder cannot be this user's store; None when it is.

    It is where it was new or empty before, was marked earlier, or holds nothing but stores of this user: as of the runs
    that a comparison read.
    """
    try:
        if not os.path.lexists(folder):
            folder.mkdir(mode=writing.OWN_FOLDER_MODE, parents=True, exist_ok=True)
        if not writing.is_own_folder(folder):
            return writing.NOT_A_FOLDER
        if not is_marked(folder, key):
            if all(
                entry.name.startswith(MARK_NAME) or (writing.is_own_folder(entry) and is_marked(entry, key))
                for entry in folder.iterdir()
            ):
                folder.chmod(writing.OWN_FOLDER_MODE)
                _write_mark(folder, key)
            elif not is_marked(folder, key):  # read again: another command may have marked the folder since
                return NOT_MADE_HERE
        parts = [folder / name for name in PARTS]
        if not all(writing.is_own_folder(part) for part in parts if os.path.lexists(part)):
            return NOT_MADE_HERE
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError:
        return UNWRITABLE


def is_marked(folder: Path, key: bytes) -> bool:
    """Return whether a folder has this user's mark."""
    return hmac.compare_digest((writing.read_own_text(folder / MARK_NAME) or "").encode(), _mark(folder, key).encode())


def _write_mark(folder: Path, key: bytes) -> None:
    # Commands that mark one folder at once write the same text, so it does not matter which of them is last.
    handle, name = tempfile.mkstemp(prefix=f"{MARK_NAME}-", dir=folder)
    with os.fdopen(handle, "w") as file:
        file.write(_mark(folder, key))
    Path(name).replace(folder / MARK_NAME)


def _mark(folder: Path, key: bytes) -> str:
    """Return the text that only this user can have written, and only for this folder in this place.

    The file system's number for its device is left out: it differs between the machines of a cluster.
    """
    place = f"{os.lstat(folder).st_ino} ".encode() + os.fsencode(os.path.realpath(folder))
    return f"{_MARK_TEXT}\n{writing.keyed_hash(place, key, size_bytes=16)}\n"


def user_key() -> bytes:
    """Return the user's secret key, made when there is none: it marks what this user's commands wrote."""
    folders = _user_folders("XDG_STATE_HOME", ".local/state")
    for folder in folders:
        file = folder / _KEY_NAME
        with suppress(OSError):
            folder.mkdir(mode=writing.OWN_FOLDER_MODE, parents=True, exist_ok=True)
            if not writing.is_own_folder(folder):
                continue
            if not os.path.lexists(file):
                _write_key(file)
            key = writing.read_own(file)
            if key is None or len(key) != _KEY_BYTES:
                raise TraceAnalyzerError(
                    "the key that marks stores as yours is damaged", file, "remove it; stores are then computed again"
                )
            return key
    raise TraceAnalyzerError(
        "no folder can be written for the key that marks stores as yours",
        folders[0],
        "set XDG_STATE_HOME to a folder that you can write",
    )


def _write_key(file: Path) -> None:
    """Write a new key, unless another command is faster: a link appears at once, and only where nothing is."""
    handle, name = tempfile.mkstemp(prefix=f"{_KEY_NAME}-", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as fresh:
            fresh.write(secrets.token_bytes(_KEY_BYTES))
            fresh.flush()
            os.fsync(fresh.fileno())
        with suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()


def user_cache() -> Path | None:
    """Return the user's folder for stores that cannot lie beside their run; None when none can be written."""
    for folder in _user_folders("XDG_CACHE_HOME", ".cache"):
        with suppress(OSError):
            folder.mkdir(mode=writing.OWN_FOLDER_MODE, parents=True, exist_ok=True)
            if writing.is_own_folder(folder):
                with tempfile.TemporaryFile(dir=folder):
                    return folder
    return None


def kept_in_cache(kind: str, key: str, suffix: str, write: Callable[[Path], object]) -> Path | None:
    """Return a file in the user's cache that `write` made once for a key; None where none can be kept.

    Files of the same kind under other keys go, once nobody can still need them.
    """
    cache = user_cache()
    if cache is None or cache.stat().st_mode & _WRITABLE_BY_OTHERS or _BEGINS_PARAMETERS in str(cache):
        return None
    kept = cache / f"{kind}-{key}{suffix}"
    if writing.is_own_file(kept):
        return kept
    try:
        with tempfile.TemporaryDirectory(prefix="write-", dir=cache) as scratch, unfinished(Path(scratch)):
            fresh = Path(scratch) / kept.name
            write(fresh)
            fresh.replace(kept)
        for old in cache.glob(f"{kind}-*{suffix}"):
            with suppress(OSError):
                if time.time() - os.lstat(old).st_mtime > _UNUSED_AFTER_S:
                    old.unlink()
    except OSError:
        return None
    return kept


_SEAL_BYTES = 16


def kept_data(kind: str, made_of: str, data_type: Any, make: Callable[[], object]) -> Any:
    """Return what `make` makes of something, out of the user's cache, where it is kept as data of a type once made.

    None where nothing can be kept, and where what was kept is damaged: it is removed, and made again the next time.
    `make` raises OSError for what is not to be kept.
    """

    def write(fresh: Path) -> None:
        content = msgspec.msgpack.encode(make(), enc_hook=str)
        fresh.write_bytes(xxhash.xxh3_128_digest(content) + content)

    key = hashlib.blake2b(made_of.encode(), digest_size=8).hexdigest()
    kept = kept_in_cache(kind, key, ".msgpack", write)
    if kept is None or (sealed := writing.read_own(kept)) is None:
        return None
    seal, packed = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    try:
        if xxhash.xxh3_128_digest(packed) == seal:
            return msgspec.msgpack.decode(packed, type=data_type, dec_hook=lambda _, value: Path(value))
    except msgspec.DecodeError:
        pass
    with suppress(OSError):
        kept.unlink()
    return None


def _user_folders(variable: str, below_home: str) -> list[Path]:
    """Return where this user's own files may lie: where a variable says or at home, else among temporary files."""
    folders: list[Path] = []
    named = Path(os.environ.get(variable, ""))
    if named.is_absolute():
        folders.append(named / "traceanalyzer")
    else:
        with suppress(RuntimeError):  # the user has no home
            folders.append(Path.home() / below_home / "traceanalyzer")
    return [*folders, Path(tempfile.gettempdir()) / f"traceanalyzer-{os.geteuid()}"]
