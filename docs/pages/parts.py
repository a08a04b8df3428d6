"""The generated parts of documents: screens, and tables of commands, buckets and JSON fields."""

from __future__ import annotations

import ast
import io
import json
import os
import shlex
import tempfile
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

from pages.import_graph import in_order, package_graph
from pages.markdown import prose, table

ROOT = Path(__file__).resolve().parent.parent.parent
# What nearly everything imports says nothing of a package.
_EVERYWHERE = {"errors", "schema", "text"}
SCREEN_WIDTH = 100
# As wide as on a pipe, and without colours, whoever runs this.
SCREEN = {"COLUMNS": str(SCREEN_WIDTH), "NO_COLOR": "1"}
_WITH_STORE = ("diagnose", "whatif", "info", "sql", "ingest", "top")


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
    with patch.dict(os.environ, SCREEN), tempfile.TemporaryDirectory() as store, chdir(ROOT):
        os.environ.pop("FORCE_COLOR", None)
        if arguments[0] in _WITH_STORE:
            arguments += ["--store", store]
        with redirect_stdout(printed), redirect_stderr(errors):
            code = run(arguments)
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
    return table(("command", "what it does"), rows)


def buckets_table() -> str:
    """Return every bucket of the time ledger with its words on screens, and whether a fix can remove its time."""
    from traceanalyzer.attribution.columns import BUCKETS, CAUSES
    from traceanalyzer.text.words import bucket_words

    rows = [(f"`{name}`", bucket_words(name), "yes" if name in CAUSES else "no") for name in BUCKETS]
    return table(("bucket", "on screens", "a cause that a fix can remove"), rows)


def packages_table() -> str:
    """Return every package in the order of imports, with the first sentence of what it says of itself."""
    graph = package_graph()
    rows = []
    for name in in_order(graph):
        folder = ROOT / "traceanalyzer" / name
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
        place = f"`traceanalyzer/{name}{'' if folder.is_dir() else '.py'}`"
        rows.append((place, prose(text.split(". ")[0].rstrip(".") + "."), ", ".join(sorted(graph[name] - _EVERYWHERE))))
    return table(("package", "what it is for", "imports"), rows)


def json_tables() -> str:
    """Return the fields of the JSON report, from its schema."""
    schema = json.loads((ROOT / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    parts = []

    def walk(part: dict[str, Any], path: str) -> None:
        rows = [(f"`{name}`", _kind(field), field.get("description", "")) for name, field in part["properties"].items()]
        parts.append(
            f"### {path}\n\n{part['description'][:1].upper()}{part['description'][1:]}.\n\n".replace("..", ".")
        )
        parts.append(table(("field", "type", "meaning"), rows) + "\n")
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


@cache
def worked_example() -> str:
    """Return the screen of docs/comparison.md: baselines of both sides, and what differs between them."""
    from traceanalyzer.cli import main as run

    samples = ROOT / "sample_traces" / "torch_cpu_pairs"
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()) as errors:
        files = []
        for side in ("slow", "fixed"):
            files.append(str(Path(folder) / f"{side}.json"))
            runs = map(str, sorted(samples.glob(f"{side}_*")))
            if run(["export", "baseline", files[-1], *runs, "--store", str(Path(folder) / "store")]):
                raise RuntimeError(errors.getvalue())
        lines = [f"$ traceanalyzer export baseline {side}.json {side}_*/" for side in ("slow", "fixed")]
        lines.append("$ traceanalyzer diff slow.json fixed.json")
        shown = output_of(f"traceanalyzer diff {shlex.join(files)}")
    return "```console\n" + "\n".join(lines) + f"\n{shown}```\n"


_TABLES: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "buckets": buckets_table,
    "packages": packages_table,
    "json": json_tables,
    "worked example": worked_example,
}
