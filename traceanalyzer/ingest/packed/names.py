"""Names of packed files: as text for people, and as harmless file names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_SUFFIXES = (".zst", ".xz", ".bz2")
_ARCHIVE = re.compile(r"\.(zip|tgz|tar(\.[a-z0-9]+)?)$", re.IGNORECASE)
_LONGEST = 80


def readable_name(name: str) -> str:
    """Return a member's name as text, without the parts of it that mean a folder above; '' where nothing is left."""
    text = name.encode("utf-8", "replace").decode("utf-8")
    return "/".join(part for part in re.split(r"[/\\]", text) if part not in ("", ".", ".."))


def safe_name(name: str) -> str:
    """Return a file name of harmless characters that ends as the given one does."""
    return "t" + re.sub(r"[^A-Za-z0-9_.-]", "_", name.rpartition("/")[2])[-_LONGEST:]


def without_suffix(path: Path) -> Path:
    """Return a path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path


def is_named_as_archive(name: str) -> bool:
    """Return whether a name is that of an archive; files of other kinds, such as models, may begin as archives do."""
    return _ARCHIVE.search(name) is not None


def stem(name: str) -> str:
    """Return a name without its suffix."""
    return str(PurePosixPath(name).with_suffix(""))


def below_common(names: Mapping[str, str]) -> dict[str, str]:
    """Return names without the folders that all of them lie in."""
    paths = [name.split("/") for name in names.values()]
    common = 0
    while all(len(path) > common + 1 and path[common] == paths[0][common] for path in paths):
        common += 1
    return {part: "/".join(name.split("/")[common:]) for part, name in names.items()}


def unique(names: Mapping[str, str]) -> dict[str, str]:
    """Return names that no two members (the number ahead of the point in a part) share: `a.json`, `a.json~2`."""
    owners: dict[str, str] = {}
    found: dict[str, str] = {}
    for part, name in names.items():
        member, candidate, count = part.partition(".")[0], name, 1
        while owners.setdefault(candidate, member) != member:
            count += 1
            candidate = f"{name}~{count}"
        found[part] = candidate
    return found
