"""The command line: one group, and the one place where errors become words and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import click

from traceanalyzer.commands import crosscheck, diagnose, info, ingest, metrics, rules, sql, whatif
from traceanalyzer.errors import TraceAnalyzerError

EXIT_ERROR = 2
# What a shell reports for a program that a signal ended: 128 + SIGINT, 128 + SIGPIPE.
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="traceanalyzer", message="%(prog)s %(version)s")
def cli() -> None:
    """Tells where every microsecond of GPU time went, and what fixing it can win.

    RUN is a folder with the traces of one job (PyTorch profiler .json or .json.gz, Nsight Systems .sqlite, in any mix),
    or a single trace. Traces are only read; what was computed lies in RUN/.traceanalyzer, or where --store says.
    """


for command in (
    diagnose.diagnose,
    whatif.whatif,
    info.info,
    sql.sql,
    ingest.ingest,
    metrics.metrics,
    rules.rules,
    crosscheck.crosscheck,
):
    cli.add_command(command)


def _tell_whole_sentences(group: click.Group) -> None:
    """Have the lists of commands tell each one's first sentence whole; it would be cut to a part of a line."""
    for command in group.commands.values():
        command.short_help = " ".join((command.help or "").split("\n\n")[0].split())
        if isinstance(command, click.Group):
            _tell_whole_sentences(command)


_tell_whole_sentences(cli)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors that a user can cause never show a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A name with a character that the terminal cannot show costs that character, not the report.
        stream.reconfigure(errors="replace") if hasattr(stream, "reconfigure") else None
    if not sys.warnoptions:
        # Warnings speak to programmers.
        warnings.simplefilter("ignore")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with cli.make_context("traceanalyzer", arguments) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except TraceAnalyzerError as error:
        return _tell(str(error), error.hint)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_ERROR
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader left early (`| head`); nothing is wrong, and the interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        return _tell(f"{error.filename or 'input or output'}: {error.strerror or error}", None)
    except MemoryError:
        return _tell("not enough memory", "use fewer --jobs, or a machine with more memory")
    except Exception as error:
        return _unforeseen(error)
    return 0


def _unforeseen(error: Exception) -> int:
    """Tell what DuckDB raises, and admit what is a mistake of this program."""
    words = str(error).strip().splitlines()[0] if str(error).strip() else ""
    if words == "Query interrupted":
        # DuckDB takes Ctrl-C for itself while a query runs.
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    if os.environ.get("TRACEANALYZER_TRACEBACK"):
        raise error
    if type(error).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return _tell(f"DuckDB gave up: {words}", "fewer --jobs need less memory; --store DIR can name a larger disk")
    hint = "this is a mistake in traceanalyzer; please report it with what TRACEANALYZER_TRACEBACK=1 adds"
    return _tell(f"internal error: {type(error).__name__}: {words}", hint)


def _tell(what: str, hint: str | None) -> int:
    color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    click.echo(click.style("error: ", fg="red", bold=True) + what, err=True, color=color)
    if hint is not None:
        click.echo(click.style("hint: ", fg="cyan", bold=True) + hint, err=True, color=color)
    return EXIT_ERROR
