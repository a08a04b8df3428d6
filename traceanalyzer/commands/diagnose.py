"""`traceanalyzer diagnose`: ranked findings about a run."""

from __future__ import annotations

import functools
import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from traceanalyzer.commands.output import also_option, chosen_format, parse_also, report_options, written
from traceanalyzer.commands.run_options import (
    RunOptions,
    Sectioned,
    cluster_options,
    no_settings_option,
    opened,
    several_run_options,
    step_options,
    with_options,
)
from traceanalyzer.diagnosis import DETAIL_RANKS, SEVERITIES, DetailRanks, Diagnosis
from traceanalyzer.diagnosis.verdict import has_unjudged_traces
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.report.brief import brief_lines
from traceanalyzer.report.diagnosis_blocks import Selection
from traceanalyzer.text.visible import become_utf8, visible
from traceanalyzer.text.words import counted, ranges

if TYPE_CHECKING:
    from traceanalyzer.comparison.gate import GateResult
    from traceanalyzer.run import Run

EXIT_FINDING = 1
EXIT_BLOCKED = 3
_MOST_LISTED = 100_000


def _detail_rank_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for which ranks to quote evidence of, passed as one `DetailRanks`."""

    @functools.wraps(command)
    def gathered(most_opened: int | None, open_ranks: str | None, level: str, **rest: Any) -> Any:
        return command(opening=_detail_ranks(most_opened, open_ranks, level), **rest)

    return with_options(
        gathered,
        click.option(
            "--open",
            "most_opened",
            type=click.IntRange(min=0),
            metavar="N",
            help="Quote evidence of at most N ranks, by default 64; every rank is screened by every rule.",
        ),
        click.option("--open-ranks", metavar="LIST", help="Quote evidence of these ranks: 17,131 or 8-15."),
        click.option(
            "--level",
            type=click.Choice(["auto", "screen", "full"]),
            default="auto",
            help="Quote evidence of no rank (screen) or of all (full) instead.",
        ),
    )


@click.command(cls=Sectioned)
@several_run_options
@step_options
@cluster_options
@report_options(
    (
        "A report to read, the same as Markdown or as a page for a browser, everything as JSON (docs/json.md), or "
        "findings as JUnit or SARIF."
    ),
    "report",
    formats.DIAGNOSIS_FORMATS,
)
@also_option(formats.DIAGNOSIS_FORMATS)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    metavar="LEVEL",
    help="Exit with 1 when a finding is this severe or worse: " + ", ".join(SEVERITIES) + ".",
)
@click.option(
    "--rules",
    "rule_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Also use the rules in this file or folder; may be repeated.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="RULE.PARAM=VALUE",
    help="Set a parameter of a rule; may be repeated. Example: dataloader-bound.min_share=10%",
)
@click.option(
    "--step",
    "steps",
    metavar="N",
    help="Analyze this step alone, or the steps A-B, warm-up or not; by default all steps that the trace shows whole.",
)
@click.option("--brief", is_flag=True, help="Three lines alone: the verdict, its cause, and the fix.")
@click.option("--rank", type=int, metavar="N", help="Show findings and ledger of this rank only; not for JSON.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show the first N findings only; not for JSON.")
@_detail_rank_options
@click.option(
    "--missing",
    type=click.Choice(["tell", "fail"]),
    default="tell",
    help="Exit with 3 where a rank of the job is missing or a file cannot be read (fail); else the report says so.",
)
@click.option(
    "--from-store", is_flag=True, help="Read no trace: leave out what `store part` jobs have not put into the store."
)
@no_settings_option
@click.option(
    "--budgets", "with_budgets", is_flag=True, help="Exit with 1 when a budget of traceanalyzer.toml is exceeded."
)
@click.option(
    "--source-root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Folder of the program's sources, for SARIF; by default the repository's root.",
)
def diagnose(
    options: RunOptions,
    layout: str | None,
    output: Path | None,
    further: tuple[str, ...],
    fail_on: str | None,
    rule_paths: tuple[Path, ...],
    assignments: tuple[str, ...],
    steps: str | None,
    brief: bool,
    rank: int | None,
    top: int | None,
    opening: DetailRanks,
    missing: str,
    from_store: bool,
    no_settings: bool,
    with_budgets: bool,
    source_root: Path | None,
) -> None:
    """Say what limits a run, how to fix it, and how much time each fix can save.

    Findings are ranked by what fixing them can save, each with evidence to look up in a trace viewer and with the fix.
    The report is short: -v adds definitions, more fixes and evidence, and for each skipped rule what to record.

    Exits with 3 where the traces allow no diagnosis: no GPU work is in them, or something makes one of them worthless.
    """
    format_ = chosen_format(layout, output, formats.DIAGNOSIS_FORMATS)
    if brief and format_ != "terminal":
        raise click.UsageError("--brief is text; it goes without --format and with an --output that implies none")
    params = dict(_assigned(text) for text in assignments)
    files = parse_also(further, formats.DIAGNOSIS_FORMATS)
    chosen = replace(options.request.options, steps=_chosen_steps(steps))
    options = options.asking(options=chosen, with_settings=not no_settings, from_store=from_store)
    with opened(options, shows_left_out=True) as (run, activity):
        activity.phase("ranking findings")
        diagnosis = run.diagnose(rule_paths, params, opening=opening)
        lacking = _lacking(run, diagnosis) if missing == "fail" else None
        gate = _check_budgets(run, diagnosis) if with_budgets else None
        write = functools.partial(
            formats.write_diagnosis,
            diagnosis,
            verbose=options.verbose,
            selection=_selection(diagnosis, rank, top),
            run=run,
            gate=gate,
            source_root=source_root,
        )
        if formats.PAGES.keys() & {format_, *(also_format for also_format, _ in files)}:
            activity.phase("drawing the page")
        for also_format, file in files:
            with written(file) as stream:
                write(also_format, stream)
        # The line about progress ends before the report begins.
        text = "".join(f"{line}\n" for line in brief_lines(diagnosis)) if brief else _text(write, format_)
    with written(output) as stream:
        if format_ != "terminal":
            become_utf8(stream)
        stream.write(text)
    click.get_current_context().exit(_exit_code(diagnosis, lacking, fail_on, gate))


def _text(write: Callable[[str, TextIO], object], format_: str) -> str:
    text = io.StringIO()
    write(format_, text)
    return text.getvalue()


def _detail_ranks(most: int | None, listed: str | None, level: str) -> DetailRanks:
    """Return which ranks to quote evidence of."""
    ranks: list[int] = []
    for part in listed.split(",") if listed is not None else ():
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + _MOST_LISTED:
            raise TraceAnalyzerError(f"{part!r} names no ranks", "--open-ranks", "for example 17,131 or 8-15")
        ranks += range(first, last + 1)
    if level != "auto" and (most is not None or ranks):
        raise TraceAnalyzerError(f"--level {level} says which ranks", "--open", "give one of both")
    by_level = {"auto": DETAIL_RANKS if most is None else most, "screen": 0, "full": sys.maxsize}
    return DetailRanks(by_level[level], tuple(ranks))


def _chosen_steps(text: str | None) -> tuple[int, int] | None:
    """Return the first and the last step of `3` or `3-7`."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise TraceAnalyzerError(f"{text!r} names no steps", "--step", "a number, or the first and the last one: 3-7")
    return int(match[1]), int(match[2] or match[1])


def _selection(diagnosis: Diagnosis, rank: int | None, top: int | None) -> Selection:
    """Return what to show; raises where the run has no such rank, whatever the format."""
    selection = Selection(rank, top)
    selection.of(diagnosis)
    return selection


def _lacking(run: Run, diagnosis: Diagnosis) -> str | None:
    """Say what a run lacks of its job: ranks, and files that were left out; None: nothing."""
    world = max((trace.world_size or 0 for trace in diagnosis.traces), default=0)
    absent = set(range(world)) - {trace.rank for trace in diagnosis.traces}
    words = [f"{ranges([*absent])} of {world:,}"] if absent else []
    if run.unreadable:
        words.append(f"{counted(len(run.unreadable), 'file')} left out")
    return "; ".join(words) or None


def _check_budgets(run: Run, diagnosis: Diagnosis) -> GateResult:
    from traceanalyzer.commands.comparing import check_budgets

    return check_budgets(run, diagnosis)


def _exit_code(diagnosis: Diagnosis, lacking: str | None, fail_on: str | None, gate: GateResult | None) -> int:
    """Return the command's exit code, and say on standard error what failed."""
    if lacking is not None:
        sys.stdout.flush()
        click.echo(f"failed on missing ranks: {lacking}", err=True)
        return EXIT_BLOCKED
    if has_unjudged_traces(diagnosis):
        return EXIT_BLOCKED
    reached = {} if fail_on is None else _reached(diagnosis, fail_on)
    if reached:
        sys.stdout.flush()
        rules = ", ".join(f"{rule} ({severity})" for rule, severity in reached.items())
        click.echo(f"failed on {fail_on} or worse: {visible(rules)}", err=True)
    if gate is not None:
        from traceanalyzer.commands.comparing import tell_gate

        sys.stdout.flush()
        tell_gate(gate)
    return EXIT_FINDING if reached else 0 if gate is None else gate.exit_code()


def _assigned(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    rule, dot, param = name.strip().rpartition(".")
    if not (equals and dot and rule and param):
        raise TraceAnalyzerError(
            f"{text!r} is not RULE.PARAM=VALUE", "--set", "for example --set dataloader-bound.min_share=0.1"
        )
    return f"{rule}.{param}", value.strip()


def _reached(diagnosis: Diagnosis, level: str) -> dict[str, str]:
    """Return the rules whose findings are this severe or worse, each with its worst severity."""
    floor = SEVERITIES.index(level)
    severe = [finding for finding in diagnosis.findings if SEVERITIES.index(finding.severity) >= floor]
    severe.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return {finding.rule: finding.severity for finding in severe}
