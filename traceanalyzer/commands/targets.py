"""The file that a command writes: never over what the command reads, nor over a trace, unless `--force` means it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from traceanalyzer.errors import TraceAnalyzerError

_FORCE = "traceanalyzer.force"
_HINT = "name another file, or add --force to write over this one"
# People write these; no command does.
_WRITTEN_BY_HAND = {".toml": "settings", ".yaml": "rules", ".yml": "rules"}
_SPREADSHEET = ".xlsx"


class TargetFile(click.Path):
    """A file that a command writes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)


def output_option(meaning: str, *, required: bool = False) -> Callable[..., Any]:
    """Return the option `-o`, passed as `output`, and `--force`, which `check_target` reads."""
    output = click.option(
        "-o",
        "--output",
        type=TargetFile(),
        required=required,
        metavar="FILE",
        help=meaning,
        callback=check_before_work,
    )
    return lambda command: output(force_option(command))


def force_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--force`."""
    option = click.option(
        "--force",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_force,
        help="Write over FILE also where it is a trace, or what the command reads.",
    )
    return option(command)


def check_before_work(context: click.Context, parameter: click.Parameter, target: Path | None) -> Path | None:
    """Check a target while arguments are parsed: a refusal must not come after an hour of work."""
    if target is not None:
        check_target(target)
    return target


def check_target(target: Path) -> None:
    """Raise TraceAnalyzerError where a file to be written is an input of the command, or a trace or a part of one."""
    context = click.get_current_context(silent=True)
    if (context is not None and context.meta.get(_FORCE)) or not target.is_file():
        return
    if context is not None and any(_is_same(target, given) for given in _inputs(context)):
        raise TraceAnalyzerError("is read by this command, and would be lost", target, _HINT)
    if (what := _what_it_is(target)) is not None:
        raise TraceAnalyzerError(f"{what}, and would be lost", target, _HINT)


def _note_force(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_FORCE] = value


def _inputs(context: click.Context) -> Iterator[Path]:
    """Yield each path that the command was given, without those that it writes."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if not isinstance(parameter.type, TargetFile):
            yield from (item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Path))


def _is_same(target: Path, given: Path) -> bool:
    try:
        return given.is_file() and target.samefile(given)
    except OSError:
        return False


def _what_it_is(file: Path) -> str | None:
    """Return what an existing file is that nobody wants to lose; None: a result, or a file of an unknown kind."""
    from traceanalyzer.answers.memory_timeline import memory_file_kind
    from traceanalyzer.comparison.summary import is_summary_file
    from traceanalyzer.discovery.finding import is_trace_folder, look
    from traceanalyzer.discovery.other_formats import other_format
    from traceanalyzer.ingest.heads import read_head
    from traceanalyzer.ingest.nsys.export.unpacking import is_report
    from traceanalyzer.ingest.packed.archives import is_archive

    if (noun := _WRITTEN_BY_HAND.get(file.suffix.lower())) is not None:
        return f"holds {noun}"
    if is_summary_file(file):
        return None
    ingester, unreadable = look(file)
    if ingester is not None or is_report(file):
        return "is a trace"
    if file.stat().st_size == 0 or file.suffix.lower() == _SPREADSHEET:
        return None
    if unreadable is not None:
        return "is named like a trace"
    if file.suffix == ".parquet" and is_trace_folder(file.parent):
        return "is a part of a trace"
    if is_archive(read_head(file)):
        return "is an archive"
    if (other := other_format(file)) is not None:
        return f"is {other[0]}"
    return None if memory_file_kind(file) is None else "is a record of memory"
