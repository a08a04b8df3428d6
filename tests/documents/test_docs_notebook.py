"""The notebook in docs: it runs, and shows what it shows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pages.parts import ROOT
from tiers import needed


def shown(cells: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the source of each cell, and what it shows as text."""
    return [
        (
            "".join(cell["source"]),
            ["".join(output["data"].get("text/plain", "")) for output in cell.get("outputs", [])],
        )
        for cell in cells
    ]


@pytest.mark.check
def test_notebook_shows_what_its_cells_give_today() -> None:
    needed("nbclient")
    from make_notebook import NOTEBOOK, executed

    written = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert shown(json.loads(json.dumps(executed()))["cells"]) == shown(written["cells"])


def test_the_notebook_counts_the_rules_that_the_tour_counts() -> None:
    """The notebook itself runs in few checks, and a new rule changes its screens."""
    counts = [
        re.findall(r"\d+ of \d+ rules checked", (ROOT / "docs" / name).read_text(encoding="utf-8"))
        for name in ("notebook.ipynb", "tour.md")
    ]
    assert all(counts) and set(counts[0]) <= set(counts[1])


def test_notebook_is_small_and_its_outputs_hold_no_script() -> None:
    text = (ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert "<script" not in text and str(ROOT) not in text


def test_a_cell_of_the_notebook_has_one_output() -> None:
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert {len(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"} == {1}
