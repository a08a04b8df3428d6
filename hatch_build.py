"""Builds the native reader of JSON traces and the replay of what-ifs where a C compiler is there; without one DuckDB
and Python do their work, more slowly.

    python hatch_build.py

builds it in place, as an installation does.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

# Set to 0, it keeps the library out of what is built.
VARIABLE = "TRACEANALYZER_NATIVE"
FOLDER = Path("traceanalyzer/ingest/native")
# By library: the sources that say whether it is up to date, of which the last one is compiled.
SCANNER = FOLDER / "scanner.so"
LIBRARIES = {
    SCANNER: tuple(
        FOLDER / name for name in ("columns.h", "words.h", "between.h", "nesting.h", "pages.h", "ranges.h", "scanner.c")
    ),
    Path("traceanalyzer/attribution/replay/replay_pass.so"): (Path("traceanalyzer/attribution/replay/replay_pass.c"),),
}
# Doubles are computed as written: no product and sum in one step.
_OPTIONS = ("-std=c11", "-O3", "-fPIC", "-shared", "-ffp-contract=off")


def build_library(
    root: Path, options: tuple[str, ...] = _OPTIONS, target: Path | None = None, library: Path = SCANNER
) -> Path | None:
    """Build a library in place, or as `target`; None where that is not possible."""
    sources = [root / path for path in LIBRARIES[library]]
    target = target or root / library
    made = target.with_name(f"{target.name}.{os.getpid()}")
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    mark = f"-D{library.stem.upper()}_SOURCE={zlib.crc32(b''.join(path.read_bytes() for path in sources))}u"
    for command in (compiler, ["cc"], ["gcc"], ["clang"]):
        try:
            subprocess.run(
                [*command[:1], *options, mark, "-o", str(made), str(sources[-1])],
                check=True,
                capture_output=True,
                timeout=300,
            )
        except (OSError, subprocess.SubprocessError):
            made.unlink(missing_ok=True)
        else:
            return made.replace(target)
    return None


def build_libraries(root: Path) -> bool:
    """Build all libraries in place, and return whether that was possible."""
    return all(build_library(root, library=library) is not None for library in LIBRARIES)


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # without the package's builder
    pass
else:

    class NativeReaderHook(BuildHookInterface):  # type: ignore[type-arg]
        """Has a wheel hold the libraries, and an editable installation have them in place."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build the libraries, if possible."""
            if os.environ.get(VARIABLE) == "0" or not build_libraries(Path(self.root)):
                return
            if version != "editable":
                build_data["pure_python"] = False
                # The compiler builds for this machine alone, also where Python itself is built for two.
                system = sysconfig.get_platform().replace("universal2", platform.machine())
                build_data["tag"] = f"py3-none-{re.sub('[-.]', '_', system)}"
                build_data["artifacts"] += map(str, LIBRARIES)


if __name__ == "__main__":
    sys.exit(0 if build_libraries(Path(__file__).parent) else "no C compiler built the native libraries")
