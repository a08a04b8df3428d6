"""Write docs/notebook.ipynb: each cell run on a sample trace, with what it shows."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SAMPLE = "sample_traces/slow_loader"
CELLS = (
    (
        "markdown",
        "# traceanalyzer in a notebook\n\nA run is opened once: its tables are kept in a store and read from there the "
        "next time.",
    ),
    ("code", 'import traceanalyzer as ta\n\nrun = ta.open("sample_traces/slow_loader")\nrun'),
    ("markdown", 'The diagnosis shows itself; `diagnosis.to_html("report.html", run)` writes the whole page.'),
    ("code", "diagnosis = run.diagnose()\ndiagnosis"),
    ("markdown", "Its parts are Arrow tables: `findings`, `ledger`, `fixes` and `evidence`."),
    ("code", 'diagnosis.table("findings").select(["rule", "severity", "saving_ns", "saving_share"]).to_pandas()'),
    ("markdown", "Charts are SVG; `.save(path)` writes one."),
    ("code", "ta.charts.steps(run)"),
    ("markdown", "Every table and metric of the run comes as Arrow, pandas or polars, or is asked for in SQL."),
    ("code", 'run.table("copies")'),
    (
        "code",
        'run.sql("SELECT name, kernel_count, sum_ns FROM kernel_summary ORDER BY sum_ns DESC LIMIT 3").df()',
    ),
    ("markdown", "How long would a step take if the data loader kept up and matmuls ran twice as fast?"),
    (
        "code",
        'answer = run.whatif("host.dataloader", faster={"gemm": 2})\n'
        'f"{answer.devices[0].saved_ns / answer.devices[0].window_ns:.1%} of the time is saved at best"',
    ),
)


def executed() -> Any:
    """Return the notebook with the outputs of its cells; raises where a cell fails."""
    notebook = nbformat.v4.new_notebook(metadata={"language_info": {"name": "python"}})
    for number, (kind, text) in enumerate(CELLS):
        new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        notebook.cells.append(new(text, id=f"cell-{number}"))
    with tempfile.TemporaryDirectory() as home:
        # A copy: what the notebook stores must not stay beside the sample.
        shutil.copytree(ROOT / SAMPLE, Path(home) / SAMPLE, ignore=shutil.ignore_patterns(".*"))
        homes = {name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
        os.environ.update(dict.fromkeys(homes, home))
        try:
            NotebookClient(notebook, timeout=300, resources={"metadata": {"path": home}}).execute()
        finally:
            for name, value in homes.items():
                os.environ.pop(name)
                os.environ.update({name: value} if value is not None else {})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata = {"language_info": {"name": "python"}}
    return notebook


if __name__ == "__main__":
    NOTEBOOK.write_text(nbformat.writes(executed()).rstrip() + "\n", encoding="utf-8")
