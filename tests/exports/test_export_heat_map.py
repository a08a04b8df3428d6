"""The heat map as a table: what a report draws of each rank and step, with its numbers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from workloads.wide_jobs import wide_job

from traceanalyzer.cli import main
from traceanalyzer.run import open_run
from tracesim import simulate_job

RANKS = 4


@pytest.mark.check
def test_each_rank_and_step_has_its_own_time_and_the_slow_gpu_stands_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    run.mkdir()
    simulate_job(wide_job(RANKS, slow=3, collectives=4)).write_kineto(run, suffix=".json.gz")
    for file in (tmp_path / "map.parquet", tmp_path / "map.csv"):
        assert main(["export", "heatmap", str(run), "-o", str(file), "--store", str(store)]) == 0
    table = pq.read_table(tmp_path / "map.parquet")
    assert pyarrow.csv.read_csv(tmp_path / "map.csv").to_pydict() == table.to_pydict()
    with open_run(run, store=store) as opened:
        steps = opened.sql("SELECT rank, step FROM steps WHERE kept ORDER BY ALL").fetchall()
        ranks = opened.diagnose().ranks
    assert list(zip(*table.select(["rank", "step"]).to_pydict().values(), strict=True)) == steps
    assert table["own_ns"].to_pylist() == [own_ns for item in ranks for own_ns in item.own_ns]
    out = {row["rank"] for row in table.to_pylist() if row["stands_out"]}
    assert out == {3} and min(row["more_share"] for row in table.to_pylist() if row["rank"] == 3) > 0.02
    capsys.readouterr()
    assert main(["export", "heatmap", str(run), "-o", str(tmp_path / "map.png"), "--store", str(store)]) == 2
    assert "name a file that ends in .parquet or .csv" in capsys.readouterr().err


@pytest.mark.check
def test_a_run_of_one_rank_has_no_heat_map(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(root / "sample_traces" / "healthy")
    assert main(["export", "heatmap", sample, "-o", str(tmp_path / "map.csv"), "--store", str(tmp_path / "s")]) == 2
    assert "it takes four devices or more, with equally many steps" in capsys.readouterr().err
