"""The package stays one that can be looked over: no circles of imports, few modules, and few of them for a diagnosis.

No module and no package imports itself by way of others: not late, in a function, and not for a type.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pages.import_graph import PACKAGE, ROOT, in_order, module_graph, package_graph

MOST_MODULES = 300
MOST_ENTERED = 110
# A file is entered where one of its functions is called; the bodies of modules and classes are no functions.
_COUNTED = """
import runpy, sys, threading
from inspect import CO_OPTIMIZED
package, sys.argv = sys.argv[1], ["traceanalyzer", "diagnose", *sys.argv[2:]]
entered = set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(package):
        entered.add(code.co_filename)
threading.setprofile(note)
sys.setprofile(note)
try:
    runpy.run_module("traceanalyzer", run_name="__main__")
finally:
    sys.setprofile(None)
    print(*sorted(entered), sep="\\n", file=sys.stderr)
"""


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = module_graph()
    assert len(in_order(graph)) == len(graph)


def test_no_package_imports_itself_by_way_of_others() -> None:
    graph = package_graph()
    assert len(in_order(graph)) == len(graph)
    assert graph["text"] <= {"errors"}


def test_the_package_has_few_modules() -> None:
    assert len(module_graph()) <= MOST_MODULES


@pytest.mark.check
def test_a_small_diagnosis_enters_few_files(tmp_path: Path) -> None:
    run = str(ROOT / "sample_traces" / "slow_loader")
    # The first diagnosis of a version reads rules and makes the empty database, which are kept.
    for store in ("first", "cold"):
        command = [sys.executable, "-c", _COUNTED, str(PACKAGE), run, "--store", str(tmp_path / store)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    entered = [line for line in done.stderr.splitlines() if line.startswith(str(PACKAGE))]
    assert 50 < len(entered) <= MOST_ENTERED, "\n".join(entered)
