"""The destination of a result: standard output, or a file that appears only when it is complete.

A file is never written over what the command reads, nor over a trace, unless `--force` means it. `--also FORMAT=FILE`
writes further formats of a result that is computed once.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any, TextIO

import click

from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.process import unfinished
from traceanalyzer.report import formats
from traceanalyzer.text.visible import visible_lines

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
        "-o", "--output", type=TargetFile(), required=required, metavar="FILE", help=meaning, callback=check_before_work
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
    from traceanalyzer.discovery.naming import other_format
    from traceanalyzer.ingest.nsys import is_report
    from traceanalyzer.ingest.packed.archives import is_archive
    from traceanalyzer.ingest.trace_events.stream import read_head

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
    head = read_head(file)
    if is_archive(head):
        return "is an archive"
    if head.lstrip().startswith(b"<"):  # a page or JUnit's XML, which no recorder writes
        return None
    if (other := other_format(file)) is not None:
        return f"is {other[0]}"
    return None if memory_file_kind(file) is None else "is a record of memory"


def also_option(formats: Sequence[str]) -> Callable[..., Any]:
    """Return the option `--also`; its value is read by `parse_also`."""
    return click.option(
        "--also",
        "further",
        multiple=True,
        metavar="FORMAT=FILE",
        help=f"Also write FILE in this format: {', '.join(formats)}; may be repeated.",
    )


def parse_also(texts: Sequence[str], formats: Sequence[str]) -> list[tuple[str, Path]]:
    """Return each format with its file; raises TraceAnalyzerError for one that is not there."""
    wanted = []
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise TraceAnalyzerError(f"{text!r} is not FORMAT=FILE", "--also", "for example --also markdown=summary.md")
        if name not in formats:
            hint = suggestion(name, formats, f"known: {', '.join(formats)}")
            raise TraceAnalyzerError(f"unknown format {name!r}", "--also", hint)
        check_target(Path(file))
        wanted.append((name, Path(file)))
    return wanted


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def show_error(error: TraceAnalyzerError) -> None:
    """Write an error and its hint to standard error."""
    color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    click.echo(click.style("error: ", fg="red", bold=True) + _shown(str(error)), err=True, color=color)
    if error.hint is not None:
        click.echo(click.style("hint: ", fg="cyan", bold=True) + _shown(error.hint), err=True, color=color)


def _shown(text: str) -> str:
    """Return a text of an error, whose lines after the first are indented: names in it cannot begin a message."""
    return re.sub(r"\n(?!\s)", "\n  ", visible_lines(text))


@contextmanager
def written(path: Path | None) -> Iterator[TextIO]:
    """Yield a text stream: standard output, or a file that appears under its name once it is complete."""
    if path is None or str(path) == "-":
        with _named("standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    if _is_step_summary(path):
        with _named(path), path.open("a", encoding="utf-8", newline="") as stream:
            yield stream
        return
    with _replacing(path) as file, file.open("w", encoding="utf-8", newline="") as stream:
        yield stream
        stream.flush()
        if file != path:
            os.fsync(stream.fileno())


def write_screen(screen: ModuleType, answer: Sequence[Any], format_: str, output: Path | None, **shown: Any) -> None:
    """Write an answer in one of the RENDERERS or as JSON, with the functions `sections` and `write_json` of a module.

    `shown` says what the sections show besides; JSON holds everything.
    """
    with written(output) as stream:
        if format_ == "json":
            screen.write_json(*answer, stream)
        else:
            formats.render(screen.sections(*answer, **shown), format_, stream)


def report_options(
    meaning: str, noun: str = "page", known: Sequence[str] = formats.SCREEN_FORMATS
) -> Callable[..., Any]:
    """Return the options `--format`, with what the formats mean, and `-o`; `chosen_format` reads their values."""
    layout = click.option(
        "--format", "layout", type=click.Choice(known), show_default=formats.BY_SUFFIX.format(known[0]), help=meaning
    )
    output = output_option(f"Write the {noun} to FILE.")
    return lambda command: layout(output(command))


def chosen_format(layout: str | None, output: Path | None, known: Sequence[str] = formats.SCREEN_FORMATS) -> str:
    """Return the format that was asked for, else that of the file's suffix, else the first of the known ones.

    Raises TraceAnalyzerError where a page for a browser would fill a terminal.
    """
    format_ = formats.chosen(layout, output, known)
    check_for_browser(format_, output)
    return format_


def check_for_browser(layout: str, path: Path | None) -> None:
    if layout == "html" and path is None and sys.stdout.isatty():
        raise TraceAnalyzerError(
            "a page is for a browser", "--format html", "say where with -o, for example -o report.html"
        )


@contextmanager
def written_bytes(path: Path | None, *, is_own: bool = False) -> Iterator[IO[bytes]]:
    """Yield a binary stream: standard output, or a file that appears under its name once it is complete.

    `is_own` is a file of the store: nobody loses an older one.
    """
    if path is None or str(path) == "-":
        with _named("standard output"):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    with _replacing(path, is_own=is_own) as file, file.open("wb") as stream:
        yield stream


def _is_step_summary(path: Path) -> bool:
    """Return whether GitHub Actions shows this file as a step's summary: other tools write there, too."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return bool(summary) and path.resolve() == Path(summary or "").resolve()


@contextmanager
def _replacing(path: Path, *, is_own: bool = False) -> Iterator[Path]:
    """Yield what to write: a file that takes the place of `path` at the end; of a device or a pipe itself.

    Where `path` is a link, the file behind it is replaced.
    """
    if path.is_dir():
        raise TraceAnalyzerError("is a folder", path, "name a file in it")
    if _is_of_the_system(path):
        with _named(path):
            yield path
        return
    if not is_own:
        check_target(path)
    file = Path(os.path.realpath(path))
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    with _named(path), unfinished(temporary):
        if file.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        try:
            yield temporary
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


def _is_of_the_system(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or an open file: a file in place of `/dev/null` would hurt others."""
    is_open_file = path.absolute().parts[1:2] in (("dev",), ("proc",))
    return path.exists() and (is_open_file or not path.is_file())


@contextmanager
def _named(destination: Path | str) -> Iterator[None]:
    """Turn an error of writing into one that names the destination."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader left, which is no error of the destination
    except OSError as error:
        hint = "make room there, or name another file" if error.errno in _FULL else "name another file"
        raise TraceAnalyzerError(f"cannot be written: {error.strerror or error}", destination, hint) from error
