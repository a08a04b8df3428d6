"""What a user sees of a recording of rocprofv3: nothing of its environment, and no names of NVIDIA's."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from traceanalyzer.cli import cli
from traceanalyzer.run import open_run
from tracesim import simulate

CANARY = "canary7f3a91"
ENVIRONMENT = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "HF_TOKEN": f"hf_{CANARY}",
    f"{CANARY.upper()}_KEY": "1",
    "PATH": f"/opt/{CANARY}/bin",
    "RANK_NOTE": CANARY,
}
OF_NVIDIA = re.compile(
    r"\b(nsys|nvidia-smi|ncu|dcgmi|Nsight|CUPTI|NVIDIA|NVLink|NVTX|cuBLAS\w*|cuDNN|[Tt]ensor cores?|cuda[A-Z]\w*)\b"
    r"|\brecord_shapes\b|(?<![\w.])NCCL\b(?!_)|(?<![\w.])CUDA(?![\w.])|\bSMs\b"
)
# A program that waits, launches short kernels one by one and copies in pieces.
PROGRAM = [
    {"repeat": 40, "do": [{"kernel": {"us": 4}}, {"h2d": {"mb": 0.004, "pinned": True, "stream": "compute"}}]},
    {"item": 1},
    {"repeat": 20, "do": [{"kernel": {"us": 200, "class": "gemm"}}]},
]


def database(folder: Path) -> Path:
    """Write a recording whose environment has secrets."""
    folder.mkdir(exist_ok=True)
    file = simulate({"device": "MI300X", "steps": 4, "program": PROGRAM}).write_rocpd(folder / "a_results.db")
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        (process,) = [name for name in tables if name.startswith("rocpd_info_process")]
        connection.execute(f"UPDATE {process} SET environment = ?", [json.dumps(ENVIRONMENT)])
        connection.commit()
    assert CANARY.encode() in file.read_bytes()
    return file


def stored(folder: Path) -> str:
    """Return all that a store holds, tables as text."""
    texts = []
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            with duckdb.connect() as connection:
                texts.append(str(connection.from_parquet(str(file)).fetchall()))
        elif file.is_file():
            texts.append(file.read_bytes().decode("latin-1"))
    return "\n".join([*texts, *(file.name for file in folder.rglob("*"))])


@pytest.mark.check
def test_nothing_of_the_environment_but_the_rank_is_kept_or_shown(tmp_path: Path) -> None:
    file, store = database(tmp_path / "run"), tmp_path / "store"
    of_run, shown = [str(file), "--store", str(store)], []
    for name in ("terminal", "markdown", "html", "json"):
        answer = CliRunner().invoke(cli, ["diagnose", *of_run, "-v", "--format", name])
        assert answer.exit_code == 0, answer.output
        shown.append(answer.output)
    shown += [CliRunner().invoke(cli, [*command, *of_run]).output for command in (["info"], ["memory"], ["flame"])]
    for name, command in (("a.json", "perfetto"), ("a.speedscope.json", "speedscope")):
        target = tmp_path / name
        answer = CliRunner().invoke(cli, ["export", command, *of_run, "-o", str(target)])
        shown.append(answer.output + (target.read_text() if target.exists() else ""))
    with open_run(file, store=store) as run:
        for schema, table in run.sql("SELECT table_schema, table_name FROM information_schema.tables").fetchall():
            shown.append(str(run.sql(f'SELECT * FROM "{schema}"."{table}"').fetchall()))
        assert run.sql("SELECT rank, world_size FROM traces").fetchall() == [(3, 8)]
    for text in (*shown, stored(store)):
        assert text
        assert CANARY not in text.lower() and "RANK_NOTE" not in text


@pytest.mark.check
def test_an_environment_that_is_no_json_is_not_shown(tmp_path: Path) -> None:
    file = database(tmp_path / "run")
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        (process,) = [name for name in tables if name.startswith("rocpd_info_process")]
        connection.execute(f"UPDATE {process} SET environment = ?", [f"RANK=3;TOKEN={CANARY}"])
        connection.commit()
    command = [sys.executable, "-m", "traceanalyzer", "info", str(file), "--store", str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert CANARY not in done.stdout + done.stderr + stored(tmp_path / "store")


@pytest.mark.check
def test_no_screen_of_an_amd_trace_names_what_is_nvidias(tmp_path: Path) -> None:
    file, store = database(tmp_path / "run"), tmp_path / "store"
    of_run = [str(file), "--store", str(store)]
    for command in (
        *[["diagnose", "-v", "--format", name] for name in ("terminal", "html", "json")],
        ["info"],
        ["top", "kernels"],
    ):
        place = 1 if command[0] != "top" else 2
        answer = CliRunner().invoke(cli, [*command[:place], *of_run, *command[place:]])
        assert answer.exit_code == 0, answer.output
        said = re.sub(r"<(script|style)\b.*?</\1>|SMs or CUs", "", answer.output, flags=re.DOTALL)
        assert {(" ".join(command), found[0]) for found in OF_NVIDIA.finditer(said)} == set()
