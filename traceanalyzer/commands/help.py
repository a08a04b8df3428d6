"""`traceanalyzer help` and `traceanalyzer version`: the words that people try before options."""

from __future__ import annotations

import click

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
        from traceanalyzer.ingest.trace_events.native import READERS, reader_in_use

        click.echo(f"reader of JSON traces: {READERS[reader_in_use()]}")
