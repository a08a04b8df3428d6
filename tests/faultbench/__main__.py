"""Runs the fault bench, prints its tables, and fails where a gate is not passed."""

from __future__ import annotations

import os
import sys

from faultbench import table
from faultbench.bench import run_all


def main() -> int:
    """Run everything; returns the exit code."""
    faults, healthy = run_all(os.cpu_count() or 1)
    print("# Fault bench\n")
    print("Written by `make faultbench`; see tests/faultbench/.\n")
    print("\n".join(table.fault_table(faults)), end="\n\n")
    print("\n".join(table.healthy_table(healthy)), end="\n\n")
    print("\n".join(table.scores(faults, healthy)))
    failed = list(table.failures(faults, healthy))
    for text in failed:
        print(f"faultbench: {text}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
