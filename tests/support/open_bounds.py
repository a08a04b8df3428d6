"""Bounds that a trace leaves open: the least and the most beside the truth, and how both are told."""

from __future__ import annotations

import io
import json

from bound_against_truth import Attributed

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import WhatIf
from traceanalyzer.attribution.replay.what_if import Change, what_if
from traceanalyzer.report import formats
from traceanalyzer.report.screens import what_if as report


def least_most_truth(made: Attributed, change: Change) -> tuple[float, float, float]:
    """Return the least and the most that a change saves, and what it does, as shares of the window."""
    (device,) = what_if(made.con, change).devices
    scale = {"compute": 1 / change.faster[0].factor} if change.faster else None
    first, last = made.steps
    truth = made.run.true_saving(*change.removed, kernel_scale=scale, first_step=first, last_step=last)
    assert device.at_least_ns is not None
    assert device.saved_ns is not None
    return device.at_least_ns / made.window_ns, device.saved_ns / made.window_ns, truth / made.window_ns


def check_told(made: Attributed, change: Change, doubt: str) -> None:
    """Hold the page and the JSON to what leaves a change open."""
    answer = what_if(made.con, change)
    page, document = io.StringIO(), io.StringIO()
    formats.render(report.sections(answer, "run"), "terminal", page)
    report.write_json(answer, "run", document)
    screen = " ".join(page.getvalue().split())
    assert "anything from " in screen
    assert doubt in screen
    (device,) = json.loads(document.getvalue())["devices"]
    assert device["open_because"] == doubt
    assert device["at_least_share"] < device["saved_share"]


def check_many_at_once(bounds: Bounds) -> None:
    """Hold the answers to many questions at once to those one by one."""
    causes = sorted(bounds.causes(0, 0))
    assert len(causes) > 3
    scenarios = [WhatIf(frozenset({cause})) for cause in causes]
    assert bounds.bounds(0, 0, scenarios) == [bounds.bounds(0, 0, [scenario])[0] for scenario in scenarios]
