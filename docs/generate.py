"""Rewrites the generated parts of README.md and docs/: `python docs/generate.py`; with --check, only compares.

A generated part of a document lies between `<!-- begin NAME -->` and `<!-- end NAME -->`. A NAME of the form
`$ COMMAND` is a screen: the command as a user types it at the repository's root, and what it prints.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

ROOT = Path(__file__).resolve().parent.parent
SCREEN_WIDTH = 100
_PART = re.compile(r"(?P<begin><!-- begin (?P<name>.+?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def main() -> int:
    """Rewrite or compare every document; with --check, return 1 when one differs."""
    check = "--check" in sys.argv[1:]
    stale = [path for path in documents() if renew(path, write=not check)]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'differs from the code; run `make docs`' if check else 'rewritten'}")
    return 1 if check and stale else 0


def documents() -> list[Path]:
    """Return the documents that have generated parts."""
    return [ROOT / "README.md", ROOT / "docs" / "json.md"]


def renew(path: Path, *, write: bool) -> bool:
    """Return whether a document's generated parts differ from what the code says now, and rewrite them if told."""
    old = path.read_text(encoding="utf-8")
    new = _PART.sub(lambda part: part["begin"] + generated(part["name"]) + part["end"], old)
    if write and new != old:
        path.write_text(new, encoding="utf-8")
    return new != old


def generated(name: str) -> str:
    """Return the text of a generated part."""
    if name.startswith("$ "):
        return screen(name[2:])
    return _TABLES[name]()


def screen(command: str) -> str:
    """Return a console block with a command and what it prints, colourless and at a fixed width."""
    return f"```console\n$ {command}\n{output_of(command)}```\n"


def output_of(command: str) -> str:
    """Run a `traceanalyzer` command at the repository's root with a store of its own, and return what it prints."""
    from traceanalyzer.cli import main as run

    program, *arguments = shlex.split(command)
    if program != "traceanalyzer":
        raise ValueError(f"a screen shows this program only, not {program}")
    printed, errors = io.StringIO(), io.StringIO()
    settings = {"COLUMNS": str(SCREEN_WIDTH), "NO_COLOR": "1"}
    with patch.dict(os.environ, settings), tempfile.TemporaryDirectory() as store:
        os.environ.pop("FORCE_COLOR", None)
        if arguments[0] in ("diagnose", "whatif", "info", "sql", "ingest"):
            arguments += ["--store", store]
        before = Path.cwd()
        os.chdir(ROOT)
        try:
            with redirect_stdout(printed), redirect_stderr(errors):
                code = run(arguments)
        finally:
            os.chdir(before)
    if code == 2:
        raise RuntimeError(f"{command}: {errors.getvalue()}")
    return printed.getvalue().replace(store, "STORE")


def commands_table() -> str:
    """Return every command and subcommand with the first line of its help."""
    from traceanalyzer.cli import cli

    rows = []

    def walk(command: click.Command, path: str) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                child = command.get_command(click.Context(command), name)
                if child is not None:
                    walk(child, f"{path} {name}")
            return
        arguments = " ".join(
            f"{'[' if not parameter.required else ''}{(parameter.metavar or parameter.name or '').upper()}"
            f"{'...' if parameter.nargs == -1 else ''}{']' if not parameter.required else ''}"
            for parameter in command.params
            if isinstance(parameter, click.Argument)
        )
        rows.append((f"`{path} {arguments}`".replace(" `", "`"), (command.help or "").split("\n\n")[0]))

    walk(cli, "traceanalyzer")
    return _table(("command", "what it does"), rows)


def metrics_table() -> str:
    """Return every metric with its first sentence."""
    from traceanalyzer.engine import metrics

    return _table(("metric", "what it holds"), [(f"`{name}`", metric.summary) for name, metric in metrics().items()])


def rules_table() -> str:
    """Return every rule with the problem it finds."""
    from traceanalyzer.rules import load_rules

    return _table(("rule", "finds", "about"), [(f"`{r.id}`", r.title, _ABOUT[r.kind]) for r in load_rules()])


_ABOUT = {"finding": "the program", "quality": "the trace", "explanation": "why"}


def json_tables() -> str:
    """Return the fields of the JSON report, from its schema."""
    schema = json.loads((ROOT / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    parts = []

    def walk(part: dict[str, Any], path: str) -> None:
        rows = [(f"`{name}`", _kind(field), field.get("description", "")) for name, field in part["properties"].items()]
        parts.append(
            f"### {path}\n\n{part['description'][:1].upper()}{part['description'][1:]}.\n\n".replace("..", ".")
        )
        parts.append(_table(("field", "type", "meaning"), rows) + "\n")
        for name, field in part["properties"].items():
            inner = field.get("items", field)
            if "properties" in inner:
                walk(inner, f"`{name}`" if path == "The document" else f"{path[:-1]}.{name}`")

    walk(schema, "The document")
    return "".join(parts)


def _kind(field: dict[str, Any]) -> str:
    if "const" in field:
        return f"{field['const']}"
    if "enum" in field:
        return ", ".join(field["enum"])
    kind = field.get("type", "value")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        item, of, inner = _kind(field.get("items", {})).partition(" of ")
        return f"list of {item}s{of}{inner}"
    return str(kind)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n" for line in lines
    )


_TABLES: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "metrics": metrics_table,
    "rules": rules_table,
    "json": json_tables,
}

if __name__ == "__main__":
    sys.exit(main())
