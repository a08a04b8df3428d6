"""What is built can be installed: the wheel holds rules and SQL, and what the code imports is declared."""

from __future__ import annotations

import ast
import os
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
# Packages of an extra, and the one folder or module that may import each.
_EXTRAS = {
    ("cluster", "dask"),
    ("cluster", "dask_jobqueue"),
    ("cluster", "distributed"),
    ("torch.py", "torch"),
    ("serving", "mcp"),
    ("serving", "mcp_types"),
    ("exports", "xlsxwriter"),
    ("ncu", "ncu_report"),
    ("remote", "fsspec"),
    ("remote", "obstore"),
}


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The project table of pyproject.toml."""
    loaded: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return loaded


@pytest.mark.check
def test_every_import_of_the_package_is_a_declared_dependency(root: Path, project: dict[str, Any]) -> None:
    declared = {re.split(r"[<>=\[]", dependency)[0].lower() for dependency in project["dependencies"]}
    undeclared = {
        f"{path.relative_to(root)}: {name}"
        for path in (root / "traceanalyzer").rglob("*.py")
        for name in _imports(path)
        if name not in sys.stdlib_module_names and name not in {"traceanalyzer", "tracesim"}
        if _DISTRIBUTIONS.get(name, name) not in declared
        and not {(path.parent.name, name), (path.name, name)} & _EXTRAS
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
    extras = dict(project["optional-dependencies"])
    assert extras.pop("torch") == ["torch==2.13.0"]
    assert not [needs for extra in extras.values() for needs in extra if needs.startswith("torch")]


def test_start_up_imports_nothing_heavy() -> None:
    heavy = "duckdb", "pyarrow", "pandas", "numpy", "rich", "yaml", "torch", "scipy"
    code = f"import sys, traceanalyzer.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_make_help_lists_every_target(root: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    told = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert [target for target in targets if f"make {target} " not in told] == []


@pytest.mark.long
@pytest.mark.check
def test_what_is_built_holds_every_rule_and_query_and_runs_where_it_is_installed(root: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    held = set(zipfile.ZipFile(wheel).namelist())
    queries = {str(path.relative_to(root)) for path in (root / "traceanalyzer").rglob("*.sql")}
    rules = {
        f"traceanalyzer/rules/builtin/{path.relative_to(root / 'rules')}" for path in (root / "rules").rglob("*.yaml")
    }
    assert queries | rules | {"traceanalyzer/py.typed"} <= held
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / "bin"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    diagnose = [str(programs / "traceanalyzer"), "diagnose", str(root / "sample_traces" / "slow_loader")]
    for built, options in ((wheel, []), (sdist, ["--force-reinstall", "--no-deps"])):
        subprocess.run([str(programs / "pip"), "install", "--quiet", *options, str(built)], env=environment, check=True)
        command = [*diagnose, "--store", str(tmp_path / built.suffix)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        assert "dataloader-bound" in done.stdout


@pytest.mark.check
def test_reading_a_stored_run_imports_no_pandas(root: Path, tmp_path: Path) -> None:
    command = ["sql", str(root / "sample_traces" / "healthy"), "SELECT 1", "--store", str(tmp_path)]
    code = f"import sys, traceanalyzer.cli as c; c.main({command}); print('pandas' in sys.modules)"
    told = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in "12"]
    assert told[1].stdout.splitlines()[-1] == "False"


def test_the_pinned_lowest_versions_are_the_bounds_of_the_project(root: Path, project: dict[str, Any]) -> None:
    lines = (root / "tests" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    needs = [*project["dependencies"], *project["optional-dependencies"]["stats"]]
    bounds = dict(need.split(">=") for need in needs)
    assert {"click", "duckdb", "msgspec", "numpy", "pandas", "pyarrow", "rich", "scipy"} == set(pinned)
    assert all(f"{pinned[name]}.0".startswith(f"{bounds[name]}.") for name in pinned)


def test_scipy_is_no_dependency_of_the_core(project: dict[str, Any]) -> None:
    assert not [need for need in project["dependencies"] if need.startswith("scipy")]
    (quick,) = (need for need in project["optional-dependencies"]["quick"] if need.startswith("gpu-traceanalyzer["))
    assert "stats" in quick


def test_the_recorder_imports_only_the_standard_library_and_torch(root: Path) -> None:
    imported = _imports(root / "traceanalyzer" / "torch.py") | _imports(root / "traceanalyzer" / "errors.py")
    assert imported - sys.stdlib_module_names <= {"torch", "traceanalyzer"}
    heavy = "click", "duckdb", "msgspec", "numpy", "pandas", "pyarrow", "rich", "yaml"
    stubs = "import sys; from unittest.mock import Mock; sys.modules |= {'torch': Mock(), 'torch.profiler': Mock()}"
    code = f"{stubs}; import traceanalyzer.torch; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
