"""The metadata of an export: versions, capture options, environment, diagnostics, clock."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.export.source import ExportSource
from traceanalyzer.ingest.nsys.export.stage import StagedExport
from traceanalyzer.ingest.nsys.export.tables import TABLES
from traceanalyzer.report.secrets import masked_arguments

# Environments hold secrets: only what explains performance or names the rank is kept.
_ALLOWED = re.compile(
    r"^(CUDA_(LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS|MODULE_LOADING|VISIBLE_DEVICES)|NVIDIA_TF32_OVERRIDE"
    r"|PYTORCH_\w*ALLOC_CONF|(TORCH_)?NCCL_\w+|OMP_NUM_THREADS|MKL_NUM_THREADS|TOKENIZERS_PARALLELISM"
    r"|(LOCAL_)?RANK|WORLD_SIZE|(OMPI_COMM_WORLD|MV2_COMM_WORLD|PMI)_(LOCAL_)?(RANK|SIZE)|PMIX_RANK"
    r"|SLURM_(PROCID|LOCALID|NTASKS|NODEID))$"
)
_ENVIRONMENT_OPTION = "ENVIRONMENT_VARIABLE"
# Who exported or recorded it is private; blobs of tool configuration are of no use.
_PRIVATE = re.compile(r"(USER|USER_NAME|WORKING_DIR)$")
_SYSTEM_FACTS = frozenset(
    {"CpuCores", "CpuDescription", "CpuArchitecture", "NvDriverVersion", "CudaDriverVersion", "OsDescription"}
    | {"Hostname", "SoftwareReleaseVersion"}
)
# The program of a process and its arguments, in their order.
_ARGUMENT = re.compile(r"(?P<process>.*)(?:COMMAND|ARGUMENT_\d+)$")
_DROPPED = re.compile(r"\b(drop\w*|lost|discard\w*|overflow\w*|not enough (buffer|memory)|buffer.{0,20}full)\b", re.I)
# What is only about the host: nothing of the GPU is missing.
_HOST_ONLY = re.compile(
    r"\b(CPU|IP|backtraces?|context switch\w*|perf_event\w*)\b.{0,40}\b(sampl\w*|paranoid|trac\w*|support\w*)", re.I
)
# Severity levels of DIAGNOSTIC_EVENT.
_WARNING, _ERROR = 2, 3
# Tables without which the analysis knows less: table → how to record it.
_WANTED = {
    "kernel": "nsys profile --trace=cuda",
    "runtime": "nsys profile --trace=cuda",
    "sync": "nsys profile --trace=cuda",
    "nvtx": "nsys profile --trace=cuda,nvtx, and NVTX ranges in the program",
    "osrt": "nsys profile --trace=cuda,nvtx,osrt",
    "session": "a newer nsys",
    "gpu": "a machine where nsys may query the GPU",
}


@dataclass(frozen=True)
class ExportFacts:
    """The export's own words, before they become metadata."""

    product_version: str | None
    schema_version: str | None
    options: Sequence[tuple[str, str]]
    environment: Mapping[str, str]
    system: Mapping[str, str]
    exporter: Mapping[str, str]
    diagnostics: Sequence[Mapping[str, object]]
    base_ns: int | None

    @property
    def host(self) -> str | None:
        """Return the machine that was recorded; None: the export does not name it."""
        name = self.system.get("Hostname")
        return None if name in (None, "", "redacted") else name

    @property
    def sync_numbering(self) -> str:
        """Return which of the four meanings the exporter gives to the numbers of synchronisations."""
        version = tuple(int(part) for part in re.findall(r"\d{1,9}", self.schema_version or "0")[:3])
        if version < (3, 14):
            return "until 2024.5"
        if version < (3, 17):
            return "2024.6"
        return "2025.1 to 2026.1" if version < (3, 25) else "since 2026.2"


def read_facts(stage: StagedExport) -> ExportFacts:
    """Read the small tables that describe the export; counts what nsys itself complained about."""
    exporter = {row["name"]: row["value"] for row in _rows(stage, "export_fact") if row["name"]}
    options = [(row["name"] or "", row["value"] or "") for row in _rows(stage, "capture_option")]
    system_rows = [(row["name"] or "", row["value"] or "") for row in _rows(stage, "system_env")]
    diagnostics = [
        {key: row[key] for key in ("timestamp", "severity", "source", "text")} for row in _rows(stage, "diagnostic")
    ]
    count_diagnostics(diagnostics, stage.defects)
    session = _rows(stage, "session")
    return ExportFacts(
        product_version=exporter.get("EXPORT_PRODUCT_VERSION"),
        schema_version=exporter.get("EXPORT_SCHEMA_VERSION"),
        options=[(name, value) for name, value in options if _ENVIRONMENT_OPTION not in name],
        environment=_environment(options, system_rows),
        system={name: value for name, value in system_rows if name in _SYSTEM_FACTS},
        exporter={name: value for name, value in exporter.items() if not _PRIVATE.search(name)},
        diagnostics=diagnostics,
        base_ns=session[0]["utcEpochNs"] if session else None,
    )


def _rows(stage: StagedExport, relation: str) -> list[dict[str, Any]]:
    return [row for batch in stage.rows(relation) for row in batch.to_pylist()]


def _environment(options: Sequence[tuple[str, str]], system: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the allowed variables of the profiled program, else of the machine's session."""
    settings = [value for name, value in system if name == "DeviceEnvironment" for value in value.split(";")]
    settings += [value for name, value in options if _ENVIRONMENT_OPTION in name]
    environment = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if _ALLOWED.match(name):
            environment[name] = value.strip('"')
    return environment


def count_diagnostics(diagnostics: Sequence[Mapping[str, object]], defects: Defects) -> None:
    """Count what nsys warned of while it recorded, and what it could not do."""
    for row in diagnostics:
        text = " ".join(str(row["text"]).split())
        if row["severity"] in (_WARNING, _ERROR) and _DROPPED.search(text):
            defects.add("events-dropped", example=text)
        elif row["severity"] == _ERROR and not (_HOST_ONLY.search(text) and "CUDA" not in text):
            defects.add("profiler-error", example=text)
        elif row["severity"] in (_WARNING, _ERROR):
            defects.add("profiler-warning", example=text)


def check_layout(source: ExportSource, defects: Defects) -> None:
    """Count what the export lacks: tables, and columns that an analysis would miss."""
    tables, columns = [], []
    for table in TABLES:
        layout = source.layouts.get(table.relation)
        if layout is None:
            if table.relation in _WANTED:
                tables.append(f"{table.name} ({_WANTED[table.relation]})")
        elif not source.row_counts[layout.stored_name]:
            continue
        elif layout.unreadable:
            defects.add("unreadable-table", example=f"{layout.stored_name} has no {', '.join(layout.unreadable)}")
        else:
            columns += [f"{layout.stored_name}.{column}" for column in layout.missed]
    defects.add("missing-table", len(tables), "; ".join(tables))
    defects.add("missing-columns", len(columns), ", ".join(columns))


def metadata_rows(facts: ExportFacts, source: ExportSource, rank_source: str | None) -> pa.Table:
    """Return the canonical metadata rows: one key a kind of fact, values as JSON."""
    read = {layout.stored_name for layout in source.layouts.values()}
    options: dict[str, object] = {}
    for name, value in _without_secrets(facts.options):
        if _PRIVATE.search(name):
            continue
        earlier = options.get(name)
        options[name] = value if earlier is None else [*(earlier if isinstance(earlier, list) else [earlier]), value]
    values: dict[str, object] = {
        "nsys.version": facts.product_version,
        "nsys.schema_version": facts.schema_version,
        "nsys.export": dict(facts.exporter),
        "nsys.capture_options": options,
        "nsys.environment": dict(facts.environment),
        "nsys.system": dict(facts.system),
        "nsys.diagnostics": list(facts.diagnostics),
        "nsys.rank_source": rank_source,
        "nsys.tables": {name: count for name, count in sorted(source.row_counts.items()) if name in read},
        "nsys.tables_not_read": {
            name: count
            for name, count in sorted(source.row_counts.items())
            if name not in read and count and not name.startswith("ENUM_")
        },
        "nsys.columns_not_stored": {
            layout.stored_name: list(layout.absent)
            for layout in source.layouts.values()
            if layout.absent and source.row_counts[layout.stored_name]
        },
    }
    kept = {key: value for key, value in values.items() if value not in (None, {}, [])}
    return pa.table({"key": list(kept), "value": [json.dumps(value, default=str) for value in kept.values()]})


def _without_secrets(options: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the options with the secrets masked among each process's arguments, of which each has a row."""
    processes: dict[str, list[int]] = {}
    for position, (name, _) in enumerate(options):
        if match := _ARGUMENT.match(name):
            processes.setdefault(match["process"], []).append(position)
    shown = list(options)
    for positions in processes.values():
        masked = masked_arguments([options[position][1] for position in positions])
        for position, value in zip(positions, masked, strict=True):
            shown[position] = (options[position][0], value)
    return shown
