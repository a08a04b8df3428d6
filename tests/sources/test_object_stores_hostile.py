"""Keys of a stranger's bucket: none becomes a path or steers what shows it, and what is odd is said with its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from object_servers import Proxy
from test_object_stores import Put, facts_of, proxy, put, server, trace

import traceanalyzer as ta
from traceanalyzer.cli import main

__all__ = ["proxy", "put", "server"]

pytestmark = pytest.mark.check  # a server of its own takes seconds to start

RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# Moto's server refuses to write some keys: so listings show them, and what they name is not there.
RELISTED = {b"DOTS": b"..", b"SLASH": b"/", b"BREAK": b"&#10;", b"ESC": b"&#27;"}
ODD = [
    "DOTS/evil.json",
    "a/DOTS/DOTS/etc.json",
    "SLASHtwin.json",
    "newBREAKerror: forged.json",
    "ESC[31mred.json",
]
READ = [
    "\u202egnp.json",
    "%2e%2e%2fz.json",
    "back\\..\\slash.json",
    "a b?c#d&HF_TOKEN=swordfish4711.json",
    "'quoted\" {brace}.json",
    "twin.json",
    "TWIN.json",
    "twin.json/twin.json",
]
HIDDEN = [".traceanalyzer/scratch/x.json", ".traceanalyzer/x.json", ".x.json"]


def said_of_run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return how a command ends on the run, and what it says, in which nothing steers."""
    capsys.readouterr()
    code = main([command, "s3://bucket/run/"])
    shown = "".join(capsys.readouterr())
    assert RAW.search(shown) is None
    assert "swordfish4711" not in shown
    assert not any(line.startswith("error: forged") for line in shown.splitlines())
    return code, shown


def files_of(folder: Path) -> set[Path]:
    return {file for file in folder.rglob("*") if file.suffix == ".json"}


def test_no_key_becomes_a_path_or_steers(put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put({f"run/{key}": trace(number) for number, key in enumerate([*READ, *HIDDEN])})
    with ta.open("s3://bucket/run/") as run:
        assert sorted(rank for _, rank, *_ in facts_of(run)) == list(range(len(READ)))
        assert len({item.trace for item in run.traces}) == len(READ)
    for command in ("info", "diagnose"):
        assert said_of_run(command, capsys)[0] in (0, 3)
    assert not [file for file in files_of(tmp_path) if file.name in ("z.json", "slash.json", "twin.json", "x.json")]


@pytest.mark.parametrize("key", ODD)
def test_an_odd_key_is_named_in_one_sentence(
    put: Put, proxy: Proxy, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put({"run/rank0.json": trace(0), f"run/{key}": trace(1)})
    proxy.relisted = RELISTED
    code, shown = said_of_run("info", capsys)
    error, hint = shown.splitlines()
    assert code == 2
    assert error.startswith("error: ") and key.split("BREAK")[0][-8:] in error
    assert hint == "hint: rename or move that object, or download the run"
