"""`traceanalyzer export`: a run as a file for other programs."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from traceanalyzer.commands.baseline import baseline as baseline  # the former command
from traceanalyzer.commands.baseline import write as baseline_of_runs
from traceanalyzer.commands.output import output_option, written, written_bytes
from traceanalyzer.commands.run_options import RunOptions, opened, run_options, with_options
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.text.words import size

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.exports import TracePart
    from traceanalyzer.exports.overlay import Overlay
    from traceanalyzer.run import Run

# The least that packs well: the time of an export is that of packing.
_GZIP_LEVEL = 1
MANIFEST = "perfetto_manifest.json"


@click.group()
def export() -> None:
    """Write a run as a file for Perfetto, speedscope, a spreadsheet or `diff`, its critical path, or one operator."""


export.add_command(baseline_of_runs, "baseline")


_output = output_option("Write the export to FILE.", required=True)


def _part(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(
        command,
        click.option("--window", metavar="A-B", help="Only this time, in ms since the trace's start: 120.5-180."),
        click.option("--step", type=int, metavar="N", help="Only this step, as `traceanalyzer sql` numbers it."),
        click.option("--rank", "ranks", type=int, multiple=True, metavar="N", help="Only this rank; may be repeated."),
    )


@export.command("perfetto")
@run_options
@_output
@_part
@click.option(
    "--from-tables",
    is_flag=True,
    help="Write the trace from the tables, and not its original bytes: work that overlaps on a stream stays visible.",
)
def perfetto(
    options: RunOptions, output: Path, ranks: tuple[int, ...], step: int | None, window: str | None, from_tables: bool
) -> None:
    """Write a trace for https://ui.perfetto.dev, with steps, ledger, findings, gaps and queue depth as tracks.

    The bytes of a JSON trace stay as they are behind these tracks. Several ranks make a tar file: one trace for each,
    and a manifest by which Perfetto 58 or newer shows them on one timeline.
    """
    from traceanalyzer.exports import parts_of

    with opened(options) as (run, activity):
        activity.phase("ranking findings")
        diagnosis = run.diagnose()
        activity.phase("writing")
        parts = parts_of(run, ranks, window, step)
        if len(parts) > 1 and not output.name.endswith(".tar"):
            hint = "name one with --rank, or name a .tar file, which Perfetto opens, too"
            raise TraceAnalyzerError(f"{len(parts)} traces are not one file", output, hint)
        with written_bytes(output) as stream:
            if output.name.endswith(".tar"):
                _write_tar(run, parts, diagnosis, stream, from_tables=from_tables)
            else:
                write_trace(run, parts[0], diagnosis, stream, from_tables=from_tables, plain=output.suffix == ".json")
    _tell_size(options, output)


def _write(options: RunOptions, output: Path, write: Callable[[Run, IO[bytes]], object]) -> None:
    """Open a run, and write to the output what a function makes of it."""
    with opened(options) as (run, activity):
        activity.phase("writing")
        with written_bytes(output) as stream:
            write(run, stream)
    _tell_size(options, output)


def _tell_size(options: RunOptions, output: Path) -> None:
    if not options.quiet and str(output) != "-" and output.is_file():
        click.echo(f"wrote {output} ({size(output.stat().st_size)})", err=True)


def write_trace(
    run: Run, part: TracePart, diagnosis: Diagnosis, stream: IO[bytes], *, from_tables: bool, plain: bool
) -> None:
    """Write one trace with our tracks: as JSON, packed unless `plain`."""
    from traceanalyzer.exports.overlay import overlay_of

    _write_overlaid(run, part, overlay_of(run, part, diagnosis), stream, from_tables=from_tables, plain=plain)


def _write_overlaid(
    run: Run, part: TracePart, overlay: Overlay, stream: IO[bytes], *, from_tables: bool = False, plain: bool
) -> None:
    """Write one trace with an overlay: as JSON, packed unless `plain`."""
    from traceanalyzer.exports.perfetto import write_perfetto

    if plain:
        write_perfetto(run, part, overlay, stream, from_tables=from_tables)
        return
    with closing(gzip.GzipFile("", "wb", _GZIP_LEVEL, stream, mtime=0)) as packed:
        write_perfetto(run, part, overlay, cast("IO[bytes]", packed), from_tables=from_tables)


def _write_tar(run: Run, parts: list[TracePart], diagnosis: Diagnosis, stream: IO[bytes], *, from_tables: bool) -> None:
    names = [_name_in_tar(part) for part in parts]
    with tarfile.open(fileobj=stream, mode="w") as archive:
        _add(archive, MANIFEST, io.BytesIO(manifest_of(parts, names)))
        for part, name in zip(parts, names, strict=True):
            content = io.BytesIO()
            write_trace(run, part, diagnosis, content, from_tables=from_tables, plain=False)
            _add(archive, name, content)


def manifest_of(parts: list[TracePart], names: list[str]) -> bytes:
    """Return what tells Perfetto how to merge traces: each rank is a machine, all on the clock of the first.

    https://perfetto.dev/docs/reference/perfetto-manifest is the format.
    """
    files: list[dict[str, Any]] = []
    for part, name in zip(parts, names, strict=True):
        rank = part.trace.rank
        file: dict[str, Any] = {
            "path": name,
            "machine": {"name": part.trace.trace if rank is None else f"rank {rank} ({part.trace.trace})"},
        }
        if files:
            # What the first file writes as T + offset is T here: each counts from its own base.
            offset_ns = part.base_ns - parts[0].base_ns
            if not part.shares_clock_with(parts[0]):
                offset_ns += parts[0].first_ns - part.first_ns
                file["machine"]["name"] += ", drawn from the same start: its clock cannot be compared"
            file["clocks"] = {"sync_to": {"file": names[0]}, "offset_ns": offset_ns}
        files.append(file)
    return json.dumps({"perfetto_manifest": {"version": 1, "files": files}}, indent=1).encode()


def _name_in_tar(part: TracePart) -> str:
    name = f"trace{part.trace_id}" if part.trace.rank is None else f"rank{part.trace.rank}-{part.trace_id}"
    return f"{name}.json.gz"


def _add(archive: tarfile.TarFile, name: str, content: io.BytesIO) -> None:
    header = tarfile.TarInfo(name)
    header.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    archive.addfile(header, content)


@export.command("critical-path")
@run_options
@_output
@click.option("--rank", "ranks", type=int, multiple=True, metavar="N", help="The rank to look at.")
@click.option("--annotation", default="", metavar="TEXT", help="Only within an annotation whose name contains TEXT.")
@click.option(
    "--instance", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Which of these, from 0."
)
def critical_path(options: RunOptions, output: Path, ranks: tuple[int, ...], annotation: str, instance: int) -> None:
    """Write the critical path of one rank by HTA's definition, to compare with HTA.

    FILE.csv gets a table of its parts; any other FILE the trace for Perfetto, with the path as a track of
    the host and one of devices. The path leaves out the time between top-level operators and in waits. For what limits
    a run, ask `diagnose`.
    """
    from traceanalyzer.exports import parts_of
    from traceanalyzer.exports.overlay import critical_path_overlay, critical_path_words, write_critical_path_table
    from traceanalyzer.hta import critical_path as path_of

    with opened(options) as (run, activity):
        parts = parts_of(run, ranks)
        if len(parts) > 1:
            raise TraceAnalyzerError(f"{len(parts)} traces have a path each", "export critical-path", "name one --rank")
        activity.phase("finding the path")
        path = path_of(run.connection, parts[0].trace_id, annotation, instance)
        activity.phase("writing")
        with written_bytes(output) as stream:
            if output.suffix == ".csv":
                write_critical_path_table(path, stream)
            else:
                _write_overlaid(run, parts[0], critical_path_overlay(path), stream, plain=output.suffix == ".json")
    if not options.quiet:
        click.echo(critical_path_words(path), err=True)


@export.command("replay")
@click.argument("operator")
@run_options
@_output
@click.option(
    "--row",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Of its different arguments those with the N-th largest time.",
)
def replay(options: RunOptions, output: Path, operator: str, row: int) -> None:
    """Write a Python script that runs one operator as recorded: shapes, types, strides, and a timing loop.

    OPERATOR is a name as `traceanalyzer top operators` writes it: aten::mm. The script needs PyTorch alone; what the
    trace does not hold stands at its top, to be changed.
    """
    from traceanalyzer.exports.replay import replay_of

    with opened(options) as (run, activity):
        activity.phase("writing")
        script = replay_of(run.connection, operator, row, run.name)
    with written(output) as stream:
        stream.write(script)
    _tell_size(options, output)


@export.command("speedscope")
@run_options
@_output
@_part
def speedscope(options: RunOptions, output: Path, ranks: tuple[int, ...], step: int | None, window: str | None) -> None:
    """Write host stacks and streams for https://www.speedscope.app, one profile for each thread that launches."""
    from traceanalyzer.exports import parts_of
    from traceanalyzer.exports.stacks import write_speedscope

    _write(options, output, lambda run, stream: write_speedscope(run, parts_of(run, ranks, window, step), stream))


@export.command("folded")
@run_options
@_output
@_part
@click.option(
    "--weight",
    type=click.Choice(["host", "gpu"]),
    default="host",
    show_default=True,
    help="Time of the host in a stack, or of the GPU work that was launched there.",
)
def folded(
    options: RunOptions, output: Path, ranks: tuple[int, ...], step: int | None, window: str | None, weight: str
) -> None:
    """Write host stacks as lines `thread;frame;frame ns`, for flamegraph.pl and the like."""
    from traceanalyzer.exports import parts_of
    from traceanalyzer.exports.stacks import write_folded

    _write(options, output, lambda run, stream: write_folded(run, parts_of(run, ranks, window, step), stream, weight))


@export.command("xlsx")
@run_options
@_output
def xlsx(options: RunOptions, output: Path) -> None:
    """Write the diagnosis and the metrics behind it as a spreadsheet; needs the extra `xlsx`."""
    from traceanalyzer.exports.xlsx import check_installed, write_xlsx

    check_installed("export xlsx")
    _write(options, output, lambda run, stream: write_xlsx(run, run.diagnose(), stream))


@export.command("heatmap")
@run_options
@_output
def heatmap(options: RunOptions, output: Path) -> None:
    """Write the own time of each rank in each step, and how far it is above ranks with the same work.

    FILE.parquet or FILE.csv gets a row for each device and step: the numbers behind the heat map of a report. Own time
    is all time without communication, so a rank that waits for others is not slow.
    """
    from traceanalyzer.exports.heat_map import check_layout, heat_map_table, write_heat_map

    check_layout(output)
    _write(
        options,
        output,
        lambda run, stream: write_heat_map(heat_map_table(run, run.diagnose()), output.suffix, stream),
    )
