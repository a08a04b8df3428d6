"""The answer to a what-if question as sections of blocks, or as JSON."""

from __future__ import annotations

import dataclasses
from typing import TextIO

from traceanalyzer.attribution.replay.what_if import Answer, DeviceAnswer, RunAnswer
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text import visible
from traceanalyzer.text.words import duration, gain, percent, short_names

SCHEMA_VERSION = 1
MOST_DEVICES = 16

# A device, or the run as a whole.
Scope = DeviceAnswer | RunAnswer


def sections(answer: Answer, run: str) -> list[Section]:
    """Return the time of each device's step now and after, what each part saves alone, and what is not known."""
    blocks = [*_open(answer), *_abstentions(answer), *_roof(answer)]
    if not answer.devices:
        blocks.append(Paragraph("the run holds no GPU work"))
    if any(device.saved_ns is not None for device in answer.devices):
        waits = " Ranks wait for each other in collectives." if answer.run is not None and answer.run.meets else ""
        words = f"At best: the rest stays as recorded. Parts may overlap or unlock each other.{waits}"
        blocks.append(Paragraph(words, role="dim"))
    return [
        Section((Heading(run, (Text(f"what if {_question(answer)}"),)),)),
        *_times(answer),
        *_parts(answer),
        Section(tuple(blocks)),
    ]


def write_json(answer: Answer, run: str, stream: TextIO) -> None:
    plain_answer = dataclasses.asdict(answer)
    document = {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "change": plain_answer["change"],
        "devices": plain_answer["devices"],
        "run_as_a_whole": plain_answer["run"],
    }
    for device, plain in zip(answer.devices, document["devices"], strict=True):
        plain |= _shares(device)
    if answer.run is not None:
        document["run_as_a_whole"] |= _shares(answer.run)
    visible.write_json(document, stream)


def _shares(scope: Scope) -> dict[str, float | str | None]:
    return {
        "saved_share": None if scope.saved_ns is None else _share(scope.saved_ns, scope),
        "at_least_share": None if scope.at_least_ns is None else _share(scope.at_least_ns, scope),
        "open_because": scope.open_because,
    }


def _question(answer: Answer) -> str:
    parts = []
    if answer.change.removed:
        parts.append(f"{' and '.join(answer.change.removed)} cost nothing")
    parts += [f"{faster.what} kernels ran {faster.factor:g}x as fast" for faster in answer.change.faster]
    parts += ["each operator took its floor"] if answer.change.at_roof else []
    return ", ".join(parts) + "?"


def _times(answer: Answer) -> list[Section]:
    devices = [device for device in answer.devices if device.saved_ns is not None]
    if not devices:
        return []
    slowest = sorted(devices, key=lambda device: -_per_step(device, device.window_ns))
    rows = [_times_row(_device_words(answer, device), device) for device in slowest[:MOST_DEVICES]]
    if answer.run is not None and answer.run.saved_ns is not None:
        rows.append(_times_row("the run", answer.run))
    if len(devices) > MOST_DEVICES:
        rows.append((f"and {len(devices) - MOST_DEVICES} faster ones", "", "", "", ""))
    time = "Step time" if all(device.step_count for device in devices) else "Window"
    columns = ("device", "now", "after", "saves up to", "speed-up")
    table = Table(columns, tuple(rows), right=frozenset({1, 2, 3, 4}))
    return [Section((table,), Heading(f"{time} with the change"))]


def _times_row(name: str, scope: Scope) -> tuple[str, ...]:
    saved_ns = scope.saved_ns or 0
    left_ns = scope.window_ns - saved_ns
    return (
        name,
        duration(_per_step(scope, scope.window_ns)),
        duration(_per_step(scope, left_ns)),
        gain(_share(saved_ns, scope)),
        f"{scope.window_ns / left_ns:.2f}×" if left_ns else "–",
    )


def _parts(answer: Answer) -> list[Section]:
    """Return what each part saves alone, on the run or else its slowest device, and which parts are not there."""
    devices = [device for device in answer.devices if device.saved_ns is not None]
    if not devices:
        return []
    scope: Scope = max(devices, key=lambda device: _per_step(device, device.window_ns))
    if answer.run is not None and answer.run.saved_ns is not None:
        scope = answer.run
    blocks: list[Block] = []
    if len(scope.parts) > 1:
        rows = [
            (part.change, duration(_per_step(scope, part.saved_ns or 0)), gain(_share(part.saved_ns or 0, scope)))
            for part in scope.parts
        ]
        blocks.append(Table(("part", "saves", "share"), tuple(rows), right=frozenset({1, 2})))
    unseen = [part.change for i, part in enumerate(scope.parts) if not any(device.parts[i].seen for device in devices)]
    if unseen:
        blocks.append(Paragraph(f"not in this run: {', '.join(unseen)}", role="caution"))
    return [Section(tuple(blocks), Heading("Each part alone"))] if blocks else []


def _open(answer: Answer) -> list[Block]:
    """Say how far the least saving falls short of the most, and why, for the run or its least certain device."""
    scopes: list[Scope] = [device for device in answer.devices if device.open_because is not None]
    if answer.run is not None and answer.run.saved_ns is not None:
        scopes = [answer.run] if answer.run.open_because is not None else []
    if not scopes:
        return []
    widest = max(scopes, key=lambda scope: _share((scope.saved_ns or 0) - (scope.at_least_ns or 0), scope))
    least, most = (gain(_share(saved_ns or 0, widest)) for saved_ns in (widest.at_least_ns, widest.saved_ns))
    return [Paragraph(f"{widest.open_because}", label=Text(f"anything from {least} to {most}", "caution"))]


def _abstentions(answer: Answer) -> list[Block]:
    """Say for which devices, and whether for the run as a whole, there is no answer and why."""
    reasons = [(_device_words(answer, device), device.abstains) for device in answer.devices]
    reasons += [] if answer.run is None else [("the run as a whole", answer.run.abstains)]
    return [Paragraph(why, label=Text(f"{name}: no answer", "caution")) for name, why in reasons if why is not None]


def _roof(answer: Answer) -> list[Block]:
    """Say how much of the kernel time has a floor on the device where least has, and where floors contradict it."""
    known = [(device, device.roof) for device in answer.devices if device.roof is not None]
    if not known:
        return []
    device, least = min(known, key=lambda item: item[1].known_share)
    where = "" if len(known) == 1 else f" of {_device_words(answer, device)}, the least of all devices,"
    blocks: list[Block] = [
        Paragraph(
            f"{percent(least.known_share)} of the kernel time{where} is in operators with a floor, the least time that "
            "the data sheet's peak rates allow. Real kernels stay above it.",
            role="dim",
        )
    ]
    device, suspect = max(known, key=lambda item: item[1].suspect_share)
    if suspect.suspect_share > 0:
        words = (
            f"{percent(suspect.suspect_share)} of the kernel time of {_device_words(answer, device)} is in operators "
            "that ran faster than their floor. A peak, a type or a clock is not what it seems (operator_floors)."
        )
        blocks.append(Paragraph(words, role="caution"))
    return blocks


def _device_words(answer: Answer, device: DeviceAnswer) -> str:
    return f"{short_names([d.trace for d in answer.devices])[device.trace]} device {device.device}"


def _per_step(scope: Scope, dur_ns: int) -> float:
    return dur_ns / max(scope.step_count, 1)


def _share(dur_ns: int, scope: Scope) -> float:
    return dur_ns / scope.window_ns if scope.window_ns else 0.0
