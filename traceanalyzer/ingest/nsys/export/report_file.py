"""Nsight Systems reports: their format is closed, so nsys itself turns them into an export, where it is installed."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.unfinished import run_program

SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")


def is_report(path: Path) -> bool:
    """Return whether a file is a report, by its suffix, since its content is undocumented."""
    return path.suffix in SUFFIXES


def export_report(report: Path, folder: Path) -> Path:
    """Export a report to SQLite in `folder` and return the file; raises TraceAnalyzerError where nsys cannot."""
    command = f"nsys export --type sqlite --include-blobs true {shlex.quote(report.name)}"
    nsys = shutil.which("nsys")
    if nsys is None:
        raise TraceAnalyzerError(
            "is an Nsight Systems report, which only nsys can read, and nsys is not on the PATH",
            report,
            f"where nsys is installed, run: {command}",
        )
    target = folder / f"{report.stem}.sqlite"
    # Older versions know no blobs: tried with them first, then without.
    for blobs in (["--include-blobs", "true"], []):
        arguments = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", *blobs, "--output", str(target)]
        done = run_program([*arguments, str(report.absolute())])
        if done.returncode == 0 and target.exists():
            return target
    said = (done.stderr or done.stdout).strip().splitlines()
    raise TraceAnalyzerError(
        f"nsys export failed: {said[-1] if said else f'exit code {done.returncode}'}",
        report,
        f"export it with the nsys version that recorded it: {command}",
    )
