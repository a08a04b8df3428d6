"""Nothing in the package is there for nobody: every name is used in it, and every bucket has words."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import traceanalyzer
import tracesim
from traceanalyzer.report.charts import svg
from traceanalyzer.text.words import BUCKETS

PACKAGE = Path(traceanalyzer.__file__).parent
SIMULATOR = Path(tracesim.__file__).parent
# Called by name: actions of a workload, hooks of notebooks and of click, and methods of the standard library that are
# replaced.
BY_NAME = re.compile(
    r"__\w+__|play_\w+|_repr_\w+_|do_[A-Z]+|handle_starttag|log_message|seekable|find_class|persistent_load|on_broken_pipe|emit|format_(commands|options)"
)
# For users' own code.
FOR_USERS = {"to_json", "to_markdown", "recommended_profile"}
# The truth of the simulator and a change of scale, which only tests compare with.
FOR_TESTS = {"true_ledger", "true_saving_share", "scaled"}


@pytest.mark.check
def test_every_name_is_used_somewhere_in_the_package() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    used = {name for tree in trees.values() for name in uses(tree)}
    # The simulator ships beside the package, with what runs and checks rules for their authors.
    beside = (ast.parse(path.read_text(encoding="utf-8")) for path in SIMULATOR.rglob("*.py"))
    used |= {name for tree in beside for name in uses(tree)}
    pages = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*") if path.suffix in (".html", ".js"))
    used |= {word for text in pages for word in re.findall(r"\w+", text)}
    unused = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, tree in trees.items()
        for name in definitions(tree)
        if name not in used | FOR_USERS | FOR_TESTS and not BY_NAME.fullmatch(name)
    ]
    assert unused == []


@pytest.mark.check
def test_a_class_name_means_one_thing() -> None:
    classes = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_each_bucket_has_a_colour_and_words_of_its_own() -> None:
    assert {bucket.fill for bucket in BUCKETS} <= set(svg.FILLS)
    assert len({bucket.words for bucket in BUCKETS}) == len({bucket.name for bucket in BUCKETS}) == len(BUCKETS)


def test_a_name_that_only_its_definition_holds_is_found() -> None:
    tree = ast.parse(
        "LOST = 1\nKEPT = 2\ndef lost(): return KEPT\nclass Kept:\n  'lost'\n  def lost_method(self): ...\nKept()"
    )
    assert [name for name in definitions(tree) if name not in set(uses(tree))] == ["LOST", "lost", "lost_method"]


def definitions(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's functions, classes, methods and constants; decorators may hand functions on."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name, decorator_list=[]):
                yield name
            case ast.ClassDef(name=name, body=body):
                yield name
                yield from (item.name for item in body if isinstance(item, ast.FunctionDef))
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def uses(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module reads, also in short texts, as getattr and tables of modules need them.

    A docstring uses nothing.
    """
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(text)) if len(text) < 200 and id(node) not in documents:
                yield from re.findall(r"\w+", text)
