"""Which packages of traceanalyzer import which others: late imports, in functions, and those for types count, too."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "traceanalyzer"


@cache
def module_graph() -> dict[str, set[str]]:
    """Return the modules that each module of the package imports."""
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in PACKAGE.rglob("*.py")
    }
    graph = {}
    for module, file in files.items():
        names = set(_imports(ast.parse(file.read_text(encoding="utf-8"))))
        graph[module] = {name if name in files else name.rpartition(".")[0] for name in names} & files.keys() - {module}
    return graph


def package_graph() -> dict[str, set[str]]:
    """Return what each package, and each module beside the packages, imports of the others."""
    graph: dict[str, set[str]] = defaultdict(set)
    for module, imported in module_graph().items():
        graph[_package(module)] |= {_package(other) for other in imported} - {_package(module), PACKAGE.name}
    graph.pop(PACKAGE.name)
    return dict(graph)


def in_order(graph: Mapping[str, set[str]]) -> list[str]:
    """Return names, each behind all that it imports; raises graphlib.CycleError where there is a circle."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    order = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)
