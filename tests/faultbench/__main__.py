"""Runs the fault bench, prints its tables, and fails where a gate is not passed.

python -m faultbench [simulated] [real] [doses] [mixtures] [degraded] [random]; all parts unless some are named.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from faultbench import table
from faultbench.bench import FAULTS, HEALTHY_JOBS, Row, run_fault, run_healthy
from faultbench.degrading import DEGRADED, LOSSES, degrade
from faultbench.doses import DOSES, STRENGTHS, respond
from faultbench.mixtures import COUNT, hold, mixture
from faultbench.random_checks import false_alarms, hold_promises
from faultbench.random_jobs import HEALTHY_COUNT, SICK_COUNT, healthy_job, sick_job

PARTS = ("simulated", "real", "doses", "mixtures", "degraded", "random")


_OF_H2 = """\
H2 is a real trace of the corpus (v100_absolute_ns_2024_04: a V100 that computes 98 % of the time, in short kernels and
with long launch calls). tests/golden/corpus_diagnoses/ holds the findings about it: rules on launches and waits are
silent, and tensor-cores-unused is true of its FP32 products.
"""


def main(parts: Sequence[str]) -> int:
    """Run the parts that are named; returns the exit code."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"faultbench: no part is called {unknown[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    failed: list[str] = []
    print("# Fault bench\n\nWritten by `make faultbench`; what its parts are stands in tests/faultbench/.\n")
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        if "simulated" in parts:
            rows: list[Row] = []
            healthy: list[Row] = []
            _print(table.fault_table(_remembered(pool.map(run_fault, FAULTS), rows)))
            _print(table.healthy_table(_remembered(pool.map(run_healthy, HEALTHY_JOBS), healthy)))
            print(_OF_H2)
            _print(table.scores(rows, healthy))
            _print(table.confidence_table(rows, healthy))
            failed += table.failures(rows, healthy)
        if "real" in parts:
            failed += _real()
        for part, name, run, count in (
            ("doses", f"{len(DOSES)} faults at {len(STRENGTHS)} strengths each", _respond, len(DOSES)),
            ("mixtures", f"{COUNT} random pairs and triples of faults", _hold, COUNT),
            (
                "degraded",
                f"{len(DEGRADED)} faults, each with {len(LOSSES)} things not recorded",
                _degrade,
                len(DEGRADED),
            ),
            ("random", f"{HEALTHY_COUNT} random healthy jobs, held against false alarms", _alarm, HEALTHY_COUNT),
            (
                "random",
                f"{SICK_COUNT} random sick jobs, held against what running them without each cause saves",
                _promise,
                SICK_COUNT,
            ),
        ):
            if part in parts:
                wrong = [text for texts in pool.map(run, range(count)) for text in texts]
                print(f"- {part}: {name}, {len(wrong) or 'none'} wrong", flush=True)
                failed += wrong
    for text in failed:
        print(f"faultbench: {text}", file=sys.stderr)
    return 1 if failed else 0


def _real() -> list[str]:
    """Print the table of real pairs; returns what is wrong with them. Only here is PyTorch needed."""
    from faultbench.real_cpu import all_rows

    rows = list(all_rows())
    _print(table.real_table(rows))
    print(
        "No row is of a real GPU: none was to be had. sample_traces/capture_torch_gpu.py captures pairs where one is.\n"
    )
    return [f"{row.number} {row.name}: {text}" for row in rows for text in (*row.wrong, *row.apart)]


def _respond(index: int) -> list[str]:
    return list(respond(DOSES[index]))


def _hold(index: int) -> list[str]:
    return list(hold(mixture(index)))


def _degrade(index: int) -> list[str]:
    return list(degrade(DEGRADED[index]))


def _alarm(seed: int) -> list[str]:
    return list(false_alarms(healthy_job(seed)))


def _promise(seed: int) -> list[str]:
    return list(hold_promises(sick_job(seed)))


def _remembered(rows: Iterable[Row], into: list[Row]) -> Iterator[Row]:
    """Yield rows as they are done, and keep them."""
    for row in rows:
        into.append(row)
        yield row


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PARTS))
