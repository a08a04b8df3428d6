"""A program: prints a report of Nsight Compute as CSV, with the columns of its own details page.

It runs as a process of its own (`reports`): NVIDIA's reader is native code, and its crash ends this process alone.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

COLUMNS = (
    *(
        "ID",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Section Name",
        "Metric Name",
    ),
    *("Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type"),
    "Estimated Speedup",
)
_LONGEST_TEXT = 2**14
_LINK = re.compile(r"@(?:url|section):(?:[^:@]*:)??([^:@]+)(?::https?:[^@]*)?@")


def _rows(path: str) -> Iterator[Sequence[str]]:
    import ncu_report

    report = ncu_report.load_report(path)
    number = 0
    for place in range(report.num_ranges()):
        launches = report.range_by_idx(place)
        for position in range(launches.num_actions()):
            launch = launches.action_by_idx(position)
            values = {name: _text(launch.metric_by_name(name)) for name in launch.metric_names()}
            name = launch.name(launch.NameBase_DEMANGLED) or launch.name()
            head = [str(number), name[:_LONGEST_TEXT], *_identity(values)]
            number += 1
            for metric, text in values.items():
                # A breakdown is a list of the metrics that another is the highest of.
                if text is not None and not metric.startswith("breakdown:"):
                    yield [*head, "", metric, launch.metric_by_name(metric).unit() or "", text, *[""] * 5]
            for result in launch.rule_results_as_dicts():
                if rule := _rule(ncu_report, result):
                    yield [*head, result.get("section_identifier") or "", "", "", "", *rule]


def _text(metric: Any) -> str | None:
    """Return a value as it would be printed, whole numbers without a point; None where there is none."""
    value = metric.value()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    return None if value is None else str(value)[:_LONGEST_TEXT]


def _identity(values: dict[str, str | None]) -> list[str]:
    def known(name: str) -> str:
        return values.get(name) or ""

    def sizes(name: str) -> str:
        return ", ".join(known(f"launch__{name}_dim_{axis}") for axis in "xyz")

    capability = [known(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    return [
        known("launch__context_id"),
        known("launch__stream_id"),
        sizes("block"),
        sizes("grid"),
        known("device__attribute_display_name"),
        ".".join(capability),
    ]


def _rule(ncu_report: Any, result: dict[str, Any]) -> list[str]:
    """Return the cells of a rule's result; none where it says nothing."""
    types = {
        ncu_report.MsgType_OK: "INF",
        ncu_report.MsgType_OPTIMIZATION: "OPT",
        ncu_report.MsgType_WARNING: "WRN",
        ncu_report.MsgType_ERR: "ERR",
    }
    message, speedup = result.get("rule_message") or {}, result.get("speedup_estimation") or {}
    kinds = {ncu_report.SpeedupType_LOCAL: "local", ncu_report.SpeedupType_GLOBAL: "global"}
    kind = kinds.get(speedup.get("type"), "")
    if not message.get("message"):
        return []
    return [
        result.get("rule_identifier") or result.get("name") or "",
        types.get(message.get("type"), ""),
        _LINK.sub(r"\1", message.get("message") or "")[:_LONGEST_TEXT],
        kind,
        str(speedup["speedup"]) if kind else "",
    ]


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    writer.writerows(_rows(sys.argv[1]))
