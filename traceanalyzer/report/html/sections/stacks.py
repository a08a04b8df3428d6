"""Host stacks as a flame graph, and the frames that take most by themselves as a table."""

from __future__ import annotations

import numpy as np

from traceanalyzer.report.diagnosis_blocks.ledgers import alike, group_place
from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.markup import filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.report.html.stacks import Frames, pruned, read_frames, unfolded
from traceanalyzer.report.html.tables import PageColumn, table_markup
from traceanalyzer.text.words import counted, name_words

MOST_ROWS = 30
# Fewer frames are no graph.
LEAST_FRAMES = 3
_COLUMNS = (
    PageColumn("frame", "name", "name", letters=40),
    PageColumn("by itself, host", "self_ns", "time"),
    PageColumn("on the host", "host_ns", "time"),
    PageColumn("launched work", "device_ns", "time"),
    PageColumn("GPU idle because of it", "idle_ns", "time"),
)


def section(source: PageSource) -> Part | None:
    """Return the stacks around the launches of the slowest device, within its analysis window."""
    if source.connection is None or not source.diagnosis.ledgers:
        return None
    group = alike(source.diagnosis.ledgers)[0]
    trace = next((row for row in source.rows("run_traces") if row["trace"] == group.worst.trace), None)
    frames = None if trace is None else read_frames(source.connection, trace["trace_id"], group.worst.device)
    if frames is None:
        return None
    inner, chain = unfolded(frames)
    shown = pruned(inner)
    if len(shown.parents) < LEAST_FRAMES:
        return None
    words = [name_words(name or "–") for name in frames.name_texts]
    note = "of the threads that launch work, in the analyzed time; equal stacks are put together"
    if len(source.diagnosis.ledgers) > 1:
        note = f"{group_place(group, source.diagnosis.ledgers)}: {note}"
    heaviest = _heaviest(shown, words)
    longest = min(source.limits.name_letters, 512)
    values = {
        "around": (f"{counted(len(chain), 'frame')} around it all", " › ".join(words[name] for name in chain))
        if chain
        else (),
        "says": f"Flame graph of {counted(len(shown.parents), 'frame')}; the table below names the heaviest.",
        "table": table_markup("t-stacks", "Frames that take most by themselves", _COLUMNS, heaviest, longest=longest),
        "weights": [
            label
            for label, total in zip(("host", "device", "idle"), shown.weights.sum(axis=0).tolist(), strict=True)
            if total
        ],
    }
    numbers: list[int] = []
    for parent, name, weights in zip(shown.parents.tolist(), shown.names.tolist(), shown.weights.tolist(), strict=True):
        numbers += [parent, source.names.number(words[name]), *weights]
    return Part("stacks", "Host stacks", filled("stacks.html", values), "Stacks", note, {"stacks": numbers})


def _heaviest(frames: Frames, words: list[str]) -> list[dict[str, object]]:
    """Return the names that take most host time by themselves, wherever they are called from."""
    inside = np.zeros(len(frames.parents), dtype=np.int64)
    has_parent = frames.parents >= 0
    np.add.at(inside, frames.parents[has_parent], frames.weights[has_parent, 0])
    own = np.maximum(frames.weights[:, 0] - inside, 0)
    count = int(frames.names.max()) + 1
    sums = np.zeros((count, 4), dtype=np.int64)
    np.add.at(sums[:, 0], frames.names, own)
    outermost = np.array([not _calls_itself(frames, at) for at in range(len(frames.names))])
    for column in range(3):
        np.add.at(sums[:, column + 1], frames.names[outermost], frames.weights[outermost, column])
    order = sorted(np.flatnonzero(sums[:, 0] > 0).tolist(), key=lambda name: (-int(sums[name, 0]), words[name]))
    keys = ("self_ns", "host_ns", "device_ns", "idle_ns")
    return [{"name": words[name], **dict(zip(keys, sums[name].tolist(), strict=True))} for name in order[:MOST_ROWS]]


def _calls_itself(frames: Frames, at: int) -> bool:
    """Return whether a frame is inside one of the same name, whose times hold its own."""
    above = int(frames.parents[at])
    while above >= 0:
        if frames.names[above] == frames.names[at]:
            return True
        above = int(frames.parents[above])
    return False
