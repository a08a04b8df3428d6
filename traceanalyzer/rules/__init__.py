"""Rules as data: conditions over metrics that find what costs time, and what makes a trace untrustworthy.

Here is where they lie: the files that ship with the package, and those that a user names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError


def builtin_folder() -> Path:
    """Return the folder of the rules that ship with the package: in the wheel, or at the top of a checkout."""
    shipped = Path(__file__).parent / "builtin"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "rules"


def rule_files(paths: Sequence[Path]) -> list[Path]:
    """Return the named rule files and those in the named folders, by name; raises when one is missing."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = [file for suffix in ("yaml", "yml") for file in path.rglob(f"*.{suffix}") if file.is_file()]
            if not found:
                raise TraceAnalyzerError("holds no rule file", path, "names of rule files end in .yaml or .yml")
            files.extend(sorted(found, key=lambda file: (file.name, file)))
        elif path.is_file():
            files.append(path)
        else:
            raise TraceAnalyzerError("no such rule file or folder", path, "name a .yaml file or a folder of them")
    return list(dict.fromkeys(files))


def rules_digest(paths: Sequence[Path]) -> str:
    """Return what changes with the names and the contents of the rule files that `rule_files` lists."""
    digest = hashlib.blake2b(digest_size=16)
    for file in rule_files(paths):
        content = file.read_bytes()
        digest.update(f"{file} {len(content)}\n".encode(errors="surrogateescape") + content)
    return digest.hexdigest()
