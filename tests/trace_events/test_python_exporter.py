"""A profile that PyTorch exports by Python has the tables of the same profile exported by C++.

With `use_python_export` (torch 2.13.0) allocator events are slices that last until the recording ends.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tiers import needed
from trace_event_tables import Tables, read

EVENT_IDS = {"event_id", "slice_id", "parent_id", "op_id", "annotation_id", "python_id", "module_id"}


def rows_of(tables: Tables, name: str) -> list[str]:
    """Return a table without the numbers of events, which have other places in the two files."""
    return sorted(str({key: row[key] for key in row if key not in EVENT_IDS and key != "args"}) for row in tables[name])


@pytest.mark.check
def test_both_exporters_of_torch_give_the_same_tables(tmp_path: Path) -> None:
    torch = needed("torch")
    layer = torch.nn.Linear(8, 8)
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        layer(torch.ones(4, 8)).sum().backward()
    profiler.export_chrome_trace(str(tmp_path / "by_cpp.json"))
    profiler.export_chrome_trace(str(tmp_path / "by_python.json"), use_python_export=True)
    by_cpp, by_python = (read((tmp_path / f"{name}.json").read_bytes()) for name in ("by_cpp", "by_python"))
    assert len(by_cpp["memory_events"]) > 3
    for table in ("memory_events", "host_slices"):
        assert rows_of(by_python, table) == rows_of(by_cpp, table)
    assert by_python.names("instants") == by_cpp.names("instants")
    assert by_python.defects == by_cpp.defects
