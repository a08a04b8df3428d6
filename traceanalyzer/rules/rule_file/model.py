"""What a rule is: plain data read from one YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError, on_one_line

FINDING = "finding"
QUALITY = "quality"
EXPLANATION = "explanation"
KINDS = (FINDING, QUALITY, EXPLANATION)
FINDINGS = "findings"
DEVICE, RUN, HOST, TRACE = SCOPES = ("device", "run", "host", "trace")
AUTO = "auto"
CLAIMED = "claimed"
EFFORTS = ("recording", "one-line", "config", "code", "redesign")
EXPERIMENTAL = "experimental"
STATUSES = ("stable", EXPERIMENTAL)
CONFIDENCES = ("low", "medium", "high")
FIRED, CLEAR, ABSTAINED = STATES = ("fired", "clear", "abstained")

ParamValue = int | float | str | bool


@dataclass(frozen=True)
class Mistake:
    """Something wrong with a rule file: where, what, and what to do about it."""

    path: Path
    line: int
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        """Return the mistake on one line and its hint on another, whatever line breaks names and texts hold."""
        text = on_one_line(f"{self.path}:{self.line}: {self.what}")
        return text if self.hint is None else f"{text}\n  hint: {on_one_line(self.hint)}"


class RuleFilesError(TraceAnalyzerError):
    """Every mistake of every rule file that was read."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        count = f"{len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''} in rule files"
        super().__init__("\n".join([count, *(indent(str(mistake), "  ") for mistake in mistakes)]))
        self.mistakes = mistakes


@dataclass(frozen=True)
class Param:
    """A number (or text) of a rule that users may set, with the reason for its default."""

    name: str
    default: ParamValue
    why: str
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Abstention:
    """A condition under which the rule abstains, with its reason."""

    when: str
    reason: str
    detail: str | None = None


@dataclass(frozen=True)
class Claims:
    """The time a finding may own: ledger rows of some causes, or kernels; both empty: none."""

    causes: tuple[str, ...] = ()
    where: str | None = None  # condition on ledger_rows that narrows the causes
    charged_to: str | None = None  # blame_rank: rows count for the rank that they wait for, not for their own
    compute_ops: str | None = None  # condition on kernel_class

    @property
    def is_empty(self) -> bool:
        """Whether the rule owns no time."""
        return not self.causes and self.compute_ops is None


@dataclass(frozen=True)
class ConfidenceDrop:
    """A condition that lowers the confidence of a finding."""

    when: str
    to: str
    because: str


@dataclass(frozen=True)
class EvidenceQuery:
    """A SELECT whose rows prove a finding; the fired row's columns are its $parameters."""

    title: str
    select: str


@dataclass(frozen=True)
class RuleFix:
    """A fix and the condition on the fired row under which it applies."""

    text: str
    code: str | None = None
    lang: str = "python"
    effort: str = "code"
    when: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)  # column of the fired row that says what a word stands for


@dataclass(frozen=True)
class RuleTest:
    """One inline test: a simulated workload or literal tables, and what the rule must say."""

    name: str
    line: int
    expect: Mapping[str, Any]
    sim: Mapping[str, Any] | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, ParamValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """A condition over metrics, with what it requires, claims and advises.

    `lines` maps a key of the file ('select', 'abstain.0.when', …) to its line, for messages.
    """

    id: str
    title: str
    kind: str
    # device: each by itself; run: they are compared; host: a trace of a run without GPU work; trace: of a quality rule
    scope: str
    severity: str
    status: str  # experimental: no real trace has shown it yet
    blocks: str  # of a blocker: findings, all that claim time where it fired; run, only what holds ranks together
    requires: tuple[str, ...]
    params: Mapping[str, Param]
    select: str
    ops: str | None  # SELECT trace_id, op_id, …: the GPU operations meant; `selected_ops` in the file's other SQL
    abstain: tuple[Abstention, ...]
    when: str
    clear_without: str | None  # what follows FROM in a cheap query; the rule is clear everywhere where it has no row
    claims: Claims
    removes: tuple[str, ...]  # causes that the fix takes away: the claimed ones unless the file says less
    removes_claimed: bool  # of these causes only the host time that led to the claimed rows, not all of their time
    op_saving: str | None  # SELECT trace_id, op_id, saving_ns and maybe left_out: how the fix shortens GPU operations
    confidence: str
    lower: tuple[ConfidenceDrop, ...]
    message: str
    why: str
    evidence: tuple[EvidenceQuery, ...]
    fixes: tuple[RuleFix, ...]
    references: tuple[str, ...]
    refines: tuple[str, ...]
    attaches_to: tuple[str, ...]  # of an explanation: the findings that it may explain
    tests: tuple[RuleTest, ...]
    path: Path
    lines: Mapping[str, int]
    reads: tuple[str, ...] = ()  # the tables and metrics that `sql` reads, as often as it names them

    @property
    def sql(self) -> str:
        needed = None if self.clear_without is None else f"FROM {self.clear_without}"
        texts = [self.select, self.when, self.severity, self.op_saving, needed]
        texts += [self.claims.where, self.claims.compute_ops]
        texts += [item.when for item in self.abstain] + [item.when for item in self.lower]
        texts += [item.when for item in self.fixes]
        texts += [item.select for item in self.evidence]
        return "\n".join(text or "" for text in texts)

    @property
    def removal_sql(self) -> str:
        """The SQL that says what the fix takes away, beside causes."""
        claimed = (self.claims.where, self.claims.compute_ops) if self.removes_claimed else ()
        return "\n".join(text or "" for text in (self.op_saving, *claimed))

    @property
    def says_its_bound(self) -> bool:
        """Whether the rule's select works out itself what a fix saves, instead of the replay."""
        return not self.claims.is_empty and not self.removes and self.op_saving is None

    def line(self, key: str) -> int:
        """Return the line of a key, or of the nearest key above it."""
        while key not in self.lines and "." in key:
            key = key.rpartition(".")[0]
        return self.lines.get(key, 1)

    def values(self, settings: Mapping[str, ParamValue] | None = None) -> dict[str, ParamValue]:
        """Return the value of every parameter, defaults replaced by `settings`."""
        return {name: param.default for name, param in self.params.items()} | dict(settings or {})
