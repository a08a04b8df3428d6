"""What the coordinator of a run of thousands of ranks takes, without any trace: reduced ranks from one template.

    python tests/benchmarks/bench_cards.py [--ranks 1024 4096 16384] [--calls 2400]

Each rank has so many collectives, 24 of 25 within a group of eight and one with the same ranks of all groups; each size
is a process of its own. A wave is four what-ifs that change something on every rank. What ranks send is made of one
template with different waits, and their second pass says that all leads are right: reduced rank itself is timed by
bench_scale.py, and compared with the scan of all events by tests/bounds/test_reduced_run.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from processes import machine, own_peak_mb

from traceanalyzer.attribution.columns import Ints
from traceanalyzer.attribution.replay.all_ranks import ReducedRun
from traceanalyzer.attribution.replay.device_bounds import RankScans, ScanQuery
from traceanalyzer.attribution.replay.scan import WhatIf
from traceanalyzer.attribution.replay.sync_points import PREDECESSORS, Arrived, RankCalls, ReducedCalls, SyncPoints

GROUP = 8
OF_ALL_EVERY = 25
SCENARIOS = 4
MOST_MB = {4_096: 2_048}
MOST_WAVE_S = {4_096: 60}
MOST_KB_A_RANK = 100
LEAD_NS = 40_000


def calls_of(rank: int, ranks: int, count: int, wait_ns: Ints) -> RankCalls:
    """Return the collectives of one rank: each match has a number of its own for each group."""
    at = np.arange(count)
    of_all = at % OF_ALL_EVERY == OF_ALL_EVERY - 1
    groups = ranks // GROUP + GROUP
    group = np.where(of_all, ranks // GROUP + rank % GROUP, rank // GROUP)
    dur_ns = np.full(count, 60_000)
    return RankCalls(at * 20, at * groups + group, wait_ns, dur_ns + wait_ns, at * 1_000_000, np.zeros(count, np.bool_))


class TemplateScans(RankScans):
    """Ranks that all have the same reduced rank, and arrive as it says."""

    def __init__(self, count: int) -> None:
        row, draw = np.arange(count)[:, None, None], np.random.default_rng(1)
        before = row - 1 - np.arange(PREDECESSORS)[None, :, None]
        slack = np.cumsum(draw.integers(0, LEAD_NS, (count, PREDECESSORS, 1)), axis=1)
        limit = np.cumsum(draw.integers(0, LEAD_NS, (count, 1)), axis=0)
        self.one = ReducedCalls(limit, before.astype(np.int32), slack, np.zeros((count, 1), np.int64))

    def reduce_scans(self, queries: Sequence[ScanQuery]) -> Iterator[ReducedCalls]:
        """Return the template for each rank."""
        for item in queries:
            yield ReducedCalls(*(np.repeat(array, len(item.what_ifs), axis=-1) for array in self.one.arrays))

    def arrivals(self, queries: Sequence[ScanQuery], leads: Sequence[Ints]) -> Iterator[Arrived]:
        """Return how each rank arrives, as its reduced rank has it."""
        one = self.one
        for left in leads:
            begun = np.repeat(one.limit_ns, left.shape[1], axis=1)
            padded = np.concatenate([left, np.full((PREDECESSORS, left.shape[1]), 1 << 60)])
            for nth in range(PREDECESSORS):
                np.minimum(begun, padded[one.before[:, nth, 0]] + one.slack_ns[:, nth], out=begun)
            yield Arrived(begun, np.full(begun.shape, -1, np.int32))


def sent_kb(calls: RankCalls, arrivals: ReducedCalls) -> float:
    """Return what a rank sends for its meetings and one what-if, as Parquet."""
    columns = {name: getattr(calls, name) for name in RankCalls.__struct_fields__}
    columns |= {f"of_{at}": array.reshape(len(array), -1)[:, :1].ravel() for at, array in enumerate(arrivals.arrays)}
    packed = [name for name, values in columns.items() if values.dtype != np.bool_]
    stream = pa.BufferOutputStream()
    pq.write_table(
        pa.table(columns),
        stream,
        compression="zstd",
        use_dictionary=False,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    )
    return len(stream.getvalue()) / 1000


def measure(ranks: int, count: int) -> dict[str, float]:
    """Return the seconds of ordering all meetings and of a wave of what-ifs, and the peak."""
    before_mb = own_peak_mb()
    draw = np.random.default_rng(0)
    waits = draw.integers(0, 50_000, (ranks, count))
    late = draw.integers(0, GROUP, (ranks // GROUP, count)) + np.arange(0, ranks, GROUP)[:, None]
    np.put_along_axis(waits, late, 0, axis=0)
    calls = [calls_of(rank, ranks, count, waits[rank].copy()) for rank in range(ranks)]
    del waits, late
    started = time.process_time()
    sizes = Counter(np.concatenate([own.match for own in calls]).tolist())
    scans = TemplateScans(count)
    run = ReducedRun(SyncPoints.of_calls(calls, sizes), scans)
    ordered_s = time.process_time() - started
    started = time.process_time()
    queries = [[WhatIf(frozenset({f"cause {number}"}))] * ranks for number in range(SCENARIOS)]
    ends = np.concatenate([run.sync_points.first[:-1], run.sync_points.first[1:] - 1])
    found = run.shifts(queries, ends)
    assert run.sync_points.count == ranks * count
    assert not found.off_ns.any()
    return {
        "ordered_s": ordered_s,
        "wave_s": time.process_time() - started,
        "before_mb": before_mb,
        "peak_mb": own_peak_mb(),
        "sent_kb": sent_kb(calls[0], scans.one),
    }


def main() -> None:
    """Print the table and its bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1_024, 4_096, 16_384])
    parser.add_argument("--calls", type=int, default=2_400)
    parser.add_argument("--most-calls", type=int, default=10_000_000, help="of all ranks; larger runs have fewer each")
    parser.add_argument("--measure", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    print(f"Coordinator of reduced ranks, {SCENARIOS} what-ifs a wave ({machine()})\n")
    print(
        "| ranks | calls a rank | order s | wave s | peak MB | KB a rank, one what-if |\n"
        "|---:|---:|---:|---:|---:|---:|"
    )
    found: dict[int, dict[str, float]] = {}
    for ranks in options.ranks:
        count = min(options.calls, options.most_calls // ranks)
        command = [sys.executable, __file__, "--measure", str(ranks), str(count)]
        found[ranks] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        of = found[ranks]
        print(
            f"| {ranks:,} | {count:,} | {of['ordered_s']:.1f} | {of['wave_s']:.1f} | {of['peak_mb']:,.0f} "
            f"| {of['sent_kb']:.0f} |",
            flush=True,
        )
    print("\n| what | bar | value |\n|---|---:|---:|")
    for ranks, most in MOST_MB.items():
        if ranks in found:
            print(f"| coordinator at {ranks:,} ranks, MB | {most:,} | {found[ranks]['peak_mb']:,.0f} |")
            print(f"| a wave of {SCENARIOS} there, CPU s | {MOST_WAVE_S[ranks]} | {found[ranks]['wave_s']:.1f} |")
            print(f"| sent by a rank there, KB | {MOST_KB_A_RANK} | {found[ranks]['sent_kb']:.0f} |")


if __name__ == "__main__":
    main()
