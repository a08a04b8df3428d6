"""What a diagnosis comes to in a sentence, and which of its parts deserve room."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.diagnosis import SEVERITIES, DeviceLedger, Diagnosis, Finding, PlannedFix, RunLedger, plan_of_finding
from traceanalyzer.report.ledger_shares import unexplained_share
from traceanalyzer.report.words import bucket_words, listed, percent

# A device that computes this much has little left to win outside its kernels.
HEALTHY_COMPUTE_SHARE = 0.9
# Quality findings this severe and worse are told before anything else.
LIMITS_TRUST = SEVERITIES.index("warning")
_COUNTS = {2: "Two", 3: "Three"}


@dataclass(frozen=True)
class Verdict:
    """The state of the run (sick, healthy, clear, unexplained, blocked, no-gpu) and the sentence that says it.

    Clear is what would be healthy, were there not something about the trace that limits trust.
    """

    state: str
    sentence: str


def judge(diagnosis: Diagnosis) -> Verdict:
    """Say in one sentence what a diagnosis comes to."""
    if sum(trace.gpu_op_count for trace in diagnosis.traces) == 0:
        return Verdict("no-gpu", "No GPU work was found, so nothing can be said about the GPU.")
    blocker = blocker_of(diagnosis)
    if blocker is not None:
        what = "This trace" if len(diagnosis.traces) == 1 else "This run"
        return Verdict("blocked", f"{what} cannot be judged: {_lower(blocker.title)}.")
    timed = time_findings(diagnosis)
    if timed:
        return Verdict("sick", _sick(diagnosis, timed))
    compute = _compute_words(diagnosis.ledgers)
    if problems(diagnosis):
        return Verdict("sick", f"{compute}; {_lower(problems(diagnosis)[0].title)}.")
    if not diagnosis.ledgers:
        return Verdict("unexplained", "GPU work was recorded, but no window of it could be analysed.")
    nothing = "no rule found anything" + " above the noise of the steps" * bool(diagnosis.below_noise)
    if min(map(compute_share, diagnosis.ledgers)) >= HEALTHY_COMPUTE_SHARE:
        if any(SEVERITIES.index(finding.severity) >= LIMITS_TRUST for finding in quality_findings(diagnosis)):
            return Verdict("clear", f"{compute} and {nothing}, as far as this trace can tell.")
        return Verdict("healthy", f"Healthy: {_lower(compute)} and {nothing}.")
    return Verdict("unexplained", f"{compute}; no rule found the reason for the rest{_mostly(diagnosis)}.")


def _mostly(diagnosis: Diagnosis) -> str:
    """Say which bucket holds most of what no rule explains; nothing where none holds half of it."""
    bucket, dur_ns = max(diagnosis.not_explained, key=lambda item: item[1], default=("", 0))
    if dur_ns * 2 <= sum(ns for _, ns in diagnosis.not_explained):
        return ""
    return f", mostly “{bucket_words(bucket)}” ({unexplained_share(diagnosis, bucket, dur_ns)})"


def blocker_of(diagnosis: Diagnosis) -> Finding | None:
    """Return what makes every trace of the run worthless for a diagnosis; None: something can be said."""
    blockers = [finding for finding in diagnosis.findings if finding.severity == "blocker"]
    blocked = {name for item in blockers for name in (item.same_on_traces or (item.trace,))}
    everywhere = None in blocked or blocked >= {trace.trace for trace in diagnosis.traces}
    return blockers[0] if blockers and everywhere else None


def compute_share(ledger: DeviceLedger) -> float:
    """Return the share of the window in which the device computes."""
    return dict(ledger.buckets).get("compute", 0) / ledger.window_ns if ledger.window_ns else 0.0


def step_ns(ledger: DeviceLedger | RunLedger) -> float:
    """Return the mean length of a step, or the whole window where no steps are known."""
    return ledger.window_ns / max(ledger.step_count, 1)


def problems(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings about the program (not about the trace), in the order of fixes."""
    return [finding for finding in diagnosis.findings if finding.kind != "quality"]


def time_findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings that can save time, in the order of fixes."""
    return [finding for finding in problems(diagnosis) if finding.saving_ns]


def quality_findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings about the trace itself, worst first."""
    quality = [finding for finding in diagnosis.findings if finding.kind == "quality"]
    return sorted(quality, key=lambda finding: -SEVERITIES.index(finding.severity))


def ledger_of(diagnosis: Diagnosis, finding: Finding) -> DeviceLedger | None:
    """Return the ledger of the device that a finding is about, else the slowest of its trace or of the run."""
    ledgers = diagnosis.ledgers
    for same in (
        [x for x in ledgers if (x.trace, x.device) == (finding.trace, finding.device)],
        [x for x in ledgers if x.trace == finding.trace],
        list(ledgers),
    ):
        if same:
            return max(same, key=step_ns)
    return None


def speedup(share: float) -> str:
    """Say how much faster a run gets that loses this share of its time: `1.50× faster`."""
    return f"{1 / (1 - share):.2f}× faster" if share < 0.95 else "over 20× faster"


def span_words(ledgers: tuple[DeviceLedger, ...]) -> str:
    """Say what the ledgers' window is: steps where they are known."""
    if not all(ledger.step_count for ledger in ledgers):
        return "the time"
    return "the one step" if all(ledger.step_count == 1 for ledger in ledgers) else "each step"


def _compute_words(ledgers: tuple[DeviceLedger, ...]) -> str:
    shares = sorted(compute_share(ledger) for ledger in ledgers)
    if not shares:
        return "The GPU worked"
    low, high = percent(shares[0]), percent(shares[-1])
    if len(shares) == 1 or low == high:
        return f"The GPU computes {low} of {span_words(ledgers)}"
    return f"The GPUs compute {low} to {high} of {span_words(ledgers)}"


def _sick(diagnosis: Diagnosis, timed: list[Finding]) -> str:
    first = timed[0]
    balanced = joint_fixes(diagnosis, first)
    if balanced is not None:
        names = listed([fix.rule for fix in balanced.fixes])
        return (
            f"{_compute_words(diagnosis.ledgers)}. {_COUNTS[len(balanced.fixes)]} limits hide each other, so that no "
            f"fix alone is worth much: {names}. All of them together save up to {percent(balanced.share)} "
            f"({speedup(balanced.share)})."
        )
    share = worth_share(first)
    sentence = (
        f"{_compute_words(diagnosis.ledgers)}. {first.title.rstrip('.')}: fixing that saves up to {percent(share)} "
        f"({speedup(share)})"
    )
    plan = plan_of_finding(diagnosis.plans, first)
    if plan is not None and plan.window_ns:
        joint = sum(fix.saving_ns for fix in plan.fixes) / plan.window_ns
        count = len(plan.fixes)
        if count > 1 and joint > share + 0.005:
            sentence += f", {'both' if count == 2 else f'all {count}'} fixes together up to {percent(joint)}"
    return sentence + "."


def worth_share(finding: Finding) -> float:
    """Return what fixing a finding saves: of the run where its ranks wait for each other, else of its device."""
    share = finding.saving_share if finding.run_saving_share is None else finding.run_saving_share
    return share or 0.0


@dataclass(frozen=True)
class JointFixes:
    """Fixes that are worth something only together: what that is of the window, and of a step in nanoseconds."""

    fixes: tuple[PlannedFix, ...]
    share: float
    saving_ns: float


def joint_fixes(diagnosis: Diagnosis, finding: Finding) -> JointFixes | None:
    """Return the fixes together with which alone a finding's is worth something; None: it is by itself."""
    if finding.status != "joint":
        return None
    plan = plan_of_finding(diagnosis.plans, finding)
    fixes = tuple(fix for fix in plan.fixes if fix.status == "joint") if plan else ()
    if plan is None or not plan.window_ns or all(fix.rule != finding.rule for fix in fixes):
        return None
    saving_ns = sum(fix.saving_ns for fix in fixes)
    return JointFixes(fixes, saving_ns / plan.window_ns, saving_ns / max(plan.step_count, 1))


def _lower(text: str) -> str:
    """Lower the first letter of a sentence that goes on inside another, acronyms left alone."""
    text = text.rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
