"""What helps people who type commands: `help` and `version`, the manual page, and completion by a shell."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem, get_completion_class

from traceanalyzer.commands import COMPLETION_VARIABLE, PROGRAM
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.version import __version__


@click.command("help")
@click.argument("command", nargs=-1)
def help_(command: tuple[str, ...]) -> None:
    """Show the help of a command: `help sql` shows what `sql --help` shows."""
    context = click.get_current_context().find_root()
    found: click.Command = context.command
    for name in command:
        known = found.list_commands(context) if isinstance(found, click.Group) else []
        below = found.get_command(context, name) if isinstance(found, click.Group) else None
        if below is None:
            hint = suggestion(name, known, "`traceanalyzer --help` lists all")
            raise TraceAnalyzerError(f"no command is called {name!r}", "help", hint)
        found = below
        context = click.Context(found, parent=context, info_name=name)
    click.echo(found.get_help(context))


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Show what reads JSON traces, too.")
def version(verbose: bool) -> None:
    """Show the version, as --version does."""
    click.echo(f"traceanalyzer {__version__}")
    if verbose:
        from traceanalyzer.ingest.native import READERS, reader_in_use

        click.echo(f"reader of JSON traces: {READERS[reader_in_use()]}")


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


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  eval "$(traceanalyzer completion bash)"             in ~/.bashrc
    zsh   eval "$(traceanalyzer completion zsh)"              in ~/.zshrc, below compinit
    fish  traceanalyzer completion fish | source              in ~/.config/fish/config.fish
    """
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click has no completion for {shell}")
    program = click.get_current_context().find_root().command
    click.echo(script(program, {}, PROGRAM, COMPLETION_VARIABLE).source())


def completes(names: Callable[[], Iterable[tuple[str, str]]]) -> Completer:
    """Return a completer of names, each with what it means; names are only read when a shell asks."""

    def items(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name, help=meaning) for name, meaning in names() if name.startswith(incomplete)]

    return items


def metric_names() -> list[tuple[str, str]]:
    """Return every metric with the meaning of one row."""
    from traceanalyzer.metrics import metrics

    return [(name, metric.summary) for name, metric in metrics().items()]


def rule_names() -> list[tuple[str, str]]:
    """Return every built-in rule with its title."""
    from traceanalyzer.rules.rule_set.loading import load_rules

    return [(rule.id, rule.title) for rule in load_rules(tests=False)]


def cause_names() -> list[tuple[str, str]]:
    """Return every cause that `whatif --remove` takes, with its meaning."""
    from traceanalyzer.attribution.columns import CAUSES
    from traceanalyzer.text.words import bucket_words

    return [("host", "all causes on the host"), ("dev", "all causes on the device")] + [
        (cause, bucket_words(cause)) for cause in sorted(CAUSES)
    ]
