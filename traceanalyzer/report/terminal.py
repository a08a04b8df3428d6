"""The report on a terminal: verdict, what limits trust, where the time goes, what to fix, what nobody could see."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sized
from pathlib import Path
from typing import TextIO

from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Finding, Outcome, PlannedFix, plan_of_finding
from traceanalyzer.report.findings import SEVERITY_STYLES, write_findings
from traceanalyzer.report.ledger_bar import alike, write_ledgers, write_run_ledger
from traceanalyzer.report.ledger_shares import unexplained_share
from traceanalyzer.report.overrides import write_overrides
from traceanalyzer.report.page import Page, Part
from traceanalyzer.report.verdict import LIMITS_TRUST, judge, quality_findings, step_ns, time_findings
from traceanalyzer.report.words import bucket_words, counted, duration, gain, listed, percent, ranges, short_names

MOST_GROUPS = 4
MOST_UNEXPLAINED = 4
# The name of a reason for programs, ahead of its words.
_WHY = re.compile(r"^[a-z]+(?:-[a-z]+)+: ")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Shares of unexplained time below this are not worth a word.
LEAST_SHARE = 0.005

# Time of the host of which nothing is in the trace; from this share on it is worth a recording.
UNSEEN_HOST = "host.other"
MUCH_UNSEEN_SHARE = 0.05
_SEE_HOST = {
    False: "add ProfilerActivity.CPU to the activities",
    True: "draw NVTX ranges around its parts, and record them with nsys profile --trace=cuda,nvtx,osrt",
}

# The reason of a rule that has nothing to look for in a run.
NOT_APPLICABLE = "not-applicable"


def write(diagnosis: Diagnosis, stream: TextIO, *, verbose: bool = False) -> None:
    """Write the report; a healthy run takes two lines unless everything is asked for."""
    page = Page(stream)
    verdict = judge(diagnosis)
    style = {"healthy": "bold green", "sick": "bold", "blocked": "bold red"}.get(verdict.state, "bold yellow")
    name = Path(diagnosis.run).name or Path(diagnosis.run).resolve().name or diagnosis.run
    if verdict.state in ("healthy", "clear") and not verbose:
        page.paragraph(verdict.sentence, label=(f"{short_names([name])[name]}  ", "bold"), style=style)
        _write_quality(page, diagnosis, verbose=False, least=LIMITS_TRUST)
        _write_below_noise(page, diagnosis)
        write_overrides(page, diagnosis)
        page.paragraph(_who_looked(diagnosis, healthy=True), style="dim")
        return
    page.flow([(name, "bold"), *_inventory(diagnosis)])
    page.paragraph(verdict.sentence, style=style)
    page.blank()
    _write_quality(page, diagnosis, verbose=verbose, least=0 if verbose else LIMITS_TRUST)
    if diagnosis.run_ledger is not None:
        write_run_ledger(page, diagnosis.run_ledger)
    write_ledgers(page, diagnosis.ledgers, verbose=verbose)
    _write_order(page, diagnosis)
    write_findings(page, diagnosis, verbose=verbose)
    if diagnosis.below_noise:
        _write_below_noise(page, diagnosis)
        page.blank()
    _write_unexplained(page, diagnosis)
    told = verdict.state in ("blocked", "no-gpu") and any(_limits_trust(item) for item in quality_findings(diagnosis))
    if told and not verbose:
        count = len({outcome.rule for outcome in abstained(diagnosis) if outcome.reason != NOT_APPLICABLE})
        page.line(
            (f"{counted(count, 'rule')} could not look", "bold"), ("  for what is said above; -v lists why", "dim")
        )
    else:
        _write_blind_spots(page, diagnosis, verbose=verbose)
    write_overrides(page, diagnosis)
    page.paragraph(_who_looked(diagnosis, healthy=False), style="dim")


def _inventory(diagnosis: Diagnosis) -> list[Part]:
    formats = " and ".join(sorted({trace.format for trace in diagnosis.traces}))
    words = [f"{counted(len(diagnosis.traces), f'{formats} trace')}"]
    ranks = [trace.rank for trace in diagnosis.traces if trace.rank is not None]
    world = max((trace.world_size or 0 for trace in diagnosis.traces), default=0)
    if ranks:
        words.append(f"rank{'' if len(set(ranks)) == 1 else 's'} {ranges(ranks)}" + (f" of {world}" if world else ""))
    words.append(counted(sum(trace.event_count for trace in diagnosis.traces), "event"))
    steps = sorted({ledger.step_count for ledger in diagnosis.ledgers})
    if steps:
        count = counted(steps[-1], "step") if steps[0] == steps[-1] else f"{steps[0]}-{steps[-1]} steps"
        words.append(f"{count} analysed" if steps[-1] else "no steps found")
    return [(f"  {words[0]}", "dim"), *((f" · {word}", "dim") for word in words[1:])]


def _write_quality(page: Page, diagnosis: Diagnosis, *, verbose: bool, least: int) -> None:
    wrote = False
    for finding in quality_findings(diagnosis):
        if SEVERITIES.index(finding.severity) < least:
            continue
        wrote = True
        mark: Part = (f"{finding.severity}  ", SEVERITY_STYLES[finding.severity])
        page.paragraph(f"{_where(diagnosis, finding)}{finding.message}", label=mark)
        for fix in finding.fixes[: None if verbose else 1]:
            page.paragraph(fix.text, indent=len(mark[0]), style="dim")
            if fix.code and verbose:
                page.code(fix.code, indent=len(mark[0]) + 2)
    lost = [defect for defect in diagnosis.defects if defect.severity == "loss"]
    if lost:
        wrote = True
        kinds = ", ".join(f"{defect.defect} ×{defect.count:,} in {defect.trace}" for defect in lost[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        page.paragraph(
            f"the file does not hold everything: {kinds}{more}", label=("lost  ", SEVERITY_STYLES["warning"])
        )
    if wrote:
        page.blank()


def _limits_trust(finding: Finding) -> bool:
    return SEVERITIES.index(finding.severity) >= LIMITS_TRUST


def _where(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say of which ranks (or trace) and devices a finding is, as far as the run holds others."""
    places = []
    if len(finding.same_on_ranks) > 1:
        places.append(f"ranks {ranges(finding.same_on_ranks)}")
    elif len(diagnosis.traces) > 1 and (finding.rank is not None or finding.trace):
        places.append(f"rank {finding.rank}" if finding.rank is not None else f"{finding.trace}")
    several = len({ledger.device for ledger in diagnosis.ledgers if ledger.trace == finding.trace}) > 1
    if several and finding.device is not None:
        devices = finding.same_on_devices or (finding.device,)
        places.append(f"device{'' if len(devices) == 1 else 's'} {ranges(devices)}")
    return f"{', '.join(places)}: " if places else ""


def _write_order(page: Page, diagnosis: Diagnosis) -> None:
    """Write the waterfall: how long a step takes after each fix, of the run or of the device of the first finding."""
    first = next(iter(time_findings(diagnosis)), None)
    plan = None if first is None else plan_of_finding(diagnosis.plans, first)
    if plan is None or not plan.window_ns or len(plan.fixes) < 2:
        return
    per_step = max(plan.step_count, 1)
    sure = {finding.rule: finding.confidence for finding in reversed(diagnosis.findings)}
    rows = [("now", duration(plan.window_ns / per_step), "", "")]
    for fix in plan.fixes:
        saves = gain(fix.saving_ns / plan.window_ns)
        rows.append((fix.rule, duration(fix.left_ns / per_step), saves, _remark(fix, sure.get(fix.rule, "low"))))
    names = short_names([trace.trace for trace in diagnosis.traces])
    where = f"{names.get(plan.trace, '')}; " if plan.trace is not None and len(diagnosis.plans) > 1 else ""
    if plan.trace is None:
        where = "the run, as its ranks wait for each other; "
    note = f"  {where}at best; bounds of single fixes may overlap, these add up"
    page.flow([("Fixed one after the other", "bold"), (note, "dim")])
    columns = ("fix", "a step takes" if plan.step_count else "it takes", "saves", "")
    page.table(columns, rows, indent=2, right=frozenset({1, 2}), remarks=True)
    for item in plan.enablers:
        alone = listed([gain(saved_ns / plan.window_ns) for saved_ns in item.alone_ns])
        both = gain(item.together_ns / plan.window_ns)
        page.paragraph(f"{listed(item.rules)} are worth more together: {both}, alone {alone}", indent=2, style="dim")
    page.blank()


def _remark(fix: PlannedFix, confidence: str) -> str:
    """Say how sure a step of the waterfall is, and what else there is to know of it."""
    if fix.saving_ns < 0:
        return "makes nothing later, but only the first step earlier"
    if fix.status == "alternative":
        before = " or ".join(fix.alternatives)
        return f"wins mostly the same time as {before}" if before else "wins time that is won already"
    if fix.status == "latent":
        return f"{confidence} confidence; matters only then"
    if fix.status == "joint":
        return f"{confidence} confidence; only with the others"
    return f"{confidence} confidence"


def _write_below_noise(page: Page, diagnosis: Diagnosis) -> None:
    """Write what was found and not told, because the steps differ by more; each rule once, with its largest saving."""
    largest = {item.rule: item for item in reversed(diagnosis.below_noise)}
    if not largest:
        return
    worst = sorted(largest.values(), key=lambda item: -item.saving_share)
    floors = sorted({percent(item.noise_share) for item in diagnosis.below_noise})
    floor = floors[0] if len(floors) == 1 else "what chance does"
    named = ", ".join(f"{item.rule} ({gain(item.saving_share)})" for item in worst)
    page.paragraph(
        f"the steps vary, so that savings under {floor} cannot be told from chance: {named}. More steps would tell.",
        label=(f"{counted(len(worst), 'finding')} below the noise  ", "bold"),
    )


def _write_unexplained(page: Page, diagnosis: Diagnosis) -> None:
    window_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers)
    parts = {bucket: ns for bucket, ns in diagnosis.not_explained if window_ns and ns > 0}
    if not parts or sum(parts.values()) < LEAST_SHARE * window_ns:
        return
    named = ", ".join(
        f"{bucket_words(bucket)} {unexplained_share(diagnosis, bucket, ns)}"
        for bucket, ns in sorted(parts.items(), key=lambda part: -part[1])[:MOST_UNEXPLAINED]
    )
    total = sum(parts.values()) / window_ns
    page.line(("Not explained by any rule", "bold"), f"  {percent(total)} of the time")
    page.paragraph(named, indent=2, style="dim")
    if parts.get(UNSEEN_HOST, 0) >= MUCH_UNSEEN_SHARE * window_ns:
        only_nsys = all(trace.format == "nsys" for trace in diagnosis.traces)
        page.paragraph(f"What the host did there was not recorded: {_SEE_HOST[only_nsys]}.", indent=2, style="dim")
    page.blank()


def _write_blind_spots(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    """Write which rules could not look and what to record next time, one line a reason."""
    blind = [outcome for outcome in abstained(diagnosis) if verbose or outcome.reason != NOT_APPLICABLE]
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in blind:
        # What differs in numbers only, as on several devices, is one reason.
        detail = _NUMBER.sub("0", outcome.detail or "")
        groups[(outcome.reason or "", outcome.unlock or "", detail)].append(outcome)
    if not groups:
        return
    head = f"{counted(len({o.rule for o in blind}), 'rule')} could not look"
    page.line((head, "bold"), ("  why → what to do about it", "dim"))
    ordered = sorted(groups.items(), key=lambda group: (-len({o.rule for o in group[1]}), group[0]))
    for (reason, unlock, _), outcomes in ordered if verbose else ordered[:MOST_GROUPS]:
        details = {_WHY.sub("", outcome.detail) for outcome in outcomes if outcome.detail}
        because = min(details, default=reason.rpartition(":")[2].replace("_", " "))
        because += ", and the like" if len(details) > 1 else ""
        names = sorted({outcome.rule for outcome in outcomes})
        listed = ", ".join(names) if verbose or len(names) <= 2 else f"{names[0]} and {len(names) - 1} more"
        page.paragraph(f"{because}{' → ' + unlock if unlock else ''}  ({listed})", label="  - ")
    if not verbose and len(ordered) > MOST_GROUPS:
        more = len(ordered) - MOST_GROUPS
        page.line((f"  and {counted(more, 'more reason')}; -v lists {'it' if more == 1 else 'them'}", "dim"))


def abstained(diagnosis: Diagnosis) -> list[Outcome]:
    """Return the outcomes of rules that could look nowhere in the run."""
    looked = {outcome.rule for outcome in diagnosis.outcomes if outcome.state != "abstained"}
    return [o for o in diagnosis.outcomes if o.state == "abstained" and o.rule not in looked]


def _who_looked(diagnosis: Diagnosis, *, healthy: bool) -> str:
    blind = abstained(diagnosis)
    strangers = {outcome.rule for outcome in blind if outcome.reason == NOT_APPLICABLE}
    rules = {outcome.rule for outcome in diagnosis.outcomes} - strangers
    looked = rules - {outcome.rule for outcome in blind}
    words = f"{len(looked)} of {counted(len(rules), 'rule')} looked"
    if not healthy:
        return words + (f"; {len(strangers)} more {_do_not(strangers)} apply to this run." if strangers else ".")
    slowest = alike(diagnosis.ledgers)[0].worst
    steps = f"{counted(slowest.step_count, 'step')} of {duration(step_ns(slowest))}"
    window = steps if slowest.step_count else f"{duration(slowest.window_ns)}, no steps"
    return f"{words}{', the others lack data' if looked < rules else ''}; {window}; -v shows where the time goes."


def _do_not(things: Sized) -> str:
    return "does not" if len(things) == 1 else "do not"
