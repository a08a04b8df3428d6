"""The tables of a rocpd database that are read, and their columns; each process has its own, by the suffix of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from traceanalyzer.ingest.nsys.export.tables import TableLayout, match_columns, table_of

METADATA = "rocpd_metadata"
# A process's suffix is its guid, with underscores (or, of older writers, bare hexadecimal digits).
_SUFFIX = re.compile(rf"{METADATA}(?P<suffix>_?[0-9a-fA-F]{{8}}(?:_?[0-9a-fA-F]{{4}}){{3}}_?[0-9a-fA-F]{{12}})")
_SIDES = "{0}_x {0}_y {0}_z"

# The order gives every row its id in the trace.
TABLES = (
    table_of("strings", "rocpd_string", "id! string:text!"),
    table_of("metadata", METADATA, "tag:text! value:text"),
    table_of("node", "rocpd_info_node", "id machine_id:text hostname:text system_name:text release:text"),
    table_of("process", "rocpd_info_process", "id pid ppid nid init fini command:text extdata:text"),
    table_of("thread", "rocpd_info_thread", "id! pid tid name:text"),
    table_of(
        "agent",
        "rocpd_info_agent",
        "id! pid type:text absolute_index logical_index type_index name:text product_name:text extdata:text",
    ),
    table_of("symbol", "rocpd_info_kernel_symbol", "id! kernel_name:text display_name:text arch_vgpr_count"),
    table_of("queue", "rocpd_info_queue", "id! name:text"),
    table_of("stream", "rocpd_info_stream", "id! name:text"),
    table_of("pmc", "rocpd_info_pmc", "id! name:text symbol:text"),
    table_of("track", "rocpd_track", "id! pid tid name_id"),
    table_of("event", "rocpd_event", "id! category_id stack_id"),
    table_of("event_text", "rocpd_event", "id! category_id extdata:text!"),
    table_of("region", "rocpd_region", "start! end! tid name_id source|event_id"),
    table_of("sample", "rocpd_sample", "timestamp! track_id source|event_id"),
    table_of(
        "dispatch",
        "rocpd_kernel_dispatch",
        f"start! end! agent_id kernel_id dispatch_id queue_id stream_id private_segment_size group_segment_size "
        f"{_SIDES.format('workgroup_size')} {_SIDES.format('grid_size')} graph_exec_id graph_node_id replay_pass "
        "region_name_id source|event_id",
    ),
    table_of(
        "copy",
        "rocpd_memory_copy",
        "start! end! name_id dst_agent_id src_agent_id size queue_id stream_id graph_exec_id graph_node_id "
        "source|event_id",
    ),
    table_of(
        "allocate",
        "rocpd_memory_allocate",
        "start! end! tid agent_id type:text level:text address size source|event_id",
    ),
    table_of("pmc_event", "rocpd_pmc_event", "source|event_id pmc_id value:real"),
)
# What a process's recording always has.
WANTED = ("dispatch", "region", "event", "agent", "symbol")


def suffixes_of(names: Iterable[str]) -> list[str]:
    """Return the suffix of each process that a database has tables of."""
    return sorted({match["suffix"] for name in names if (match := _SUFFIX.fullmatch(name))})


def lay_out(tables: Mapping[str, list[str]], suffix: str) -> dict[str, TableLayout]:
    """Match the tables of a process with ours, by their exact names."""
    found: dict[str, TableLayout] = {}
    for table in TABLES:
        stored = table.name + suffix
        if stored in tables:
            found[table.relation] = TableLayout(table, stored, match_columns(table, tables[stored]))
    return found


def is_rocpd(names: Iterable[str]) -> bool:
    """Return whether a database with tables of these names is one."""
    known = set(names)
    return any(
        f"rocpd_{kind}{suffix}" in known for suffix in suffixes_of(known) for kind in ("kernel_dispatch", "region")
    )


# Tables whose rows are events of the trace: only they need ids.
_OF_EVENTS = ("region", "sample", "dispatch", "copy", "allocate")


def first_ids(layouts: Mapping[str, TableLayout], row_counts: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return the id of each table's first event, and how many events all have."""
    first, firsts = 0, {}
    for table in TABLES:
        firsts[table.relation] = first
        if table.relation in _OF_EVENTS and table.relation in layouts:
            first += row_counts[layouts[table.relation].stored_name]
    return firsts, first
