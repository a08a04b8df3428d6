"""What a rule is: plain data read from one YAML file.

Messages are templates, text with {column:format} and nothing else of Python's; fixes hold names of the trace.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Formatter
from textwrap import indent
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError, on_one_line
from traceanalyzer.text.words import readable, with_bucket_words

FINDING = "finding"
QUALITY = "quality"
EXPLANATION = "explanation"
KINDS = (FINDING, QUALITY, EXPLANATION)
FINDINGS = "findings"
DEVICE, RUN, HOST, TRACE = SCOPES = ("device", "run", "host", "trace")
# What a rule looks at.
SCOPE_WORDS = {
    DEVICE: "each device",
    RUN: "each rank against the others",
    HOST: "each trace of a run without GPU work",
    TRACE: "each trace",
}
AUTO = "auto"
CLAIMED = "claimed"
EFFORTS = ("recording", "one-line", "config", "code", "redesign")
EXPERIMENTAL = "experimental"
STATUSES = ("stable", EXPERIMENTAL)
CONFIDENCES = ("low", "medium", "high")
FIRED, CLEAR, ABSTAINED = STATES = ("fired", "clear", "abstained")

ParamValue = int | float | str | bool


def flowing(text: str) -> str:
    """Return a text without the line breaks that its file has for readers."""
    return " ".join(text.split())


def line_of(lines: Mapping[str, int], key: str) -> int:
    """Return the line of a dotted path in a rule file, or of the nearest one above it."""
    while key not in lines and "." in key:
        key = key.rpartition(".")[0]
    return lines.get(key, 1)


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
    rows: str | None  # SELECT trace_id, device, row_id, …: the rows of the ledger meant; `selected_rows` there
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
        texts = [self.select, self.severity, self.op_saving, needed, self.claims.where, self.claims.compute_ops]
        texts += [condition for _, condition in self.conditions()]
        texts += [item.select for item in self.evidence]
        return "\n".join(text or "" for text in texts)

    @property
    def intervention_sql(self) -> str:
        """The SQL that says what the fix takes away, beside causes."""
        claimed = (self.claims.where, self.claims.compute_ops) if self.removes_claimed else ()
        return "\n".join(text or "" for text in (self.op_saving, *claimed))

    @property
    def says_its_bound(self) -> bool:
        """Whether the rule's select works out itself what a fix saves, instead of the replay."""
        return not self.claims.is_empty and not self.removes and self.op_saving is None

    @property
    def severity_words(self) -> str:
        """How severe what it finds is, or on what that depends."""
        return "from what it can save" if self.severity == AUTO else self.severity

    @property
    def claims_words(self) -> str:
        """What time a finding of it may own."""
        if self.claims.compute_ops is not None:
            return f"kernels where {flowing(self.claims.compute_ops)}"
        where = "" if self.claims.where is None else f" where {flowing(self.claims.where)}"
        return ", ".join(self.claims.causes) + where if self.claims.causes else "none"

    def conditions(self) -> Iterator[tuple[str, str]]:
        """Yield each condition over the columns of `select`, by its key."""
        yield "when", self.when
        parts: dict[str, Sequence[Abstention | ConfidenceDrop | RuleFix]]
        parts = {"abstain": self.abstain, "lower": self.lower, "fixes": self.fixes}
        for part, items in parts.items():
            yield from ((f"{part}.{index}.when", item.when) for index, item in enumerate(items) if item.when)

    def mistake(self, key: str, what: str, hint: str | None = None, line: int = 1) -> Mistake:
        """Return something wrong with the rule, at a line of the text of a key."""
        return Mistake(self.path, line_of(self.lines, key) + line - 1, what, hint)

    def values(self, settings: Mapping[str, ParamValue] | None = None) -> dict[str, ParamValue]:
        """Return the value of every parameter, defaults replaced by `settings`."""
        return {name: param.default for name, param in self.params.items()} | dict(settings or {})


# A wider number is no number for people, and a width of a billion is memory for a billion characters.
MAX_WIDTH = 40
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def template_fields(template: str) -> list[tuple[str, str]]:
    """Return the (column, format) pairs of a template; raises ValueError with the reason when it is malformed."""
    fields = []
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier():
            raise ValueError(f"'{{{name}}}' is not a column name")
        if conversion or "{" in (spec or ""):
            raise ValueError(f"'{{{name}}}' may only carry a format, as in {{{name}:.1f}}")
        if any(
            len(digits) > 3 or int(digits) > MAX_WIDTH for digits in re.findall(r"[0-9]+", _number_spec(spec or ""))
        ):
            raise ValueError(f"'{{{name}}}' may be at most {MAX_WIDTH} characters wide, with as many decimals")
        if (spec or "").count("|") > 1 or "|" in _number_spec(spec or ""):
            raise ValueError(f"'{{{name}}}' takes two words, for one and for many, as in {{{name}:.0f copy|copies}}")
        fields.append((name, spec or ""))
    return fields


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return the template with its columns filled in; NULL reads 'unknown'."""
    text = []
    for literal, name, spec, _ in Formatter().parse(template):
        text.append(literal)
        if name is not None:
            text.append(format_value(values[name], spec or ""))
    return flowing("".join(text))


def with_name(text: str, word: str, name: str) -> str:
    """Return a text in which a name stands for a word."""
    return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: name, text)


def format_value(value: Any, spec: str) -> str:
    """Return a value in a Python format, or as `bytes` (binary units), `dur` (nanoseconds) or `bucket` for people.

    Behind a space and with a bar between them, a format names what is counted: of one, and of any other number.
    """
    if "|" in spec:
        number_spec, words = _number_spec(spec), spec.partition(" ")[2]
        one, _, many = words.partition("|")
        number = format_value(value, number_spec or ",")
        return f"{number} {one if number == '1' else many}"
    if value is None:
        return "unknown"
    if spec == "bytes":
        return _bytes(float(value))
    if spec == "dur":
        return _duration(float(value))
    if spec == "bucket":
        return with_bucket_words(str(value))
    # Thousands are separated as in tables.
    text = format(value, f",{spec}" if spec.startswith(".") and spec.endswith("f") else spec)
    return text.replace("%", " %") if spec.endswith("%") else text


def _number_spec(spec: str) -> str:
    """Return the part of a format that is about the number, without the words for one and for many."""
    return spec.partition(" ")[0] if "|" in spec else spec


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit always returns")


def _duration(dur_ns: float) -> str:
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(dur_ns) >= scale:
            return f"{dur_ns / scale:.1f} {unit}"
    return f"{dur_ns:.0f} ns"


# Names come from whoever wrote the trace, and people paste snippets into a shell.
_PASTED = re.compile(r"[A-Za-z_][\w.]{0,119}|[0-9]{1,19}(-[0-9]{1,19})?")


def with_trace_names(fix: RuleFix, row: Mapping[str, Any] | None, run: str = "") -> RuleFix:
    """Return a fix with the names of the trace in place of its words, where a name is one that can be pasted.

    In a command of the shell the word RUN stands for the path of the run.
    """
    text, code = fix.text, fix.code
    for word, column in fix.names.items():
        recorded = (row or {}).get(column)
        name = readable(recorded).partition("<")[0] if isinstance(recorded, str) else ""
        if _PASTED.fullmatch(name):
            text, code = with_name(text, word, name), code and with_name(code, word, name)
    if run and code and fix.lang == "bash":
        code = with_name(code, "RUN", shlex.quote(run))
    return replace(fix, text=text, code=code)
