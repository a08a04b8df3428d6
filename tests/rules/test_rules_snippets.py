"""Code of fixes is code, in the names of each vendor: Python parses, shells read it, compilers take C++ and CUDA."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from traceanalyzer.diagnosis import Fix
from traceanalyzer.rules.dialects import CUDA, DIRECTIVES, HIP, XLA, XPU, in_dialect, is_possible
from traceanalyzer.rules.rule_set.loading import load_rules

NAMES = Path(__file__).parents[1] / "support" / "snippet_names.h"
# What compilers say of a name that a snippet leaves to the program.
_UNDECLARED = re.compile(r"[‘'](\w+)[’'] was not declared|identifier \"(\w+)\" is undefined")
_LAUNCH = re.compile(r"<<<.*?>>>", re.DOTALL)
# Libraries that only compilers for devices bring.
_OF_NVCC = re.compile(r"\b(?:thrust|(?:hip)?cub|sycl)::")


def snippets(lang: str, *dialects: str | None, framework: str | None = None) -> dict[str, str]:
    """Return the code of each fix in a language, in the names of each vendor's devices, with its rule."""
    found: dict[str, str] = {}
    for rule in load_rules(tests=False):
        for fix in (fix for fix in rule.fixes if fix.code and fix.lang == lang):
            plain = Fix(fix.text, fix.code, fix.lang, fix.effort)
            for dialect in (dialect for dialect in dialects if is_possible(plain, dialect)):
                found[in_dialect(plain, dialect, framework).code or ""] = rule.id
    return found


def test_code_is_in_a_language_that_is_checked_here() -> None:
    languages = {fix.lang for rule in load_rules(tests=False) for fix in rule.fixes if fix.code}
    assert languages == {"python", "bash", "cpp", "julia"}  # no parser of Julia is among the packages of the tests


def test_python_parses() -> None:
    for code, rule in snippets("python", None, CUDA, HIP, XPU, XLA).items():
        try:
            ast.parse(code)
        except SyntaxError as error:
            pytest.fail(f"{rule}: {error}\n{code}")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell")
def test_a_shell_reads_commands() -> None:
    for code, rule in snippets("bash", None, CUDA, HIP).items():
        read = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
        assert not read.stderr, f"{rule}: {read.stderr}\n{code}"


def test_values_in_braces_are_json() -> None:
    for code, rule in snippets("bash", None, CUDA, HIP).items():
        for word in shlex.split(code, comments=True):
            if word.startswith("{"):
                assert json.loads(word), rule


def compile_all(codes: list[str], command: list[str], opening: str) -> str:
    """Return what a compiler says against snippets, each in a function, once all names are declared."""
    parts = []
    for number, code in enumerate(codes):
        outside, end, inside = f"{code}\n".rpartition("\n}\n") if code.startswith("__global__") else ("", "", code)
        kernels = "".join(f"template <class... T> __global__ void {name}(T...) {{}}\n" for name in _kernels(code))
        parts.append(f"namespace snippet_{number} {{\n{kernels}{outside}{end}\nvoid run() {{\n{inside}\n}}\n}}\n")
    declared: set[str] = set()
    while True:
        names = "".join(f"Any {name};\n" for name in sorted(declared))
        text = f'#include "{NAMES}"\n{opening}{names}{"".join(parts)}'
        said = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        new = {first or second for first, second in _UNDECLARED.findall(said.stderr)} - declared
        if said.returncode == 0 or not new:
            return said.stderr if said.returncode else ""
        declared |= new


def _kernels(code: str) -> list[str]:
    """Return the kernels that a snippet launches and does not define."""
    return sorted({name for name in re.findall(r"(\w+)<<<", code) if f"void {name}(" not in code})


def without_includes(code: str) -> str:
    return re.sub(r"^#include .*\n", "", code, flags=re.MULTILINE)


@pytest.mark.check
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("dialect", [CUDA, HIP])
def test_a_compiler_takes_cpp(dialect: str) -> None:
    codes = [_LAUNCH.sub("", without_includes(code)) for code in snippets("cpp", dialect) if not _OF_NVCC.search(code)]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-fopenmp", "-fmax-errors=0", "-x", "c++", "-"]
    assert compile_all(codes, command, "#define __global__\n#define __device__\n") == ""


@pytest.mark.parametrize("framework", DIRECTIVES)
def test_directives_are_those_of_the_program(framework: str) -> None:
    rules = {rule.id for rule in load_rules(tests=False) for fix in rule.fixes if "OpenMP: " in (fix.code or "")}
    codes = [code for code, rule in snippets("cpp", CUDA, framework=framework).items() if rule in rules]
    lines = [line.strip() for code in codes for line in code.splitlines() if "#pragma" in line]
    assert len(lines) >= 20
    assert [line for line in lines if "OpenMP:" in line] == []
    own = "#pragma omp " if framework == "openmp" else "#pragma acc "
    assert {line for line in lines if not line.startswith(own)} <= {
        "#pragma omp parallel for  // nvcc -Xcompiler -fopenmp"
    }


def test_prefetches_of_hip_keep_its_arguments() -> None:
    prefetches = [code for code, rule in snippets("cpp", HIP).items() if "hipMemPrefetchAsync" in code]
    assert prefetches
    assert all("hipMemPrefetchAsync(data, bytes, device, stream);" in code for code in prefetches)
    assert not any("CUDA" in code or "Location" in code for code in prefetches)


@pytest.mark.check
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_takes_cuda() -> None:
    codes = [without_includes(code) for code in snippets("cpp", None) if "sycl::" not in code]
    flags = ["-std=c++17", "--extended-lambda", "-Xcompiler", "-fopenmp", "-Wno-deprecated-gpu-targets", "-w"]
    assert compile_all(codes, ["nvcc", *flags, "-x", "cu", "-c", "-o", "/dev/null", "-"], "") == ""
