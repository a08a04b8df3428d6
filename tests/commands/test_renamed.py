"""Names that version 0.2.0 changed: whoever wrote the old ones down gets the same answer."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import traceanalyzer
from traceanalyzer.cli import main
from traceanalyzer.renamed import BUCKETS, COLUMNS, METRICS, with_new_names
from traceanalyzer.report import json as json_report
from traceanalyzer.rules.rule_file.document import read_document
from traceanalyzer.simulator import simulate_job

LATE_RANK = {"ranks": 2, "steps": 5, "kernels": 30, "comm_us": 500, "faults": {"rank": 1, "loader_us": 9_000}}


@pytest.mark.check
@pytest.mark.parametrize(("old", "new"), METRICS.items())
def test_a_metric_under_its_old_name_is_read_shown_and_exported(old: str, new: str, run: Path, tmp_path: Path) -> None:
    with traceanalyzer.open(run, store=tmp_path / "store") as opened:
        assert opened.sql(f"SELECT * FROM {old} ORDER BY ALL").fetchall() == (
            opened.sql(f"SELECT * FROM {new} ORDER BY ALL").fetchall()
        )
    assert main(["metrics", "show", old]) == 0
    assert main(["metrics", "export", str(run), str(tmp_path / "out"), old, "--store", str(tmp_path / "store")]) == 0
    assert [file.stem for file in (tmp_path / "out").iterdir()] == [new]


@pytest.mark.check
@pytest.mark.parametrize("table", COLUMNS)
def test_a_column_under_its_old_name_holds_the_same(table: str, run: Path, tmp_path: Path) -> None:
    with traceanalyzer.open(run, store=tmp_path / "store") as opened:
        for old, new in COLUMNS[table].items():
            differ = opened.sql(f"FROM {table} WHERE {old} IS DISTINCT FROM {new}").fetchall()
            assert differ == []


@pytest.mark.parametrize(("old", "new"), BUCKETS.items())
def test_a_bucket_under_its_old_name_means_the_new_one(old: str, new: str) -> None:
    assert with_new_names(f"SELECT 1 FROM time_ledger WHERE bucket = '{old}'").endswith(f"'{new}'")


def test_a_rule_that_claims_an_old_bucket_claims_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("id: mine\nclaims: [dev.comm_skew]\nselect: SELECT * FROM standalone\n")
    assert read_document(file).values == {
        "id": "mine",
        "claims": ["dev.straggler_wait"],
        "select": "SELECT * FROM cause_savings",
    }


def test_other_words_stay_as_they_are() -> None:
    text = "SELECT standalone_share, x AS standalone FROM t -- dev.comm_skewed"
    assert with_new_names(text) == text


@pytest.mark.check
def test_the_json_names_the_former_bucket_too(run: Path, tmp_path: Path) -> None:
    stream = io.StringIO()
    with traceanalyzer.open(run, store=tmp_path / "store") as opened:
        json_report.write(opened.diagnose(), stream)
    buckets = [item for ledger in json.loads(stream.getvalue())["ledgers"] for item in ledger["buckets"]]
    former = {item["bucket"]: item["former_bucket"] for item in buckets if "former_bucket" in item}
    assert former == {"dev.straggler_wait": "dev.comm_skew"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run of two ranks, one of them late."""
    folder = tmp_path_factory.mktemp("run")
    simulate_job(LATE_RANK).write_kineto(folder)
    return folder
