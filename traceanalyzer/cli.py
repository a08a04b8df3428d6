"""The command line: all commands, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import codecs
import errno
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import click

from traceanalyzer.commands import COMPLETION_VARIABLE, PROGRAM
from traceanalyzer.commands.output import show_error
from traceanalyzer.errors import EXIT_ERROR, TraceAnalyzerError, suggestion
from traceanalyzer.process import interrupted
from traceanalyzer.text.visible import visible
from traceanalyzer.version import __version__

# What a shell reports for a program that SIGPIPE ended.
EXIT_BROKEN_PIPE = 141
_NO_MEMORY = "not enough memory"
# DuckDB's errors that less work at once, or a larger disk, prevents.
_ERRORS_OF_ROOM = ("OutOfMemoryException", "IOException")
# Said by Python for the stack of a thread, by the system for a library, and by DuckDB.
_SIGNS_OF_NO_MEMORY = ("can't start new thread", "failed to map", "annot allocate memory", "Out of Memory Error")
_REPORT_IT = "this is a bug in traceanalyzer; please report it with the traceback that TRACEANALYZER_TRACEBACK=1 adds"
_MAKE_ROOM = "make room there; --store DIR keeps computed tables on another disk"


# What `--help` shows, by what people want; each command has a module of its name in traceanalyzer.commands.
_SECTIONS = {
    "What limits a run": ("diagnose", "info", "top", "flame", "memory", "whatif", "view"),
    "Two runs": ("diff",),
    "Own questions": ("sql", "metrics", "rules"),
    "Recording and other programs": ("record", "export", "mcp"),
    "Stores": ("store",),
}
# Former names, which work until 0.3, and the commands that they are now.
_FORMER = {"baseline": "export baseline", "config": "rules settings", "ingest": "store ingest", "part": "store part"}
# What people try before options, and what packages of systems call: by their modules.
_ASIDE = dict.fromkeys(("help", "version", "man", "completion"), "help")
_SHOWN = [name for names in _SECTIONS.values() for name in names]
_COMMANDS = {name: name for name in _SHOWN} | {name: words.split()[0] for name, words in _FORMER.items()} | _ASIDE
# Words that people try, with the command that answers.
SYNONYMS = {
    "analyse": "diagnose",
    "analyze": "diagnose",
    "check": "diagnose --fail-on high",
    "compare": "diff",
    "convert": "export",
    "critical-path": "export critical-path",
    "crosscheck": "export critical-path",
    "gaps": "flame --of idle",
    "hta": "export critical-path",
    "idle": "flame --of idle",
    "list": "info",
    "ls": "info",
    "mfu": "info",
    "profile": "record",
    "query": "sql",
    "replay": "export replay",
    "report": "diagnose -o report.html",
    "roofline": "top operators --by headroom",
    "serve": "mcp",
    "show": "info",
    "stacks": "flame",
    "stats": "top kernels",
    "summary": "diagnose --brief",
    "timeline": "view --perfetto",
    "trace": "record",
    **{
        f"{kind}{end}": f"top {kind}s"
        for kind in ("kernel", "operator", "module", "layer", "line", "range")
        for end in ("", "s")
    },
    "annotations": "top ranges",
    "nvtx": "top ranges",
    "nvtx_gpu_proj_sum": "top ranges",
    "nvtx_sum": "top ranges --by host",
    "record_function": "top ranges",
    "collectives": "top collectives",
    "copies": "top copies",
    "ops": "top operators",
}


class Commands(click.Group):
    """All commands; the module of one is read when it is asked for, as reading all would take longer than most do."""

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        """Return the names of the commands that help shows, in its order."""
        return list(_SHOWN)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        """Return the command of a name, a former one too, or None."""
        if cmd_name not in self.commands and cmd_name in _COMMANDS:
            module = import_module(f"traceanalyzer.commands.{_COMMANDS[cmd_name]}")
            command: click.Command = getattr(module, "help_" if cmd_name == "help" else cmd_name)
            _show_whole_summary(command)
            self.add_command(command)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with; raise TraceAnalyzerError with one of a similar name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = suggestion(name, list(_COMMANDS), "`traceanalyzer --help` lists all")
            if name.lower() in SYNONYMS:
                hint = f"`traceanalyzer {SYNONYMS[name.lower()]}` does that"
            if Path(name).exists():
                hint = "to diagnose a run: traceanalyzer diagnose " + shlex.quote(name)
            raise TraceAnalyzerError("no such command", name, hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl([(name, command.short_help or "") for name, command in commands if command])


def _show_whole_summary(command: click.Command) -> None:
    """Let lists of commands show the whole first paragraph of a command; click would cut it to a part of a line."""
    command.short_help = " ".join((command.help or "").split("\n\n")[0].split())
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _show_whole_summary(below)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Show where every microsecond of GPU time went, and what a fix can save.

    RUN is a folder with the traces of one job (PyTorch profiler .json or .json.gz, Nsight Systems .sqlite, in any mix),
    or a single trace, also as a URL: s3://bucket/run42/ (gs, az, https, hdfs). Traces are never changed; computed
    tables are kept in RUN/.traceanalyzer, in the user's cache for a URL, or in --store.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors that a user can cause show no traceback."""
    _prepare_streams()
    if not sys.warnoptions:
        # Warnings are for programmers.
        warnings.simplefilter("ignore")
    try:
        code = _complete() if argv is None else None
        if code is None:
            code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        # Nobody can read a message; the interpreter must not flush again.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # A reader that stopped early (`| head`) is no error.
        return EXIT_BROKEN_PIPE if isinstance(error, BrokenPipeError) else EXIT_ERROR
    return code


def _prepare_streams() -> None:
    """Give each standard stream something to write to, and characters that it can show."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The caller closed it. No file of a trace may take its number, or messages would end up in that file.
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show gets one that is alike, so that the report still appears.
        stream.reconfigure(errors="alike") if hasattr(stream, "reconfigure") else None


_ALIKE = str.maketrans("µ×−–─·…→≥≤“”’›█▒░▓╱²³", 'ux---|~>><""\'>#=.+/23')


def _shown_alike(error: UnicodeError) -> tuple[str, int]:
    """Return one ASCII character for each that cannot be shown, so that columns stay in line."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ALIKE)
    return "".join(sign if sign.isascii() else "?" for sign in text), error.end


codecs.register_error("alike", _shown_alike)


def _complete() -> int | None:
    """Answer a shell that asks for completions; None: it does not."""
    if not (instruction := os.environ.get(COMPLETION_VARIABLE)):
        return None
    from click.shell_completion import shell_complete

    return shell_complete(cli, {}, PROGRAM, COMPLETION_VARIABLE, instruction)


def _run(arguments: list[str]) -> int:
    """Run a command and return its exit code; only a closed pipe is left to the caller."""
    try:
        with cli.make_context(PROGRAM, arguments) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except TraceAnalyzerError as error:
        show_error(error)
        return EXIT_ERROR
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as help_page:
        help_page.show()
        return EXIT_ERROR
    except click.ClickException as error:
        # A shell puts names of files where a pattern stood.
        error.message = visible(error.message)  # type: ignore[misc]
        error.show()
        return EXIT_ERROR
    except (KeyboardInterrupt, click.Abort):
        return interrupted()
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = _MAKE_ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        return _report(f"{error.filename or 'input or output'}: {error.strerror or error}", hint)
    except MemoryError:
        return _report(_NO_MEMORY, _memory_hint(arguments))
    except Exception as error:
        return _unforeseen(error, arguments)
    return 0


def _memory_hint(arguments: Sequence[str]) -> str:
    """Say what takes less memory: one job is the fewest."""
    has_one_job = "--jobs=1" in arguments or ("--jobs", "1") in pairwise(arguments)
    return "use a machine with more memory" if has_one_job else "use fewer --jobs, or a machine with more memory"


def _unforeseen(error: Exception, arguments: Sequence[str]) -> int:
    """Report an error of DuckDB, or an error of this program as internal."""
    words = str(error).strip().splitlines()[0] if str(error).strip() else ""
    if words == "Query interrupted":
        # DuckDB handles Ctrl-C itself while a query runs.
        return interrupted()
    if os.environ.get("TRACEANALYZER_TRACEBACK"):
        raise error
    if any(sign in str(error) for sign in _SIGNS_OF_NO_MEMORY):
        return _report(_NO_MEMORY, _memory_hint(arguments))
    if type(error).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        is_of_room = type(error).__name__ in _ERRORS_OF_ROOM
        hint = f"{_memory_hint(arguments)}; --store DIR can name a larger disk" if is_of_room else _REPORT_IT
        return _report(f"DuckDB gave up: {words}", hint)
    return _report(f"internal error: {type(error).__name__}: {words}", _REPORT_IT)


def _report(what: str, hint: str | None) -> int:
    show_error(TraceAnalyzerError(what, hint=hint))
    return EXIT_ERROR
