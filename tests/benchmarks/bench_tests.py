"""What each suite of tests costs, in CPU seconds, so that growth is seen.

    python tests/benchmarks/bench_tests.py [--tier loop|check] [-n 2]

A suite is the tests of one subject: a folder of tests/. Its seconds are those of the user
and the system, in the tests' process and in those that they start and wait for; reading the modules counts apart.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import machine

ROOT = Path(__file__).resolve().parents[2]


def suite_costs(report: Path) -> tuple[Counter[str], dict[str, float]]:
    """Return the tests and the CPU seconds of each suite, by a JUnit report."""
    tests: Counter[str] = Counter()
    cpu_s: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):
        suite = case.attrib["classname"].split(".")[-2]
        tests[suite] += 1
        for noted in case.iterfind("properties/property[@name='cpu_s']"):
            cpu_s[suite] = cpu_s.get(suite, 0) + float(noted.attrib["value"])
    return tests, cpu_s


def main() -> int:
    """Run a tier and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", choices=("loop", "check"), default="loop")
    parser.add_argument("-n", default="2", help="processes that run tests")
    options = parser.parse_args()
    about = machine()
    chosen = ["-m", "not check"] if options.tier == "loop" else []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", options.n, "--dist", "worksteal", f"--junitxml={report}"]
        before = os.times()
        done = subprocess.run(
            [*command, *chosen], cwd=ROOT, env={**os.environ, "TRACEANALYZER_TIER": options.tier}, stdout=sys.stderr
        )
        after = os.times()
        tests, cpu_s = suite_costs(report)
    whole_s = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"`make {'test' if options.tier == 'loop' else 'check'}`'s tests ({about}, `-n {options.n}`)\n")
    print("| suite | tests | CPU s |\n|---|---:|---:|")
    for suite, seconds in sorted(cpu_s.items(), key=lambda cost: -cost[1]):
        print(f"| {suite} | {tests[suite]} | {seconds:.1f} |")
    print(f"| reading and collecting | | {whole_s - sum(cpu_s.values()):.1f} |")
    print(f"| all, {after.elapsed - before.elapsed:.0f} s on the clock | {tests.total()} | {whole_s:.1f} |")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
