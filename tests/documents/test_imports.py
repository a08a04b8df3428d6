"""No module and no package imports itself by way of others: not late, in a function, and not for a type."""

from __future__ import annotations

from pages.import_graph import in_order, module_graph, package_graph


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = module_graph()
    assert len(in_order(graph)) == len(graph)


def test_no_package_imports_itself_by_way_of_others() -> None:
    graph = package_graph()
    assert len(in_order(graph)) == len(graph)
    assert graph["text"] <= {"errors"}
