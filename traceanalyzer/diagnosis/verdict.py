"""What a diagnosis comes to in a sentence, and which of its parts deserve room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.diagnosis import (
    SEVERITIES,
    DeviceLedger,
    Diagnosis,
    Finding,
    FixPlan,
    HostLedger,
    RunLedger,
    plan_of_finding,
)
from traceanalyzer.diagnosis.diagnosis import gpu_count
from traceanalyzer.diagnosis.findings import asks_for_recording, lead_on_host, promised_ns, worth_share
from traceanalyzer.diagnosis.shares import busy_share, compute_share, unexplained_rest, unexplained_share
from traceanalyzer.text.words import bucket_words, counted, duration, is_tpu, lower_first, name_words, percent, speedup

# A device that computes this much has little left to save outside its kernels.
HEALTHY_COMPUTE_SHARE = 0.9
# From this share of kernel time on in kernels that no rule knows, rules could not judge what the device computes.
UNJUDGED_SHARE = 0.5
# From this relative difference on, a marked step and one on the device are two times.
DIFFERENT_STEP_SHARE = 0.1
# Quality findings this severe and worse stand before anything else.
LIMITS_TRUST = SEVERITIES.index("warning")
# Savings below this share do not lead a verdict before what most of the time is.
SMALL_SAVING_SHARE = 0.05
_VISIBLE_SHARE = 0.0005  # is printed as 0.1 %
# Time that no rule explains is named in the headline from this share of the windows on.
LARGE_REST_SHARE = 0.25
_HOST_WORDS = {
    "host.dataloader": "the wait for the data loader",
    "host.compile": "compilation",
    "host.comm_cpu": "the exchange of data with other ranks, and the wait for them",
    "host.op": "work of the framework's operators",
    "host.python": "Python, or what was not recorded, outside operators",
}
_EARLIER = "the recorded work waits for work that was launched before the recording began"
_NO_LAUNCHES = "the trace does not show which calls launched the GPU's work"
# Rules that say why a recording holds no GPU work, which is worth more than that it holds none.
_SAY_WHY = frozenset({"tq-device-failed", "tq-cannot-record", "tq-empty-profile"})
# Finds that what happens once outweighs what repeats.
TOO_LITTLE = "tq-too-little-work"
# Says what the host does while a TPU is idle: the ledger gives this idle time to no rule.
_BETWEEN_RUNS = "program-waits-for-host"
# Find that something outside the program sets its pace: this limits the program, whatever fixes save.
_PACED = frozenset({"paced-program", "waits-for-requests"})
_OF_STEPS = frozenset({"tq-first-calls", "tq-unlike-step"})  # what was recorded, and not what is missing


@dataclass(frozen=True)
class RunVerdict:
    """The state of the run (sick, healthy, clear, unexplained, blocked, host, no-gpu) and the sentence that says it.

    Healthy is a device that computes nearly all the time without a finding; its sentence says busy where no rule could
    judge what it computes. Clear is what would be healthy, were there not something about the trace that limits trust.
    Host is a run without GPU work, of which the host was judged.
    """

    state: str
    sentence: str


def judge(diagnosis: Diagnosis) -> RunVerdict:
    """Say in one sentence what a diagnosis comes to; without a percentage where too little was recorded to judge."""
    verdict = _judge(diagnosis)
    small = _everywhere(diagnosis, [finding for finding in diagnosis.findings if finding.rule == TOO_LITTLE])
    if small is None or verdict.state in ("blocked", "host", "no-gpu"):
        return verdict
    lead = leading_finding(diagnosis)
    now = f" In this recording: {lower_first(lead.title)}." if lead else ""
    return RunVerdict(
        verdict.state,
        f"Too little GPU work was recorded to judge the program.{now} Warm up, and record the part that repeats.",
    )


def _judge(diagnosis: Diagnosis) -> RunVerdict:
    blocker = blocker_of(diagnosis)
    if not any(trace.gpu_op_count for trace in diagnosis.traces) and (blocker is None or blocker.rule not in _SAY_WHY):
        if judges_host(diagnosis):
            return RunVerdict("host", _host(diagnosis))
        lost = any(defect.severity == "loss" for defect in diagnosis.defects)
        empty = "No event of the recording could be read." if lost else "The recording is empty: it holds no event."
        what = "No GPU work was found" if blocker is None else "The GPU's work was not recorded"
        nothing = f"{what}, so nothing can be said about the GPU."
        return RunVerdict("no-gpu", nothing if any(trace.event_count for trace in diagnosis.traces) else empty)
    if blocker is not None:
        what = "trace" if len(diagnosis.traces) == 1 else "run"
        return RunVerdict("blocked", f"This {what} cannot be judged: {lower_first(blocker.title)}.")
    if timed := time_findings(diagnosis):
        return RunVerdict("sick", _sick(diagnosis, timed))
    compute = _compute_words(diagnosis)
    if problems(diagnosis):
        sentence = f"{compute}; {lower_first(problems(diagnosis)[0].title)}."
        rest = "" if has_no_compute(diagnosis) else _rest_sentence(diagnosis, LARGE_REST_SHARE)
        return RunVerdict("sick", sentence + rest)
    if not diagnosis.ledgers:
        return RunVerdict("unexplained", "GPU work was recorded, but no window of it could be analyzed.")
    if has_no_compute(diagnosis):
        return RunVerdict("unexplained", _without_compute(diagnosis))
    nothing = "no rule found an issue" + " above the noise of the steps" * bool(diagnosis.below_noise)
    if min(map(busy_share, diagnosis.ledgers)) >= HEALTHY_COMPUTE_SHARE:
        if any(_rank(finding) >= LIMITS_TRUST for finding in quality_findings(diagnosis)):
            return RunVerdict("clear", f"{compute} and {nothing}, as far as this trace can tell.")
        if all(map(_kernels_were_judged, diagnosis.ledgers)):
            return RunVerdict("healthy", f"Healthy: {lower_first(compute)} and {nothing}.")
        return RunVerdict("healthy", f"{compute} and {nothing}; {_unjudged(diagnosis.ledgers)}.")
    if _most_unexplained(diagnosis)[0] == "edge.queued_before_trace":
        return RunVerdict("unexplained", f"{compute}; in the rest {_EARLIER}.")
    if _most_unexplained(diagnosis)[0] == "edge.no_launch" and not _of_tpus(diagnosis.ledgers):
        return RunVerdict("unexplained", f"{compute}; the cause of the rest is unknown: {_NO_LAUNCHES}.")
    return RunVerdict("unexplained", f"{compute}; no rule explains the rest{_mostly(diagnosis)}.")


def _kernels_were_judged(ledger: DeviceLedger) -> bool:
    """Return whether rules could judge the kernels of a device: its peaks and most of the kernels are known."""
    return ledger.peaks_known and ledger.unjudged_share < UNJUDGED_SHARE


def _of_tpus(ledgers: tuple[DeviceLedger, ...]) -> bool:
    return all(is_tpu(ledger.device_name) for ledger in ledgers)


def _unjudged(ledgers: tuple[DeviceLedger, ...]) -> str:
    """Say why nothing is known about the quality of what the devices compute."""
    if _of_tpus(ledgers):
        return "rules judge no operations of TPUs, which `top operators` compares with the peaks of the chip"
    unknown = max(ledger.unjudged_share for ledger in ledgers)
    if unknown < UNJUDGED_SHARE:
        return "the kernels were not compared with the device, whose peak rates are not known"
    return f"the kernels were not judged, as {percent(unknown)} of their time is in kernels that no rule knows"


def _mostly(diagnosis: Diagnosis) -> str:
    """Say which bucket holds most of what no rule explains; nothing where none holds half of it."""
    bucket, dur_ns = _most_unexplained(diagnosis)
    share = "" if unexplained_rest(diagnosis).gone else f" ({unexplained_share(diagnosis, bucket, dur_ns)})"
    name = diagnosis.ledgers[0].device_name if diagnosis.ledgers else None
    return f", mostly “{bucket_words(bucket, name)}”{share}" if bucket else ""


def _most_unexplained(diagnosis: Diagnosis) -> tuple[str, int]:
    bucket, dur_ns = max(diagnosis.not_explained, key=lambda item: item[1], default=("", 0))
    return (bucket, dur_ns) if dur_ns * 2 > sum(ns for _, ns in diagnosis.not_explained) else ("", 0)


def judges_host(diagnosis: Diagnosis) -> bool:
    """Return whether a run without GPU work says what its host does, and nothing says that GPU work is missing."""
    return bool(diagnosis.host_ledgers) and blocker_of(diagnosis) is None


def _host(diagnosis: Diagnosis) -> str:
    """Say what limits a run without GPU work, else what takes most of its time."""
    unsure = any(_rank(one) >= LIMITS_TRUST and one.rule not in _OF_STEPS for one in quality_findings(diagnosis))
    opening = "No GPU work was recorded" if unsure else "No GPU was used"
    if (lead := lead_on_host(time_findings(diagnosis))) is not None:
        share = percent(worth_share(lead))
        if asks_for_recording(lead):
            return f"{opening}. {lead.title} for up to {share} of the time. {lead.fixes[0].text.rstrip('.')}."
        return f"{opening}. {lead.title}: fixing it saves up to {share} ({_worth_words(lead)})."
    ledger = max(diagnosis.host_ledgers, key=lambda ledger: ledger.own_step_ns)
    bucket, dur_ns = ledger.buckets[0]
    words = (
        f"{opening}. Most of {span_words((ledger,))}, {percent(dur_ns / ledger.window_ns)}, is {_HOST_WORDS[bucket]}"
    )
    top = ledger.top_operators[0] if bucket == "host.op" and ledger.top_operators else None
    return f"{words}, with {name_words(top.name)} ahead ({percent(top.share)})." if top else f"{words}."


def has_unjudged_traces(diagnosis: Diagnosis) -> bool:
    """Return whether nothing can be said of the run, or of a trace that a blocker makes worthless."""
    return not (any(trace.gpu_op_count for trace in diagnosis.traces) or judges_host(diagnosis)) or any(
        finding.severity == "blocker" for finding in diagnosis.findings
    )


def has_no_compute(diagnosis: Diagnosis) -> bool:
    """Return whether no compute time is known and none explained: shares of a window without it say nothing."""
    computes = any(map(compute_share, diagnosis.ledgers))
    is_explained = any(not bucket.startswith("edge.") for ledger in diagnosis.ledgers for bucket, _ in ledger.buckets)
    return (
        bool(diagnosis.ledgers)
        and not computes
        and (not problems(diagnosis) or not (is_explained or time_findings(diagnosis)))
    )


def _without_compute(diagnosis: Diagnosis) -> str:
    """Say why no window has compute time: there are no kernels, their lengths are not known, or they lie elsewhere."""
    count = sum(trace.kernel_count for trace in diagnosis.traces)
    if not count and (lost := sum(defect.count for defect in diagnosis.defects if defect.defect == "device-lost")):
        return f"{counted(lost, 'GPU operation')} named no device that exists: how long the GPU computed is not known."
    if not count:
        what = "only copies, memsets or communication (traceanalyzer top copies, top collectives)"
        return f"The GPU ran no kernels, {what}."
    kernels = counted(count, "kernel")
    if not any(trace.kernel_sum_ns for trace in diagnosis.traces):
        return f"{kernels} ran, recorded with a length of 0 ns: how long the GPU computed is not known."
    return f"The GPU does not compute in the analyzed window: its {kernels} ran before or after it."


def blocker_of(diagnosis: Diagnosis) -> Finding | None:
    """Return what makes every trace of the run worthless for a diagnosis; None: something can be said."""
    return _everywhere(diagnosis, [finding for finding in diagnosis.findings if finding.severity == "blocker"])


def _everywhere(diagnosis: Diagnosis, found: Sequence[Finding]) -> Finding | None:
    """Return the first of some findings about traces if together they are about every trace of the run."""
    traces = {name for item in found for name in (item.same_on_traces or (item.trace,))}
    everywhere = None in traces or traces >= {trace.trace for trace in diagnosis.traces}
    return found[0] if found and everywhere else None


def step_ns(ledger: DeviceLedger | RunLedger | HostLedger) -> float:
    """Return the mean length of a step, or the whole window where no steps are known."""
    return ledger.window_ns / max(ledger.step_count, 1)


def problems(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings about the program (not about the trace): what the headline names first, then as fixed."""
    lead = leading_finding(diagnosis)
    found = _in_order_of_fixes(diagnosis)
    return sorted(found, key=lambda one: (lead is None or one.rule != lead.rule, one is not lead))


def _in_order_of_fixes(diagnosis: Diagnosis) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.kind != "quality"]


def time_findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings that can save time, in the order of fixes."""
    return [finding for finding in _in_order_of_fixes(diagnosis) if finding.saving_ns]


def quality_findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings about the trace itself, worst first."""
    quality = [finding for finding in diagnosis.findings if finding.kind == "quality"]
    return sorted(quality, key=_rank, reverse=True)


def ledger_of(diagnosis: Diagnosis, finding: Finding) -> DeviceLedger | HostLedger | None:
    """Return the ledger of the device that a finding is about, else the slowest of its trace or of the run."""
    ledgers: tuple[DeviceLedger | HostLedger, ...] = (*diagnosis.ledgers, *diagnosis.host_ledgers)
    for same in (
        [x for x in diagnosis.ledgers if (x.trace, x.device) == (finding.trace, finding.device)],
        [x for x in ledgers if x.trace == finding.trace],
        list(ledgers),
    ):
        if same:
            return max(same, key=step_ns)
    return None


def span_words(ledgers: Sequence[DeviceLedger | HostLedger]) -> str:
    """Say what the ledgers' window is: steps where they are known."""
    if not all(ledger.step_count for ledger in ledgers):
        return "the time"
    return "the one step" if all(ledger.step_count == 1 for ledger in ledgers) else "each step"


def is_recorded_again(diagnosis: Diagnosis) -> bool:
    """Return whether the run holds several recordings of a rank."""
    return any(trace.recording_count > 1 for trace in diagnosis.traces)


def pooled_ledger(diagnosis: Diagnosis) -> RunLedger | None:
    """Return the ledger of all steps of a rank that was recorded several times; None: no steps are pooled."""
    ledger = diagnosis.run_ledger
    return ledger if ledger is not None and ledger.recording_count > 1 else None


def _compute_words(diagnosis: Diagnosis) -> str:
    ledgers = diagnosis.ledgers
    shares = sorted(compute_share(ledger) for ledger in ledgers)
    if not shares:
        return "The GPU worked"
    noun = "TPU" if _of_tpus(ledgers) else "GPU"
    if not shares[-1] and noun == "GPU":
        return "No compute kernels were recorded"
    low, high = percent(shares[0]), percent(shares[-1])
    shared = [ledger.shared_gpu for ledger in ledgers if ledger.shared_gpu is not None]
    if len(shared) == len(ledgers) and len({one.gpu for one in shared}) == 1:
        gpu, own = shared[0], low if low == high else f"{low} to {high}"
        return (
            f"GPU busy {percent(gpu.busy_ns / gpu.span_ns)} of the time, shared by {gpu.process_count} processes, "
            f"each of which computes {own} of {span_words(ledgers)}"
        )
    span = f"{span_words(ledgers)}{_marked_step_words(ledgers)}"
    if (pooled := pooled_ledger(diagnosis)) is not None:
        share = percent(compute_share(pooled))
        return f"{noun} busy with compute {share} of {span}, in {pooled.recording_count} recordings"
    if len(shares) == 1 or low == high:
        return f"{noun} busy with compute {low} of {span}"
    if gpu_count(diagnosis) == 1:
        count = len({ledger.trace for ledger in ledgers})
        return f"{noun} busy with compute {low} to {high} of {span}, in {count} recordings"
    return f"{noun}s busy with compute {low} to {high} of {span}"


def _marked_step_words(ledgers: tuple[DeviceLedger, ...]) -> str:
    """Say how long the slowest step is on its device and as the program marks it, where the marked step is longer.

    The device's step is longer wherever the host runs ahead, which is as it should be.
    """
    slowest = max(ledgers, key=step_ns)
    marked_ns = slowest.marked_step_ns
    if not marked_ns or not slowest.step_count or marked_ns - step_ns(slowest) <= DIFFERENT_STEP_SHARE * marked_ns:
        return ""
    device = "device" if len(ledgers) == 1 else "slowest device"
    return f" ({duration(step_ns(slowest))} on the {device}; the program marks {duration(marked_ns)})"


def _sick(diagnosis: Diagnosis, timed: list[Finding]) -> str:
    first = timed[0]
    share, title = worth_share(first), first.title.rstrip(".")
    graver = _graver(diagnosis, timed)
    opening = f"{_compute_words(diagnosis)}. {graver.title.rstrip('.') + '. ' if graver else ''}"
    if graver is not None and graver.rule in _PACED:
        return f"{opening}In a turn: {lower_first(title)}."
    if asks_for_recording(first):
        # The time is not in the next recording; the program is as fast as before.
        advice = first.fixes[0].text.partition(". ")[0].rstrip(".")
        rest = _rest_sentence(diagnosis, max(share, LARGE_REST_SHARE))
        return f"{opening}{title} for up to {percent(share)} of the time. {advice}.{rest}"
    plan, joint = plan_of_finding(diagnosis.plans, first), share
    sentence = f"{opening}{title}: fixing it saves up to {percent(share)} ({_worth_words(first)})"
    second = _next_limit(timed, plan) if plan is not None else None
    if plan is not None and second is not None:
        share = plan.fixes[0].saving_ns / plan.window_ns
        alone = f"up to {percent(share)}" if share > 0.005 else "next to nothing"
        alone += f" ({_worth_words(first)})" if first.confidence == "low" else ""
        sentence = f"{opening}{title}, and {lower_first(second.title)}: fixing only the first saves {alone}"
    if plan is not None and plan.window_ns:
        saved = promised_ns(plan, timed)
        joint = sum(saved) / plan.window_ns
        count = sum(saving_ns >= _VISIBLE_SHARE * plan.window_ns for saving_ns in saved)
        if count > 1 and joint > share + 0.005:
            are_all = count == len(plan.fixes) or (count == 2 and second is not None)
            named = str(count) if not are_all else "both" if count == 2 else f"all {count}"
            sentence += f", {named} fixes together up to {percent(joint)}"
    return f"{sentence}.{_rest_sentence(diagnosis, max(joint, LARGE_REST_SHARE))}"


def _next_limit(timed: list[Finding], plan: FixPlan) -> Finding | None:
    """Return the limit behind the first one of a plan, where they are as strong as each other or it hides much more."""
    first, *others = plan.fixes
    much_ns = 0 if first.status == "latent" else 2 * first.saving_ns
    hidden = [fix.rule for fix in others if fix.status == "latent" and fix.saving_ns >= much_ns]
    return next((finding for finding in timed if finding.rule in hidden and timed[0].rule == first.rule), None)


def _worth_words(finding: Finding) -> str:
    """Say how much faster the program gets without a finding; of one with low confidence, say why it may not."""
    if finding.confidence == "low":
        return f"low confidence: {finding.confidence_because}"
    return speedup(worth_share(finding))


def _rest_sentence(diagnosis: Diagnosis, than_share: float) -> str:
    """Say what no rule explains where that is more than a share of the windows; else nothing."""
    rest = unexplained_rest(diagnosis)
    works = min(map(busy_share, diagnosis.ledgers), default=0) >= HEALTHY_COMPUTE_SHARE  # then for other processes
    if rest.left <= than_share or works or any(finding.rule == _BETWEEN_RUNS for finding in diagnosis.findings):
        return ""
    if _most_unexplained(diagnosis)[0] == "edge.no_launch" and not _of_tpus(diagnosis.ledgers):
        return f" The cause of {percent(rest.left)} is unknown: {_NO_LAUNCHES}."
    return f" No rule explains {percent(rest.left)}{_mostly(diagnosis)}."


def _graver(diagnosis: Diagnosis, timed: list[Finding]) -> Finding | None:
    """Return the worst problem of unknown saving if it matters more than all problems that save time; else None.

    It does where it is more severe, and where all others save little: then it says what the time is. A fixed pace does.
    """
    level = max(map(_rank, timed))
    if max(map(worth_share, timed)) < SMALL_SAVING_SHARE:
        level = SEVERITIES.index("info")
    others = [finding for finding in _in_order_of_fixes(diagnosis) if finding not in timed]
    if paced := [finding for finding in others if finding.rule in _PACED]:
        return paced[0]
    return max((finding for finding in others if _rank(finding) > level), key=_rank, default=None)


def _rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def leading_finding(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding that the headline names first; None: there is none about the program."""
    timed = time_findings(diagnosis)
    if not timed:
        return next(iter(_in_order_of_fixes(diagnosis)), None)
    return lead_on_host(timed) if judges_host(diagnosis) else _graver(diagnosis, timed) or timed[0]
