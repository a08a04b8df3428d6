"""The metadata of an export: versions, capture options, environment, diagnostics, clock.

The rank of each process in its job, from the best evidence in the export.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.nvtx import CommunicatorInit
from traceanalyzer.ingest.nsys.reading import StagedExport
from traceanalyzer.ingest.nsys.source import ExportSource
from traceanalyzer.ingest.nsys.tables import TABLES
from traceanalyzer.text.visible import masked_arguments

# Launchers' variables for the global rank and the number of ranks, in the order in which they are believed.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
_MPI_THREAD = re.compile(r"^MPI Rank ([0-9]{1,9})$")
# The place of a process among those of its export: of one host, and of one job.
OF_DEVICE = "device of the process"
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Rank:
    """A process's rank, the size of its job if known, and the source of both."""

    rank: int
    world_size: int | None
    source: str


@dataclass(frozen=True)
class RankEvidence:
    """The evidence of an export about ranks; processes are global process ids."""

    mpi_ranks: Mapping[int, int]
    communicators: Sequence[CommunicatorInit]
    environment: Mapping[str, str]
    devices: Mapping[int, Sequence[int]]  # process → devices it used, as the machine numbers them where that is known


def mpi_ranks_of(
    rank_rows: Sequence[Mapping[str, int | None]], thread_names: Sequence[tuple[int | None, str]]
) -> dict[int, int]:
    """Return MPI ranks by process: from MPI_RANKS, else from the names that MPI tracing gives to main threads."""
    ranks = {
        thread & -16777216: rank
        for thread, rank in ((row["globalTid"], row["rank"]) for row in rank_rows)
        if thread is not None and rank is not None
    }
    for thread, name in thread_names:
        match = _MPI_THREAD.match(name or "")
        if match and thread is not None:
            ranks.setdefault(thread & -16777216, int(match[1]))
    return ranks


def find_rank(process: int, processes: Sequence[int], evidence: RankEvidence) -> Rank | None:
    """Return the rank of one of the processes that drive a GPU; None where only the file's name may have it."""
    world_size = _number(evidence.environment, _SIZE_VARIABLES)
    if process in evidence.mpi_ranks:
        known = len(evidence.mpi_ranks)
        return Rank(evidence.mpi_ranks[process], world_size or (known if known > 1 else None), "MPI")
    joined = [init for init in evidence.communicators if init.scope == process]
    if joined:
        # The world is the largest communicator; groups of it number their members anew.
        widest = max(joined, key=lambda init: init.rank_count)
        return Rank(widest.rank, widest.rank_count, "NCCL communicator")
    if len(processes) <= 1:
        rank = _number(evidence.environment, _RANK_VARIABLES)
        return None if rank is None else Rank(rank, world_size, "environment")
    # Several processes under one launcher: its environment names no rank, but each process has a device of its own.
    owned = {process: tuple(evidence.devices.get(process, ())) for process in processes}
    firsts = [devices[0] for devices in owned.values() if len(devices) == 1]
    if len(set(firsts)) != len(processes):
        return None
    return Rank(sorted(firsts).index(owned[process][0]), None, OF_DEVICE)


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        if _WHOLE_NUMBER.fullmatch(environment.get(name, "")):
            return int(environment[name])
    return None


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
