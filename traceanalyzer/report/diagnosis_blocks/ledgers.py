"""Where the time goes: the ledger of the run or of its slowest device as a bar, the other devices as a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, HostLedger, LateBegin, RunLedger, TraceSummary
from traceanalyzer.diagnosis.flops import WITHOUT_OPERATORS, FlopsUse
from traceanalyzer.diagnosis.shares import SMALL_SHARE, compute_share, ledger_rows, shares_words
from traceanalyzer.diagnosis.verdict import TOO_LITTLE, problems, step_ns
from traceanalyzer.report.blocks import Bar, BarPart, Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diagnosis_blocks.ranks import devices_words
from traceanalyzer.report.diagnosis_blocks.trust import recordings_table
from traceanalyzer.text.words import bucket_words, counted, duration, is_tpu, name_words, percent, short_names

# Ledgers whose buckets all differ by less than this share are shown as one.
ALIKE_SHARE = 0.02
MOST_DEVICES = 6
MOST_OPERATORS = 3


class LedgerGroup(Struct, frozen=True):
    """Devices with ledgers alike; the slowest of them stands for all."""

    worst: DeviceLedger
    members: tuple[DeviceLedger, ...]


def alike(ledgers: Sequence[DeviceLedger]) -> list[LedgerGroup]:
    """Group ledgers that differ by little, the group with the slowest device first."""
    groups: list[list[DeviceLedger]] = []
    for ledger in sorted(ledgers, key=lambda x: (-step_ns(x), compute_share(x), x.trace, x.device)):
        for group in groups:
            if _distance(group[0], ledger) < ALIKE_SHARE:
                group.append(ledger)
                break
        else:
            groups.append([ledger])
    return [LedgerGroup(group[0], tuple(group)) for group in groups]


def ledger_sections(diagnosis: Diagnosis, *, verbose: bool) -> list[Section]:
    """Return one bar, the other devices and what the slowest computes; with `verbose` bar and kernels of every one."""
    ledgers = diagnosis.ledgers
    # Only their names distinguish two traces of one rank.
    named = short_names([x.trace for x in ledgers]) if len({(x.rank, x.device) for x in ledgers}) < len(ledgers) else {}
    run = [] if diagnosis.run_ledger is None else [_run_section(diagnosis.run_ledger, diagnosis, verbose=verbose)]
    recorded = recordings_table(diagnosis, verbose=verbose)
    most = kernels_shown(len(problems(diagnosis)), verbose=verbose)
    if verbose and ledgers:
        devices = [
            _device_section(LedgerGroup(ledger, (ledger,)), ledgers, named, verbose=verbose) for ledger in ledgers
        ]
        kernels = [kernel_blocks(ledger, most=most) for ledger in ledgers]
        if recorded is not None:
            run = [*run[:-1], Section((*run[-1].blocks, recorded), run[-1].heading)] if run else [Section((recorded,))]
        return (
            run
            + [
                Section((*section.blocks, *blocks), section.heading)
                for section, blocks in zip(devices, kernels, strict=True)
            ]
            + flops_sections(diagnosis.flops, verbose=True)
        )
    groups = alike(ledgers)
    if run:
        (section,) = run
        table = recorded or _devices_table(groups, ledgers, named)
        return [Section((*section.blocks, table, *slowest_kernels(diagnosis, most=most)), section.heading)]
    if not groups:
        return host_sections(diagnosis, verbose=verbose)
    section = _device_section(groups[0], ledgers, named, verbose=verbose)
    rest = [_devices_table(groups[1:], ledgers, named)] if len(groups) > 1 else []
    rest = [recorded] if recorded is not None else rest
    return [Section((*section.blocks, *rest, *slowest_kernels(diagnosis, most=most)), section.heading)]


def host_sections(diagnosis: Diagnosis, *, verbose: bool) -> list[Section]:
    """Return what the host does in its steps, in a run without GPU work: the slowest rank, or with `verbose` each."""
    ledgers = sorted(diagnosis.host_ledgers, key=lambda ledger: -ledger.own_step_ns)
    names = short_names([ledger.trace for ledger in ledgers])
    sections = []
    for ledger in ledgers if verbose else ledgers[:1]:
        place = f"rank {ledger.rank}" if ledger.rank is not None else names[ledger.trace] if len(ledgers) > 1 else ""
        notes = [place] if place else []
        notes += [f"the slowest of {len(ledgers)}"] if len(ledgers) > 1 and not verbose else []
        heading = Heading(
            "Where the time goes", (_window(ledger), *(Text(note, "dim") for note in (*notes, "on the host")))
        )
        sections.append(Section((ledger_bar(ledger, codes=verbose), *_operators(ledger)), heading))
    return sections


def _operators(ledger: HostLedger) -> tuple[Block, ...]:
    rows = tuple(
        (
            name_words(operator.name),
            percent(operator.share),
            f"{operator.call_count:,}",
            duration(operator.self_ns / operator.call_count),
        )
        for operator in ledger.top_operators[:MOST_OPERATORS]
    )
    share = "of the step" if ledger.step_count else "of the time"
    return (Table(("top operators", share, "calls", "mean"), rows, right=frozenset({1, 2, 3})),) if rows else ()


def slowest_kernels(diagnosis: Diagnosis, *, most: int) -> tuple[Block, ...]:
    """Return what the slowest device computes, which is named where there are several."""
    ledgers = diagnosis.ledgers
    groups = alike(ledgers)
    if not groups:
        return ()
    slowest = groups[0].worst
    place = devices_words([slowest], alone=_is_alone(ledgers)) if len(ledgers) > 1 else ""
    return (*kernel_blocks(slowest, most=most, place=place), *_captured_line(diagnosis), *_flops_line(diagnosis))


def _run_section(ledger: RunLedger, diagnosis: Diagnosis, *, verbose: bool) -> Section:
    if ledger.recording_count > 1:
        said = [devices_words(diagnosis.ledgers), f"{ledger.recording_count} recordings pooled"]
        said += sorted({item.device_name for item in diagnosis.ledgers if item.device_name})
        heading = Heading("Where the time goes", (_window(ledger), *(Text(words, "dim") for words in said)))
        return Section((ledger_bar(ledger, codes=verbose),), heading)
    waited = [(rank, dur_ns / ledger.window_ns) for rank, dur_ns in ledger.ranks if ledger.window_ns]
    ranks = ", ".join(
        f"rank {rank} {share:.0%}".replace("%", " %")
        for rank, share in waited[:3]
        if share >= SMALL_SHARE and rank is not None
    )
    said = [f"at each moment the time of the latest rank: {ranks}"] if ranks else []
    late = _late_begin(ledger)
    if late is not None and late.after_rank is not None and late.dur_ns >= SMALL_SHARE * ledger.window_ns:
        said.append(f"rank {late.rank} begins {duration(late.dur_ns)} after rank {late.after_rank}, and is waited for")
    notes = (_window(ledger), *(Text(words, "dim") for words in said))
    return Section((ledger_bar(ledger, codes=verbose),), Heading("Where the run's time goes", notes))


def _late_begin(ledger: DeviceLedger | RunLedger | HostLedger) -> LateBegin | None:
    """Return the rank that begins late, where this is all of the time before the first kernel."""
    late = ledger.late_begin if isinstance(ledger, RunLedger) else None
    return late if late and late.rank is not None and ("edge.head", late.dur_ns) in ledger.buckets else None


def run_bucket_words(bucket: str, ledger: DeviceLedger | RunLedger | HostLedger) -> str:
    """Say what a bucket of a ledger means; on a run, the time before the rank begins that the others wait for."""
    late = _late_begin(ledger)
    if bucket == "edge.head" and late is not None:
        return f"before rank {late.rank} begins"
    return bucket_words(bucket, ledger.device_name if isinstance(ledger, DeviceLedger) else None)


def _device_section(
    group: LedgerGroup, ledgers: Sequence[DeviceLedger], named: Mapping[str, str], *, verbose: bool
) -> Section:
    ledger = group.worst
    notes = [_place(group, ledgers, named)]
    if len(group.members) > 1:
        slowest = devices_words([ledger], alone=_is_alone(ledgers))
        notes.append(f"all within {ALIKE_SHARE:.0%}; this is the slowest, {slowest}".replace("%", " %"))
    notes += [ledger.device_name] if ledger.device_name else []
    heading = Heading("Where the time goes", (_window(ledger), *(Text(note, "dim") for note in notes)))
    return Section((ledger_bar(ledger, codes=verbose),), heading)


def _devices_table(groups: Sequence[LedgerGroup], ledgers: Sequence[DeviceLedger], named: Mapping[str, str]) -> Block:
    """Say of each group of devices how long its step is and what its slowest one waits for most."""
    rows = []
    for group in groups[:MOST_DEVICES]:
        ledger = group.worst
        shares = shares_words(ledger)
        waits = [bucket for bucket, _ in ledger_rows(ledger) if bucket != "compute"]
        worst = f"{bucket_words(waits[0], ledger.device_name)} {shares[waits[0]]}" if waits else "–"
        place = named[ledger.trace] if named and len(group.members) == 1 else _place(group, ledgers, named)
        rows.append((place, duration(step_ns(ledger)), percent(compute_share(ledger)), worst))
    hidden = sum(len(group.members) for group in groups[MOST_DEVICES:])
    if hidden:
        rows.append((f"{counted(hidden, 'more device')} with -v", "", "", ""))
    time = "step time" if all(ledger.step_count for ledger in ledgers) else "window"
    busy = "TPU busy" if all(is_tpu(ledger.device_name) for ledger in ledgers) else "GPU busy"
    return Table(("device", time, busy, "largest wait"), tuple(rows), right=frozenset({1, 2}))


def main_ledger(diagnosis: Diagnosis) -> DeviceLedger | RunLedger | HostLedger | None:
    """Return the ledger that stands for a run: its own, else that of its slowest device or host; None: it has none."""
    if diagnosis.host_ledgers:
        return max(diagnosis.host_ledgers, key=lambda ledger: ledger.own_step_ns)
    return diagnosis.run_ledger or (alike(diagnosis.ledgers)[0].worst if diagnosis.ledgers else None)


def ledger_bar(ledger: DeviceLedger | RunLedger | HostLedger, *, codes: bool, every: bool = False) -> Bar:
    """Return the ledger as a bar, with `codes` also the names that queries and rules use for its parts.

    Small parts are one, unless `every` bucket is wanted.
    """
    rows, shares = ledger_rows(ledger, every=every), shares_words(ledger, every=every)
    parts = []
    for bucket, dur_ns in rows:
        words = run_bucket_words(bucket, ledger)
        cells = (duration(dur_ns / max(ledger.step_count, 1)), shares[bucket])
        parts.append(BarPart(bucket, words, dur_ns, cells, bucket if codes and words != bucket else ""))
    return Bar(("time per step" if ledger.step_count else "time", "share"), tuple(parts))


def _window(ledger: DeviceLedger | RunLedger | HostLedger) -> Text:
    window = (
        f"step time {duration(step_ns(ledger))}" if ledger.step_count else f"{duration(ledger.window_ns)}, no steps"
    )
    return Text(window, "strong")


def group_place(group: LedgerGroup, ledgers: Sequence[DeviceLedger]) -> str:
    """Say which devices a group holds; two traces of one rank are distinguished by their names."""
    twice = len({(x.rank, x.device) for x in ledgers}) < len(ledgers)
    return _place(group, ledgers, short_names([x.trace for x in ledgers]) if twice else {})


def _place(group: LedgerGroup, ledgers: Sequence[DeviceLedger], named: Mapping[str, str]) -> str:
    place = devices_words(group.members, alone=_is_alone(ledgers))
    ledger = group.worst
    if named and len(group.members) == 1 and ledger.rank is not None:
        return f"{place} in {named[ledger.trace]}"
    return place


def _flops_line(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """Return MFU and HFU of the run, or why they are unknown.

    Nothing is said where nothing can be judged, and of shapes only where PyTorch's profiler could have recorded them.
    """
    uses = diagnosis.flops
    if not uses or (uses[0].mfu is None and _is_unjudged(diagnosis)):
        return ()
    shapes_are_missing = uses[0].reason in WITHOUT_OPERATORS
    if shapes_are_missing and not any(_could_have_shapes(trace) for trace in diagnosis.traces):
        return ()
    place = f"{uses[0].place}: " if len(uses) > 1 else ""
    return (Paragraph(f"{place}{uses[0].words}", label=Text("FLOPs utilisation", "strong")),)


def _captured_line(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """Return for how much of the replayed graphs captures tell the operators."""
    if diagnosis.captured_share is None:
        return ()
    words = f"captures name the operators for {percent(diagnosis.captured_share)} of their time"
    return (Paragraph(words, label=Text("Replayed graphs", "strong")),)


def _is_unjudged(diagnosis: Diagnosis) -> bool:
    return any(finding.severity == "blocker" or finding.rule == TOO_LITTLE for finding in diagnosis.findings)


def _could_have_shapes(trace: TraceSummary) -> bool:
    return trace.recorder != "nsys" and trace.framework in ("pytorch", "sglang", "vllm", "tensorrt-llm")


def flops_sections(uses: Sequence[FlopsUse], *, verbose: bool) -> list[Section]:
    """Return how much of their peak rate devices reached; all of them together unless each is asked for."""
    if not uses:
        return []
    shown = uses if verbose else uses[:1]
    blocks = [Paragraph(use.words, label=Text(use.place, "label") if len(uses) > 1 else None) for use in shown]
    hidden = len(uses) - len(shown)
    blocks += [Paragraph(f"and {hidden} more; -v lists them", role="dim")] if hidden else []
    notes = (Text(uses[0].note, "dim"),) if uses[0].note else ()
    return [Section(tuple(blocks), Heading("FLOPs utilisation", notes))]


def _is_alone(ledgers: Sequence[DeviceLedger]) -> bool:
    return len({ledger.trace for ledger in ledgers}) == 1


def _distance(a: DeviceLedger, b: DeviceLedger) -> float:
    shares_a, shares_b = ({name: ns / x.window_ns for name, ns in x.buckets if x.window_ns} for x in (a, b))
    names = shares_a.keys() | shares_b.keys()
    buckets = max((abs(shares_a.get(name, 0.0) - shares_b.get(name, 0.0)) for name in names), default=0.0)
    longer = max(step_ns(a), step_ns(b), 1.0)
    return max(buckets, abs(step_ns(a) - step_ns(b)) / longer)


MOST_CLASSES = 4
LEAST_CLASS_SHARE = 0.01
MOSTLY_SHARE = 0.5
MOST_KERNELS = 3
MOST_KERNELS_VERBOSE = 5
# With many findings each line counts, and these say less.
MOST_KERNELS_BESIDE_FINDINGS = 2
MANY_FINDINGS = 4
CLASS_WORDS = {"graph": "graphs recorded whole"}


def kernel_blocks(ledger: DeviceLedger, *, most: int, place: str = "") -> tuple[Block, ...]:
    """Return the largest classes as one line, and a table of the top kernels; nothing where no kernel computes."""
    if not ledger.top_kernels:
        return ()
    label = Text("What the GPU computes", "strong")
    classes = classes_words(ledger)
    other = next((item.share for item in ledger.kernel_classes if item.name == "other"), 0.0)
    if MOSTLY_SHARE <= other < 1:
        # The kernels themselves say more than such a class.
        classes, most = f"mostly kernels of no known class ({percent(other)} of kernel time)", max(most, MOST_KERNELS)
    words = f"{f'{place}: ' if place else ''}{classes}"
    rows = tuple(
        (name_words(kernel.name), percent(kernel.share), f"{kernel.call_count:,}", duration(kernel.mean_ns))
        for kernel in ledger.top_kernels[:most]
    )
    share = "of the step" if ledger.step_count else "of the time"
    return (
        Paragraph(words, label=label),
        Table(("top kernels", share, "calls", "mean"), rows, right=frozenset({1, 2, 3})),
    )


def classes_words(ledger: DeviceLedger) -> str:
    """Say what the largest classes of kernels are and how much of the kernel time they take."""
    largest = [item for item in ledger.kernel_classes[:MOST_CLASSES] if item.share >= LEAST_CLASS_SHARE]
    if [item.name for item in largest] == ["other"]:
        return "kernels of no known class, such as a program's own"
    classes = ", ".join(
        f"{CLASS_WORDS.get(item.name, item.name)} {item.share:.0%}".replace("%", " %") for item in largest
    )
    return f"{classes} of kernel time" if classes else ""


def kernels_shown(finding_count: int, *, verbose: bool) -> int:
    """Return how many top kernels a report with this many findings shows of a device."""
    if verbose:
        return MOST_KERNELS_VERBOSE
    return MOST_KERNELS if finding_count < MANY_FINDINGS else MOST_KERNELS_BESIDE_FINDINGS
