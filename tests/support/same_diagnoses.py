"""Shows whether two versions diagnose the corpus alike, but for the words of prose and for names that were renamed.

PYTHONPATH=OLD_CHECKOUT python tests/support/same_diagnoses.py write /tmp/old    # the JSON of every trace of the corpus
PYTHONPATH=. python tests/support/same_diagnoses.py write /tmp/new
python tests/support/same_diagnoses.py compare /tmp/old /tmp/new                 # exit 1 where numbers or states differ
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Text for people: what it says is held by the reviewed diagnoses in tests/golden.
PROSE = {"sentence", "title", "message", "why", "text", "detail", "unlock", "code", "references"}
# Paths, and what version 0.2.0 adds.
LEFT_OUT = {"run", "recorder", "framework", "former_bucket", "host_hint", "ranks"}
RENAMED = {
    "dev.comm_skew": "dev.straggler_wait",
    "edge.carried_in": "edge.queued_before_trace",
}


def write(folder: Path) -> None:
    """Write the JSON diagnosis of every trace and folder of the corpus, by the traceanalyzer that Python finds."""
    root = Path(__file__).resolve().parents[2]
    corpus = Path(os.environ.get("TRACEANALYZER_CORPUS", root.parent / "shared" / "corpus"))
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("kineto", "nsys", "more"):
        for path in sorted((corpus / part).iterdir()):
            if path.name == "README.md":
                continue
            # -P: from the folder of a checkout, -m would run this one, whatever PYTHONPATH says.
            command = [sys.executable, "-P", "-m", "traceanalyzer", "diagnose", str(path), "--format", "json"]
            command += ["--store", str(folder / "stores" / path.name)]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            (folder / f"{path.name}.json").write_text(answer.stdout)
            print(f"{path.name}: exit {answer.returncode}")


def compare(old: Path, new: Path) -> int:
    """Print what differs between the diagnoses in two folders; return how many files differ."""
    different = 0
    names = sorted({path.name for folder in (old, new) for path in folder.glob("*.json")})
    for name in names:
        first, second = (_numbers(folder / name) for folder in (old, new))
        lines = list(_differences(first, second))
        different += bool(lines)
        print(f"{name}: {'same' if not lines else f'{len(lines)} differences'}")
        print("".join(f"    {line}\n" for line in lines[:12]), end="")
    print(f"{len(names) - different} of {len(names)} are the same")
    return different


def _numbers(path: Path) -> dict[str, Any] | None:
    text = path.read_text() if path.exists() else ""
    plain: dict[str, Any] | None = _plain(json.loads(text)) if text else None
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in PROSE | LEFT_OUT}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return RENAMED.get(value, value) if isinstance(value, str) else value


def _differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key, "absent"), new.get(key, "absent"), f"{at}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (first, second) in enumerate(zip(old, new, strict=True)):
            yield from _differences(first, second, f"{at}[{number}]")
    elif old != new:
        yield f"{at}: {json.dumps(old)[:120]} -> {json.dumps(new)[:120]}"


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[2:]]
    if sys.argv[1:2] == ["write"] and len(folders) == 1:
        write(folders[0])
    elif sys.argv[1:2] == ["compare"] and len(folders) == 2:
        sys.exit(min(compare(*folders), 1))
    else:
        sys.exit(__doc__)
