"""The worked example of the replay in docs/attribution.md: its drawing and its numbers are those of the code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from drawn_timeline import US, Drawn, rows

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.kernel import replay_alone
from traceanalyzer.attribution.replay.scan import WhatIf

DOCUMENT = Path(__file__).parents[2] / "docs" / "attribution.md"
SLICES = """
id thread category   name                   start end
1  0      runtime    cudaLaunchKernel       0     6
2  0      runtime    cudaLaunchKernel       8     14
3  0      annotation enumerate(DataLoader)#next 14 74
4  0      runtime    cudaMemcpyAsync        74    80
5  0      runtime    cudaStreamWaitEvent    80    82
6  0      runtime    cudaLaunchKernel       82    88
7  0      runtime    cudaLaunchKernel       90    96
8  0      runtime    cudaDeviceSynchronize  96    150
9  0      runtime    cudaLaunchKernel       154   160
"""
OPS = """
id stream kind   start end launch
11 7      kernel 8     30  1
12 7      kernel 31    50  2
13 20     h2d    82    100 4
14 7      kernel 101   121 6
15 7      kernel 122   146 7
16 7      kernel 162   180 9
"""
SYNCS = """
call stream wait_on_stream wait_on_call
5    7      20             5
"""
NAMES = {1: "A", 2: "B", 3: "data loader", 4: "C", 5: "w", 6: "D", 7: "E", 8: "cudaDeviceSynchronize", 9: "F"}
CAUSES = ("host.dataloader", "dev.h2d", "host.sync")
US_A_CHARACTER = 2


def drawing() -> str:
    """Draw the host thread and the streams, one line each."""
    lines = {"host": [(NAMES[row["id"]], row["start"], row["end"]) for row in rows(SLICES)]}
    for row in rows(OPS):
        lines.setdefault(f"stream {row['stream']}", []).append((NAMES[row["launch"]], row["start"], row["end"]))
    return "\n".join(f"{line:<10}{_bars(bars)}" for line, bars in lines.items())


def _bars(bars: list[tuple[str, int, int]]) -> str:
    text = ""
    for name, start, end in bars:
        width = end // US_A_CHARACTER - start // US_A_CHARACTER
        text = text.ljust(start // US_A_CHARACTER) + (f"[{name:-^{width - 2}}]" if width > 2 else name[:width])
    return text


def leads_us() -> list[list[str]]:
    """Return for each event, and last for the window, its name and its shift without each cause."""
    bounds = Bounds.load(Drawn.of(SLICES, OPS, SYNCS).con)
    scan = bounds.devices[0, 0].scan
    launched = {row["id"]: NAMES[row["launch"]] for row in rows(OPS)}
    name_of = {position: launched[op] for position, op in enumerate(scan.op_id.tolist()) if scan.events.is_op[position]}
    changes = [scan.changes(WhatIf(frozenset({cause}))) for cause in CAUSES]
    ends = np.stack([replay_alone(scan.events, of_one) for of_one in changes], axis=1) // US
    events = [
        [name_of.get(at, "return of `cudaDeviceSynchronize`"), *map(str, shifts)]
        for at, shifts in enumerate(ends.tolist())
    ]
    saved = [bounds.bound(0, 0, frozenset({cause})) // US for cause in CAUSES]
    return [*events, ["**the window**", *(f"**{us}**" for us in saved)]]


def written_rows() -> list[list[str]]:
    """Return the cells of the document's table, its header left out."""
    table = DOCUMENT.read_text().split("| event |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_drawing_is_that_of_the_example() -> None:
    assert f"```\n{drawing()}\n```" in DOCUMENT.read_text()


def test_the_leads_are_those_that_the_scan_computes() -> None:
    assert [[name, *shifts] for name, *shifts, _ in written_rows()] == leads_us()


def test_savings_of_two_fixes_are_those_of_one_scan_with_both() -> None:
    bounds = Bounds.load(Drawn.of(SLICES, OPS, SYNCS).con)
    text = " ".join(DOCUMENT.read_text().split())
    for named, other in (("copy", "dev.h2d"), ("synchronization", "host.sync")):
        saved_us = bounds.bound(0, 0, frozenset({"host.dataloader", other})) // US
        assert f"data loader and {named} together save {saved_us} µs" in text
