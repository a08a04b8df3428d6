"""`traceanalyzer man`: the manual page, made from the help of every command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from traceanalyzer.version import __version__

_EXIT_CODES = (
    ("0", "The command did what it says."),
    ("1", "`diagnose --fail-on`: a finding is this severe. `rules test` and `rules lint`: something failed."),
    ("2", "An error in the input, an option or the settings; the message says what to do."),
    ("3", "`diagnose`: the traces allow no diagnosis."),
)


@click.command()
def man() -> None:
    """Print the manual page.

    \b
    traceanalyzer man | man -l -
    """
    context = click.get_current_context().find_root()
    click.echo(manual_page(context.command, context.info_name or "traceanalyzer"), nl=False)


def manual_page(program: click.Command, name: str) -> str:
    """Return the manual page of a program in roff, with a section for every command below it."""
    context = click.Context(program, info_name=name)
    summary, description = _help(program)
    lines = [
        f'.TH {name.upper()} 1 "" "{name} {__version__}" "User Commands"',
        ".SH NAME",
        _escaped(f"{name} - {summary[:1].lower()}{summary[1:].rstrip('.')}"),
        ".SH SYNOPSIS",
        _escaped(f"{name} COMMAND [OPTIONS] [ARGUMENTS]"),
        ".SH DESCRIPTION",
        *_paragraphs([summary, *description]),
        ".SH COMMANDS",
        *(line for child, path in _commands(program, context) for line in _command(child, path)),
        ".SH FILES",
        *_item("RUN/.traceanalyzer", "Computed tables of a run, unless --store names another folder."),
        *_item("traceanalyzer.toml", "Settings of a project, in a folder above the run."),
        ".SH EXIT STATUS",
        *(line for code, meaning in _EXIT_CODES for line in _item(code, meaning)),
    ]
    return "\n".join(lines) + "\n"


def _commands(group: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Return every command that does something, with its context, in the order of their names."""
    if not isinstance(group, click.Group):
        yield group, context
        return
    for name in group.list_commands(context):
        child = group.get_command(context, name)
        assert child is not None
        yield from _commands(child, click.Context(child, parent=context, info_name=name))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    summary, description = _help(command)
    yield f".SS {_escaped(f'{context.command_path} {usage}')}"
    yield from _paragraphs([summary, *description])
    with context.scope(cleanup=False):
        records = [record for option in command.params if (record := option.get_help_record(context)) is not None]
    for words, meaning in records:
        if meaning:
            yield from _item(words, meaning)


def _help(command: click.Command) -> tuple[str, list[str]]:
    """Return the first paragraph of a command's help, and the others."""
    summary, *others = inspect.cleandoc(command.help or "").split("\n\n")
    return " ".join(summary.split()), others


def _paragraphs(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield ".PP"
        if text.startswith("\b"):  # click's mark of lines that stay as they are
            yield ".nf"
            yield from (_escaped(line) for line in text.splitlines()[1:])
            yield ".fi"
        else:
            yield _escaped(" ".join(text.split()))


def _item(words: str, meaning: str) -> Iterator[str]:
    yield ".TP"
    yield rf"\fB{_escaped(words)}\fR"
    yield _escaped(meaning)


def _escaped(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text
