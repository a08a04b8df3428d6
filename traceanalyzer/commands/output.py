"""The destination of a result: standard output, or a file that appears only when it is complete.

`--also FORMAT=FILE`: further formats of a result that is computed once.
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

from traceanalyzer.commands.targets import check_target, output_option
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.process import unfinished
from traceanalyzer.report import formats
from traceanalyzer.text.visible import visible_lines


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


def report_options(known: Sequence[str], meaning: str, noun: str = "page") -> Callable[..., Any]:
    """Return the options `--format`, with what the formats mean, and `-o`; `chosen_format` reads their values."""
    layout = click.option(
        "--format",
        "layout",
        type=click.Choice(known),
        show_default=formats.BY_SUFFIX.format(known[0]),
        help=meaning,
    )
    output = output_option(f"Write the {noun} to FILE.")
    return lambda command: layout(output(command))


def chosen_format(layout: str | None, output: Path | None, known: Sequence[str]) -> str:
    """Return the format that was asked for, else that of the file's suffix, else the first of the known ones.

    Raises TraceAnalyzerError where a page for a browser would fill a terminal.
    """
    format_ = formats.chosen(layout, output, known)
    check_for_browser(format_, output)
    return format_


def check_for_browser(layout: str, path: Path | None) -> None:
    """Raise TraceAnalyzerError where a page for a browser would fill a terminal."""
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
