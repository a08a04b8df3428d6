"""The answer to a what-if question on a terminal, or as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import TextIO

from traceanalyzer.attribution.what_if import Answer, DeviceAnswer
from traceanalyzer.report.page import Page
from traceanalyzer.report.words import duration, percent, short_names

SCHEMA_VERSION = 1
MOST_DEVICES = 16
NUMBERS = frozenset({1, 2, 3, 4})


def write(answer: Answer, run: str, stream: TextIO) -> None:
    """Write what each device's step takes now and after, what each part saves alone, and where nobody can tell."""
    page = Page(stream)
    page.flow([(run, "bold"), ("  what if ", "dim"), _question(answer)])
    page.blank()
    told = [device for device in answer.devices if device.saved_ns is not None]
    _write_devices(page, told)
    _write_parts(page, told)
    for device in answer.devices:
        if device.abstains is not None:
            page.paragraph(device.abstains, label=(f"{_place(answer, device)}: no answer  ", "yellow"))
    if not answer.devices:
        page.paragraph("the run holds no work of a device")
    if told:
        page.paragraph("At best: the rest stays as recorded. Parts may overlap or unlock each other.", style="dim")


def write_json(answer: Answer, run: str, stream: TextIO) -> None:
    """Write the answer as one JSON object."""
    document = {"schema_version": SCHEMA_VERSION, "run": run, **dataclasses.asdict(answer)}
    for device, plain in zip(answer.devices, document["devices"], strict=True):
        plain["saved_share"] = None if device.saved_ns is None else _share(device.saved_ns, device)
    json.dump(document, stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def _question(answer: Answer) -> str:
    parts = []
    if answer.change.removed:
        parts.append(f"{' and '.join(answer.change.removed)} cost nothing")
    parts += [f"{faster.what} kernels ran {faster.factor:g}x as fast" for faster in answer.change.faster]
    return ", ".join(parts) + "?"


def _write_devices(page: Page, devices: list[DeviceAnswer]) -> None:
    if not devices:
        return
    names = short_names([device.trace for device in devices])
    rows = []
    slowest = sorted(devices, key=lambda device: -_per_step(device, device.window_ns))
    for device in slowest[:MOST_DEVICES]:
        saved_ns = device.saved_ns or 0
        left_ns = device.window_ns - saved_ns
        rows.append(
            (
                f"{names[device.trace]} device {device.device}",
                duration(_per_step(device, device.window_ns)),
                duration(_per_step(device, left_ns)),
                f"−{percent(_share(saved_ns, device))}",
                f"{device.window_ns / left_ns:.2f}x" if left_ns else "–",
            )
        )
    per = "a step" if all(device.step_count for device in devices) else "the window"
    page.table((f"{per} takes", "now", "after", "saves up to", "speed-up"), rows, indent=2, right=NUMBERS)
    if len(devices) > MOST_DEVICES:
        page.line((f"  and {len(devices) - MOST_DEVICES} faster ones", "dim"))
    page.blank()


def _write_parts(page: Page, devices: list[DeviceAnswer]) -> None:
    """Write what each part saves alone on the slowest device, and which parts the run does not hold."""
    if not devices:
        return
    slowest = max(devices, key=lambda device: _per_step(device, device.window_ns))
    unseen = [
        part.change for i, part in enumerate(slowest.parts) if not any(device.parts[i].seen for device in devices)
    ]
    if len(slowest.parts) > 1:
        rows = [
            (
                part.change,
                duration(_per_step(slowest, part.saved_ns or 0)),
                f"−{percent(_share(part.saved_ns or 0, slowest))}",
            )
            for part in slowest.parts
        ]
        page.table(("alone", "saves", ""), rows, indent=2, right=frozenset({1, 2}))
        page.blank()
    if unseen:
        page.paragraph(f"not in this run: {', '.join(unseen)}", style="yellow")


def _place(answer: Answer, device: DeviceAnswer) -> str:
    return f"{short_names([d.trace for d in answer.devices])[device.trace]} device {device.device}"


def _per_step(device: DeviceAnswer, dur_ns: int) -> float:
    return dur_ns / max(device.step_count, 1)


def _share(dur_ns: int, device: DeviceAnswer) -> float:
    return dur_ns / device.window_ns if device.window_ns else 0.0
