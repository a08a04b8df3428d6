"""Findings that rest on what the trace does not tell: batches that a loader's workers would have to have ready earlier,
and streams that wait for others, one does not know which for which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.attribution.doubts import DOUBTS, LOADER_WORKERS
from traceanalyzer.rules.bounds import RememberedScan
from traceanalyzer.rules.fix_order import Candidate
from traceanalyzer.rules.model import CONFIDENCES, FINDING, FIRED
from traceanalyzer.rules.ordering import Field
from traceanalyzer.rules.places import Place
from traceanalyzer.rules.together import Together
from traceanalyzer.rules.verdicts import Verdict

if TYPE_CHECKING:
    from traceanalyzer.attribution import Bounds

# A saving of which less than this share is sure rests on the rest.
_SURE_SHARE = 0.5


def with_least(field: Field, bounds: Bounds, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts, those that may save noticeably less with what is sure, and trusted less where that is little.

    Workers of whom no batch was ever waited for are taken to keep up.
    """
    doubts = [doubt for doubt in DOUBTS if doubt != LOADER_WORKERS or bounds.waits_for_workers]
    fields = {
        doubt: replace(field, scan=RememberedScan(least), together=None if field.together is None else Together(least))
        for doubt, least in bounds.with_doubts(doubts).items()
    }
    if not fields:
        return list(verdicts)
    of_rule: dict[tuple[Place, str], list[Verdict]] = {}
    for verdict in verdicts:
        if _has_saving(field, verdict):
            of_rule.setdefault((field.place_of(verdict), verdict.rule.id), []).append(verdict)
    sure: dict[int, tuple[float, str, bool]] = {}
    for (place, _), own in of_rule.items():
        removals = Candidate(tuple(own), 0).removals
        most_ns = left_ns = field.worth(place)(removals)
        falls = {}
        for doubt, at_least in fields.items():
            least_ns = min(left_ns, at_least.worth(place)(removals))
            falls[doubt], left_ns = left_ns - least_ns, least_ns
        is_little = left_ns < _SURE_SHARE * most_ns
        if is_little or most_ns - left_ns >= field.min_impact_share * field.window_ns(place):
            told = left_ns / field.window_ns(place), max(falls, key=falls.__getitem__), is_little
            sure |= {id(verdict): told for verdict in own}
    return [_told(field, item, *sure[id(item)]) if id(item) in sure else item for item in verdicts]


def _has_saving(field: Field, verdict: Verdict) -> bool:
    is_told = verdict.state == FIRED and verdict.rule.kind == FINDING and verdict.bound_ns is not None
    return is_told and (field.together is not None or verdict.place.device is not None)


def _told(field: Field, verdict: Verdict, sure_share: float, doubt: str, is_little: bool) -> Verdict:
    told = replace(verdict, sure_share=sure_share, doubt=doubt)
    if not is_little:
        return told
    most = "medium" if sure_share >= field.min_impact_share else "low"
    level = min(CONFIDENCES.index(verdict.confidence), CONFIDENCES.index(most))
    return replace(told, confidence=CONFIDENCES[level])
