"""This build beside an earlier one, and beside json.load, a bare DuckDB copy, HTA and sqlite3.

    python tests/benchmarks/bench_speed.py [--base 99f5918] [--size-mb 1000] [--runs 3] [--case NAME …] [--no-peers]

Both builds are wheels, made of commits. Each case is run by both in turn, with nothing stored, as whole processes; CPU
seconds are those of user and system, and a ratio is that of the least of each. Inputs are real traces, enlarged.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_ingest import BARE_COPY, HTA_LOAD
from enlarge import enlarge_export
from processes import JSON_LOAD, Cost, machine, python, run

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared/corpus"
LARGE = CORPUS / "kineto/h100_owlv2_inference.json.gz"
SMALL = CORPUS / "kineto/h100_vit.json.gz"
RANK = CORPUS / "kineto/h100_bert_small.json.gz"
EXPORT = CORPUS / "nsys/h100x2_training_2026.2.sqlite"
# So many times the export is as long as PyTorch's after a minute: 533 MB.
_EXPORT_TIMES_A_GIGABYTE = 413
_RANKS, _TINY_FILES = 128, 2000
_COMMAND = """
import sys
build, store = sys.argv[1:3]
sys.path.insert(0, build)
from traceanalyzer.__main__ import start
sys.argv[1:] = [*sys.argv[3:], "--store", store]
start()
"""
_SQLITE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
for name in names:
    cursor = database.execute(f'SELECT * FROM "{name}"')
    while cursor.fetchmany(16384): pass
"""


@dataclass(frozen=True)
class Case:
    """What is run on an input, the ratio of CPU that it is to reach, and what other tools do with the same bytes."""

    words: tuple[str, ...]
    source: Path
    target: float
    peers: dict[str, list[str]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="99f5918", help="the commit to compare with")
    parser.add_argument("--size-mb", type=int, default=1000, help="of the large trace; the export has about half of it")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", action="append", choices=sorted(_INPUTS), help="these alone")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    # An installation keeps its modules compiled, and so does each build here.
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builds = {commit: wheel(commit, folder / commit) for commit in (options.base, "HEAD")}
        print(f"HEAD beside {options.base} ({machine()}); the least of {options.runs} runs of each, in turn\n")
        print(
            "| what | base: CPU s, wall s, peak MB | HEAD | CPU ratio | target |\n|---|---:|---:|---:|---:|", flush=True
        )
        others = []
        for name in options.case or _INPUTS:
            case = _INPUTS[name](folder, options.size_mb)
            costs: dict[str, list[Cost]] = {commit: [] for commit in builds}
            for _ in range(options.runs):
                for commit, build in builds.items():
                    # Stores stay until the end: ext4 passes over the places of files that were removed a moment ago.
                    store = tempfile.mkdtemp(dir=folder)
                    command = python(_COMMAND, build, store, case.words[0], case.source, *case.words[1:])
                    costs[commit].append(run(command))
            base, head = (min(runs, key=lambda cost: cost.cpu_s) for runs in costs.values())
            print(
                f"| {name} | {_shown(base)} | {_shown(head)} | {head.cpu_s / base.cpu_s:.2f} | {case.target:.2f} |",
                flush=True,
            )
            for peer, command in {} if options.no_peers else case.peers.items():
                cost = run(command)
                others.append(f"| {peer}, beside {name} | {_shown(cost)} | {cost.wall_s / head.wall_s:.2f} |")
        if others:
            print("\n| other | CPU s, wall s, peak MB | wall / HEAD |\n|---|---:|---:|")
            print("\n".join(others))


def wheel(commit: str, folder: Path) -> Path:
    """Return a folder with the wheel of a commit taken apart, as an installation has it."""
    source, built = folder / "source", folder / "built"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as packed:
        packed.extractall(built)
    # Once: its modules are compiled then, and what it keeps in the user's cache is made.
    run(python(_COMMAND, built, folder / "store", "ingest", ROOT / "sample_traces/healthy"))
    return built


def _shown(cost: Cost) -> str:
    return f"{cost.cpu_s:.2f}, {cost.wall_s:.2f}, {cost.peak_mb:.0f}"


def _large(folder: Path, size_mb: int) -> Path:
    if not (folder / "big.json").exists():
        run([sys.executable, str(Path(__file__).parent / "enlarge.py"), str(LARGE), str(folder), str(size_mb)])
    return folder / "big.json"


def _copies(folder: Path, count: int, text: bytes) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"rank{number}.json").write_bytes(text)
    return folder


def _ingest(folder: Path, size_mb: int) -> Case:
    trace = _large(folder, size_mb)
    peers = {
        "bare DuckDB copy": python(BARE_COPY, folder / "array.json", folder / "bare.parquet"),
        "json.load": python(JSON_LOAD, trace),
        "HTA load": python(HTA_LOAD, trace),
    }
    return Case(("ingest", "--quiet"), trace, 0.40, peers)


def _diagnose(folder: Path, size_mb: int) -> Case:
    return Case(("diagnose",), _large(folder, size_mb), 0.60, {})


def _diagnose_small(folder: Path, _: int) -> Case:
    trace = folder / "small.json"
    trace.write_bytes(gzip.decompress(SMALL.read_bytes()))
    return Case(("diagnose",), trace, 0.60, {})


def _ranks(folder: Path, _: int) -> Case:
    text = gzip.decompress(RANK.read_bytes())
    return Case(("diagnose",), _copies(folder / "ranks", _RANKS, text), 0.50, {})


def _export(folder: Path, size_mb: int) -> Case:
    export = folder / "big.sqlite"
    enlarge_export(EXPORT, export, max(1, size_mb * _EXPORT_TIMES_A_GIGABYTE // 2000))
    return Case(("ingest", "--quiet"), export, 0.55, {"sqlite3, every column": python(_SQLITE, export)})


def _tiny(folder: Path, _: int) -> Case:
    """0.03 CPU s a file was 0.18 of the build of 99f5918."""
    event = (
        '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %d, "dur": 5, "args": {"External id": 1}}'
    )
    text = f'{{"schemaVersion": 1, "traceEvents": [{", ".join(event % (10 * at) for at in range(1, 5))}]}}'
    return Case(("info",), _copies(folder / "tiny", _TINY_FILES, text.encode()), 0.18, {})


_INPUTS = {
    "ingest of a large trace": _ingest,
    "diagnose of a large trace": _diagnose,
    "diagnose of a small trace": _diagnose_small,
    "diagnose of 128 ranks": _ranks,
    "ingest of an nsys export": _export,
    "info of 2,000 tiny files": _tiny,
}


if __name__ == "__main__":
    main()
