"""The code and the documents speak the words of the field: those that nobody else uses stay out."""

from __future__ import annotations

import re
from pathlib import Path

# Retired word: what the field says.
RETIRED = {
    "abreast": "batched, at once",
    "contracted": "reduced",
    "contraction": "reduced rank",
    "contractions": "reduced ranks",
    "keeper": "store",
    "lateness": "launch delay",
    "lead scan": "replay",
    "lead_costs": "replay_costs",
    "lead_events": "replay_events",
    "lead_limit": "shift_limit",
    "lead_needs": "replay_needs",
    "leads_in": "runs_in",
    "lead_scan": "replay",
    "loader_takes": "batch fetches",
    "choose_opened": "choose_detail_ranks",
    "opened_ranks": "detail_ranks",
    "find_removals": "find_interventions",
    "removals": "interventions",
    "runplaces": "RunScopes",
    "scenarios_of": "lanes_of",
}
# Names of variables that say nothing of what they hold.
_NAMES = re.compile(r"^\s*(?:for |\w+, )*(?:asked|told|mine|theirs|stuff)\b(?:, \w+)*(?: =| in |:)", re.MULTILINE)
_WORD = re.compile(rf"(?i)\b(?:{'|'.join(RETIRED)})\b")


def test_retired_words_stand_nowhere(root: Path) -> None:
    files = [
        file
        for folder in ("traceanalyzer", "tracesim", "rules", "docs")
        for file in (root / folder).rglob("*")
        if file.suffix in {".py", ".sql", ".yaml", ".md", ".html"}
    ]
    assert len(files) > 500
    found = {
        f"{file.relative_to(root)}: {match[0]}: write {RETIRED[match[0].lower()]}"
        for file in files
        for match in _WORD.finditer(file.read_text(encoding="utf-8"))
    }
    assert not found


def test_a_variable_is_a_noun_that_says_what_it_holds(root: Path) -> None:
    files = (file for folder in ("traceanalyzer", "tracesim") for file in (root / folder).rglob("*.py"))
    assert [str(file) for file in files if _NAMES.search(file.read_text(encoding="utf-8"))] == []
