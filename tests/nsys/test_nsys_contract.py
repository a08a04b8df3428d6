"""What is read of each schema version: which columns are mapped, which are defaulted, what is reported missing.

The golden file holds, for one public export of each version, the tables and columns that the exporter wrote and what
becomes of them. It is checked without the exports; where they are there, it is checked against them, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.facts import check_layout
from traceanalyzer.ingest.nsys.source import SqliteSource
from traceanalyzer.ingest.nsys.tables import TABLES, TableLayout, lay_out

_GOLDEN = Path(__file__).parents[1] / "golden" / "nsys_contract.json"
CONTRACT: dict[str, Any] = json.loads(_GOLDEN.read_text()) if _GOLDEN.exists() else {}


class Described:
    """A source known by its tables, columns and row counts alone."""

    def __init__(self, columns: dict[str, list[str]], row_counts: dict[str, int]) -> None:
        self.path = Path("described")
        self.damage: str | None = None
        self.row_counts = row_counts
        self.layouts: dict[str, TableLayout] = lay_out(columns, row_counts)

    batches = SqliteSource.batches
    distinct = SqliteSource.distinct
    close = SqliteSource.close


def treatment(columns: dict[str, list[str]], row_counts: dict[str, int]) -> dict[str, Any]:
    """Return what becomes of an export's tables and columns."""
    described = Described(columns, row_counts)
    defects = Defects()
    check_layout(described, defects)
    with_rows = [layout for layout in described.layouts.values() if row_counts[layout.stored_name]]
    return {
        "mapped": {
            layout.stored_name: [
                ours if ours == theirs else f"{theirs} as {ours}" for ours, theirs in layout.stored.items()
            ]
            for layout in with_rows
        },
        "defaulted": {layout.stored_name: list(layout.absent) for layout in with_rows if layout.absent},
        "reported": {kind: defects.examples[kind] for kind in sorted(defects.counts)},
        "not_read": sorted(name for name, count in row_counts.items() if count and name not in _read(described)),
    }


def _read(described: Described) -> set[str]:
    return {layout.stored_name for layout in described.layouts.values()}


def _described(path: Path) -> dict[str, Any]:
    source = SqliteSource(path)
    try:
        known = {name for table in TABLES for name in (table.name, *table.aliases)}
        stored = {name: columns for name, columns in source.tables.items() if not name.startswith("ENUM_")}
        counts = {name: min(source.row_counts[name], 1) for name in stored}
        kept = {name: columns for name, columns in stored.items() if counts[name] or name in known}
        version = next(
            (
                row["value"]
                for layout in [source.layouts.get("export_fact")]
                if layout is not None
                for batch in source.batches(layout, ["name", "value"], Defects())
                for row in batch.to_pylist()
                if row["name"] == b"EXPORT_SCHEMA_VERSION"
            ),
            b"before metadata",
        )
    finally:
        source.close()
    return {"schema_version": version.decode(), "columns": kept, "has_rows": {name: counts[name] for name in kept}}


def test_the_contract_is_what_the_public_exports_give(corpus: Path, golden: bool) -> None:
    found = {}
    for path in sorted((corpus / "nsys").glob("*.sqlite")):
        described = _described(path)
        found[path.stem] = described | treatment(described["columns"], described["has_rows"])
    if golden:
        _GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(_GOLDEN.read_text())


@pytest.mark.parametrize(
    "name", sorted(CONTRACT) or [pytest.param("none", marks=pytest.mark.skip("no golden file yet"))]
)
def test_each_schema_version_is_treated_as_pinned(name: str) -> None:
    pinned = CONTRACT[name]
    found = treatment(pinned["columns"], pinned["has_rows"])
    assert found == {key: pinned[key] for key in found}


def test_every_required_column_is_stored_in_every_version() -> None:
    for name, pinned in CONTRACT.items():
        described = Described(pinned["columns"], pinned["has_rows"])
        unreadable = {
            layout.stored_name: layout.unreadable for layout in described.layouts.values() if layout.unreadable
        }
        assert unreadable == {}, name
