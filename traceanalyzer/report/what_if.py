"""The answer to a what-if question on a terminal, or as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import TextIO

from traceanalyzer.attribution.what_if import Answer, DeviceAnswer, RunAnswer
from traceanalyzer.report.page import Page
from traceanalyzer.report.words import duration, gain, short_names

SCHEMA_VERSION = 1
MOST_DEVICES = 16
NUMBERS = frozenset({1, 2, 3, 4})


def write(answer: Answer, run: str, stream: TextIO) -> None:
    """Write what each device's step takes now and after, what each part saves alone, and where nobody can tell."""
    page = Page(stream)
    page.flow([(run, "bold"), ("  what if ", "dim"), _question(answer)])
    page.blank()
    _write_times(page, answer)
    _write_parts(page, answer)
    _write_open(page, answer)
    for device in answer.devices:
        if device.abstains is not None:
            page.paragraph(device.abstains, label=(f"{_place(answer, device)}: no answer  ", "yellow"))
    if answer.run is not None and answer.run.abstains is not None:
        page.paragraph(answer.run.abstains, label=("the run as a whole: no answer  ", "yellow"))
    if not answer.devices:
        page.paragraph("the run holds no work of a device")
    if any(device.saved_ns is not None for device in answer.devices):
        waits = " Ranks wait for each other in collectives." if answer.run is not None and answer.run.meets else ""
        page.paragraph(
            f"At best: the rest stays as recorded. Parts may overlap or unlock each other.{waits}", style="dim"
        )


def write_json(answer: Answer, run: str, stream: TextIO) -> None:
    """Write the answer as one JSON object."""
    plain_answer = dataclasses.asdict(answer)
    document = {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "change": plain_answer["change"],
        "devices": plain_answer["devices"],
        "run_as_a_whole": plain_answer["run"],
    }
    for device, plain in zip(answer.devices, document["devices"], strict=True):
        plain |= _told(device)
    if answer.run is not None:
        document["run_as_a_whole"] |= _told(answer.run)
    json.dump(document, stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def _told(told: DeviceAnswer | RunAnswer) -> dict[str, float | str | None]:
    return {
        "saved_share": None if told.saved_ns is None else _share(told.saved_ns, told),
        "at_least_share": None if told.at_least_ns is None else _share(told.at_least_ns, told),
        "open_because": told.open_because,
    }


def _question(answer: Answer) -> str:
    parts = []
    if answer.change.removed:
        parts.append(f"{' and '.join(answer.change.removed)} cost nothing")
    parts += [f"{faster.what} kernels ran {faster.factor:g}x as fast" for faster in answer.change.faster]
    return ", ".join(parts) + "?"


def _write_times(page: Page, answer: Answer) -> None:
    devices = [device for device in answer.devices if device.saved_ns is not None]
    if not devices:
        return
    slowest = sorted(devices, key=lambda device: -_per_step(device, device.window_ns))
    rows = [_times(_place(answer, device), device) for device in slowest[:MOST_DEVICES]]
    if answer.run is not None and answer.run.saved_ns is not None:
        rows.append(_times("the run", answer.run))
    per = "a step" if all(device.step_count for device in devices) else "the window"
    page.table((f"{per} takes", "now", "after", "saves up to", "speed-up"), rows, indent=2, right=NUMBERS)
    if len(devices) > MOST_DEVICES:
        page.line((f"  and {len(devices) - MOST_DEVICES} faster ones", "dim"))
    page.blank()


def _times(name: str, told: DeviceAnswer | RunAnswer) -> tuple[str, ...]:
    saved_ns = told.saved_ns or 0
    left_ns = told.window_ns - saved_ns
    return (
        name,
        duration(_per_step(told, told.window_ns)),
        duration(_per_step(told, left_ns)),
        gain(_share(saved_ns, told)),
        f"{told.window_ns / left_ns:.2f}×" if left_ns else "–",
    )


def _write_parts(page: Page, answer: Answer) -> None:
    """Write what each part saves alone, on the run or else its slowest device, and which parts are not there."""
    devices = [device for device in answer.devices if device.saved_ns is not None]
    if not devices:
        return
    told: DeviceAnswer | RunAnswer = max(devices, key=lambda device: _per_step(device, device.window_ns))
    if answer.run is not None and answer.run.saved_ns is not None:
        told = answer.run
    if len(told.parts) > 1:
        rows = [
            (
                part.change,
                duration(_per_step(told, part.saved_ns or 0)),
                gain(_share(part.saved_ns or 0, told)),
            )
            for part in told.parts
        ]
        page.table(("alone", "saves", ""), rows, indent=2, right=frozenset({1, 2}))
        page.blank()
    unseen = [part.change for i, part in enumerate(told.parts) if not any(device.parts[i].seen for device in devices)]
    if unseen:
        page.paragraph(f"not in this run: {', '.join(unseen)}", style="yellow")


def _write_open(page: Page, answer: Answer) -> None:
    """Write by how much the least that is saved falls short of the most, and why, for the run or its slowest device."""
    told: list[DeviceAnswer | RunAnswer] = [device for device in answer.devices if device.open_because is not None]
    if answer.run is not None and answer.run.saved_ns is not None:
        told = [answer.run] if answer.run.open_because is not None else []
    if told:
        widest = max(told, key=lambda one: _share((one.saved_ns or 0) - (one.at_least_ns or 0), one))
        least, most = (gain(_share(saved_ns or 0, widest)) for saved_ns in (widest.at_least_ns, widest.saved_ns))
        page.paragraph(f"{widest.open_because}", label=(f"anything from {least} to {most}  ", "yellow"))


def _place(answer: Answer, device: DeviceAnswer) -> str:
    return f"{short_names([d.trace for d in answer.devices])[device.trace]} device {device.device}"


def _per_step(told: DeviceAnswer | RunAnswer, dur_ns: int) -> float:
    return dur_ns / max(told.step_count, 1)


def _share(dur_ns: int, told: DeviceAnswer | RunAnswer) -> float:
    return dur_ns / told.window_ns if told.window_ns else 0.0
