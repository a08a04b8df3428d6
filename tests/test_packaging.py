"""What is built can be installed: the wheel holds rules and SQL, and what the code imports is declared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

# Import name where it differs from the distribution's.
_DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "adbc_driver_sqlite": "adbc-driver-sqlite",
    "adbc_driver_manager": "adbc-driver-manager",
}
# Packages of an extra, and the one folder that may import each.
_EXTRAS = {("crosscheck", "hta")}


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The project table of pyproject.toml."""
    loaded: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return loaded


def test_every_import_of_the_package_is_a_declared_dependency(root: Path, project: dict[str, Any]) -> None:
    declared = {re.split(r"[<>=\[]", dependency)[0].lower() for dependency in project["dependencies"]}
    undeclared = {
        f"{path.relative_to(root)}: {name}"
        for path in (root / "traceanalyzer").rglob("*.py")
        for name in _imports(path)
        if name not in sys.stdlib_module_names and name != "traceanalyzer"
        if _DISTRIBUTIONS.get(name, name) not in declared and (path.parent.name, name) not in _EXTRAS
    }
    assert undeclared == set()


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_torch_is_pinned_wherever_it_is_named(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    assert extras["torch"] == ["torch==2.13.0"]
    assert "torch==2.13.0" in extras["test"]


def test_start_up_imports_nothing_heavy() -> None:
    heavy = "duckdb", "pyarrow", "pandas", "numpy", "rich", "yaml", "torch"
    code = f"import sys, traceanalyzer.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_make_help_lists_every_target(root: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    told = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert [target for target in targets if f"make {target} " not in told] == []


@pytest.mark.slow
def test_wheel_holds_every_rule_and_every_query(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(root)]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    queries = {str(path.relative_to(root)) for path in (root / "traceanalyzer").rglob("*.sql")}
    rules = {
        f"traceanalyzer/rules/builtin/{path.relative_to(root / 'rules')}" for path in (root / "rules").rglob("*.yaml")
    }
    assert queries | rules | {"traceanalyzer/py.typed"} <= held


def test_reading_a_stored_run_imports_no_pandas(root: Path, tmp_path: Path) -> None:
    command = ["sql", str(root / "sample_traces" / "healthy"), "SELECT 1", "--store", str(tmp_path)]
    code = f"import sys, traceanalyzer.cli as c; c.main({command}); print('pandas' in sys.modules)"
    told = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in "12"]
    assert told[1].stdout.splitlines()[-1] == "False"
