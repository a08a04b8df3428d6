"""The steps of a device: a column each by bucket, or, where there are many, a line with what lies below a pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, line, part, round_scale, words
from traceanalyzer.text.words import bucket_words, duration

HEIGHT = 190
FOOT_PX = 22
LEFT_PX = 64
MOST_COLUMNS = 150
WIDEST_PX = 152
# A step this much longer than the median is named.
SLOW_SHARE = 0.1
MOST_NAMED = 5
# Names of steps that lie closer would run into each other.
NAME_PX = 48


@dataclass(frozen=True)
class StepTime:
    """A step with its time by bucket; `dropped` says why it does not count, empty: it does."""

    step: int
    dur_ns: int
    buckets: Mapping[str, int]
    dropped: str = ""


def step_columns(steps: Sequence[StepTime], says: str, *, width: int = WIDE, alone: bool = False) -> Svg:
    """Return the steps in their order: compute at the bottom, those that do not count pale and with a star."""
    longest = max((step.dur_ns for step in steps), default=0) or 1
    left = LEFT_PX if width == WIDE else 52
    plot = HEIGHT - FOOT_PX - 8
    shapes = _grid(longest, left, width, plot)
    if len(steps) > MOST_COLUMNS:
        shapes += _curve(steps, longest, left, width, plot)
    else:
        shapes += _columns(steps, longest, left, width, plot)
    return drawing(width, HEIGHT, says, shapes, alone=alone)


def _grid(longest: int, left: int, width: int, plot: int) -> list[str]:
    shapes = []
    for value in round_scale(longest):
        y = 8 + plot * (1 - value / longest)
        shapes += [
            line(left, y, width, y),
            words(left - 8, y + 4, axis_words(value), tone="dim", anchor="end", size=12),
        ]
    return shapes


def axis_words(dur_ns: float) -> str:
    """Say a round time on an axis: `40 ms`."""
    return "0" if not dur_ns else duration(dur_ns).replace(".00 ", " ").replace(".0 ", " ")


def _columns(steps: Sequence[StepTime], longest: int, left: int, width: int, plot: int) -> list[str]:
    slot = min((width - left) / len(steps), WIDEST_PX)
    gap = min(10.0, slot / 6)
    every = max(1, -(-len(steps) * 30 // (width - left)))
    shapes = []
    for at, step in enumerate(steps):
        x, y = left + at * slot + gap / 2, 8.0 + plot
        faint = bool(step.dropped)
        known = sum(step.buckets.values())
        rest = {"dev.unresolved": step.dur_ns - known} if step.dur_ns > known else {}
        for bucket, dur_ns in sorted(
            {**step.buckets, **rest}.items(), key=lambda item: (item[0] != "compute", -item[1], item[0])
        ):
            height = dur_ns / longest * plot
            if height < 0.2:
                continue
            y -= height
            title = f"step {step.step}: {bucket_words(bucket)} {duration(dur_ns)} of {duration(step.dur_ns)}"
            title += f", not counted: {step.dropped}" if faint else ""
            shapes.append(part(token_of(bucket), x, y, slot - gap, height, title=title, faint=faint))
        if at % every == 0:
            name = f"{step.step}{'*' if faint else ''}"
            shapes.append(words(x + (slot - gap) / 2, HEIGHT - 5, name, tone="dim", anchor="middle", size=12))
    return shapes


def _curve(steps: Sequence[StepTime], longest: int, left: int, width: int, plot: int) -> list[str]:
    """Draw least and most of the steps of each pixel as a band, and name the slowest steps."""
    pixels = min(width - left, len(steps))
    bands: list[tuple[float, float, float]] = []
    for at in range(pixels):
        inside = steps[at * len(steps) // pixels : max((at + 1) * len(steps) // pixels, at * len(steps) // pixels + 1)]
        times = [step.dur_ns for step in inside]
        x = left + (at + 0.5) * (width - left) / pixels
        bands.append((x, 8 + plot * (1 - min(times) / longest), 8 + plot * (1 - max(times) / longest)))
    upper = " ".join(f"{x:.1f},{top:.1f}" for x, _, top in bands)
    lower = " ".join(f"{x:.1f},{bottom:.1f}" for x, bottom, _ in reversed(bands))
    shapes = [
        f'<polygon class="f-compute" points="{upper} {lower}" fill="#2f6fb7" fill-opacity=".45"/>',
        f'<polyline class="l-frame" points="{upper}" fill="none" stroke="#1f4f86"/>',
    ]
    median = sorted(step.dur_ns for step in steps)[len(steps) // 2]
    slow = sorted(range(len(steps)), key=lambda at: (-steps[at].dur_ns, at))[:MOST_NAMED]
    named: list[float] = []
    for at in slow:
        x = left + (at + 0.5) * (width - left) / len(steps)
        if steps[at].dur_ns > (1 + SLOW_SHARE) * median and all(abs(x - other) >= NAME_PX for other in named):
            named.append(x)
            y = 8 + plot * (1 - steps[at].dur_ns / longest)
            shapes.append(words(min(x + 3, width - 40), max(y - 2, 11), str(steps[at].step), tone="bad", size=11))
    shapes += [words(left, HEIGHT - 5, str(steps[0].step), tone="dim", size=12)]
    shapes += [words(width, HEIGHT - 5, str(steps[-1].step), tone="dim", anchor="end", size=12)]
    return shapes
