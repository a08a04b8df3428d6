"""Every file that `make fuzz` once found a fault with ends in a result or in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.trying import fault_of

CRASHERS = sorted(
    path for path in (Path(__file__).parents[1] / "crashers").glob("*") if path.suffix in (".json", ".sqlite")
)


@pytest.mark.check
@pytest.mark.parametrize("path", CRASHERS, ids=lambda path: path.name)
def test_what_once_failed_is_taken(path: Path) -> None:
    assert fault_of(path.read_bytes(), f"trace{path.suffix}", whole=True) is None
