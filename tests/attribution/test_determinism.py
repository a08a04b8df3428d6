"""The same traces give the same bytes of every report, however many cores, in whatever locale, order and place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
CHANGES = {
    "jobs": (["--jobs", "3"], {}),
    "hash seed": ([], {"PYTHONHASHSEED": "4711"}),
    "locale": ([], {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}),
    "ASCII": ([], ASCII),
    "time zone": ([], {"TZ": "Pacific/Kiritimati"}),
}


@pytest.fixture(scope="module")
def run_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("determinism") / "run"
    folder.mkdir()
    (source,) = (root / "sample_traces" / "slow_loader").glob("*.json.gz")
    for rank in (1, 0):
        shutil.copyfile(source, folder / f"rank{rank}.json.gz")
    return folder


@pytest.fixture(scope="module")
def wanted(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return diagnosed(run_folder.parent, tmp_path_factory.mktemp("store"), ["--jobs", "1"], PYTHONHASHSEED="0")


def diagnosed(cwd: Path, store: Path, options: list[str], **environment: str) -> bytes:
    command = [sys.executable, "-m", "traceanalyzer", "diagnose", "run", "--format", "json", "--store", str(store)]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), **environment}
    done = subprocess.run([*command, *options], cwd=cwd, capture_output=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.check
@pytest.mark.parametrize("change", CHANGES)
def test_the_machine_changes_no_byte(run_folder: Path, wanted: bytes, tmp_path: Path, change: str) -> None:
    options, environment = CHANGES[change]
    assert diagnosed(run_folder.parent, tmp_path / "store", options, **environment) == wanted


def written(cwd: Path) -> dict[str, bytes]:
    """Return every other report of the run there, and its summary."""
    names = {"html": "a.html", "markdown": "a.md", "sarif": "a.sarif", "junit": "a.xml"}
    also = [word for format_, name in names.items() for word in ("--also", f"{format_}={name}")]
    diagnosed(cwd, cwd / "store", also)
    write = ["export", "baseline", "a.jsonl", "run", "--store", str(cwd / "stores")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-m", "traceanalyzer", *write], cwd=cwd, check=True, env=environment)
    return {name: (cwd / name).read_bytes() for name in (*names.values(), "a.jsonl")}


@pytest.mark.check
def test_order_and_place_of_the_files_change_no_byte(run_folder: Path, wanted: bytes, tmp_path: Path) -> None:
    for name, ranks in (("one", (0, 1)), ("two", (1, 0))):
        (tmp_path / name / "run").mkdir(parents=True)
        for rank in ranks:
            shutil.copyfile(run_folder / f"rank{rank}.json.gz", tmp_path / name / "run" / f"rank{rank}.json.gz")
    assert diagnosed(tmp_path / "one", tmp_path / "store", []) == wanted
    assert written(tmp_path / "one") == written(tmp_path / "two")
