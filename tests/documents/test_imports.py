"""No module imports itself by way of others: not late, within a function, and not for a type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import traceanalyzer

PACKAGE = Path(traceanalyzer.__file__).parent


def modules() -> dict[str, Path]:
    files = PACKAGE.rglob("*.py")
    return {
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


def imports(node: ast.AST) -> Iterator[str]:
    """Yield the names that a module imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imports(child)


@pytest.mark.check
def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, file in known.items():
        names = set(imports(ast.parse(file.read_text(encoding="utf-8"))))
        graph[module] = {name if name in known else name.rpartition(".")[0] for name in names} & known.keys() - {module}
    assert len([*TopologicalSorter(graph).static_order()]) == len(known)
