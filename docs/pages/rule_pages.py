"""A page for each built-in rule, and their index."""

from __future__ import annotations

from pages.example_finding import example_of
from pages.markdown import code_block, paragraphs, prose, table
from traceanalyzer.rules import builtin_folder
from traceanalyzer.rules.rule_file.model import (
    CLEAR,
    EXPLANATION,
    FINDING,
    QUALITY,
    SCOPE_WORDS,
    Rule,
    RuleFix,
    flowing,
)
from traceanalyzer.rules.rule_set.loading import load_rules

_LONG_CONDITION = 160
_KINDS = {
    FINDING: ("Problems of the program", "A finding says what can be saved, and how."),
    EXPLANATION: ("Reasons", "A reason stands under the finding that it explains, and claims no time of its own."),
    QUALITY: ("Problems of the trace", "These say how far the trace can be trusted, and how to record a better one."),
}


def rule_pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    rules = load_rules()
    by_id = {rule.id: rule for rule in rules}
    return {"README.md": _index(rules)} | {f"{rule.id}.md": _page(rule, by_id) for rule in rules}


def _index(rules: list[Rule]) -> str:
    parts = [
        "# Rules\n",
        f"{len(rules)} rules come with traceanalyzer; each page is made from the rule's file by `make docs`. "
        "[How to write one](../../rules/README.md).\n",
    ]
    for kind, (title, what) in _KINDS.items():
        rows = [
            (f"[`{rule.id}`]({rule.id}.md)", prose(rule.title), ", ".join(f"`{need}`" for need in rule.requires) or "—")
            for rule in rules
            if rule.kind == kind
        ]
        parts += [f"## {title}\n", f"{what}\n", table(("rule", "finds", "needs in the trace"), rows)]
    return "\n".join(parts)


def _page(rule: Rule, rules: dict[str, Rule]) -> str:
    example = example_of(rule, rules)
    parts = [
        f"# {prose(rule.title)}\n",
        f"`{rule.id}` · {_facts(rule)}\n",
        paragraphs(flowing(rule.why)) if rule.why else "",
        "## When it fires\n",
        code_block(rule.when, "sql"),
        _relations(rule, rules),
        "## When it is silent\n",
        "".join(f"- {line}\n" for line in _silent(rule)),
        "## Example\n",
        f"From its test “{example.test}”:\n",
        example.text,
    ]
    if rule.fixes:
        parts += ["## Fixes\n", *map(_fix, rule.fixes)]
    if rule.params:
        parts += ["## Parameters\n", f"`--set {rule.id}.NAME=VALUE` or [the project's settings](../settings.md).\n"]
        rows = [
            (f"`{item.name}`", f"`{item.default}`", item.unit or "—", prose(item.why)) for item in rule.params.values()
        ]
        parts.append(table(("name", "default", "unit", "why"), rows))
    parts += [
        "## See also\n",
        f"- [the rule's file](../../rules/{rule.path.relative_to(builtin_folder())}), with its query and tests\n",
    ]
    parts[-1] += "".join(f"- <{address}>\n" for address in rule.references)
    return "\n".join(part for part in parts if part)


def _facts(rule: Rule) -> str:
    severity = rule.severity_words if len(rule.severity_words.split()) < 6 else "by its values"
    facts = [rule.kind, *([] if rule.kind == QUALITY else [f"looks at {SCOPE_WORDS[rule.scope]}"])]
    facts += [] if rule.kind == EXPLANATION else [f"severity {severity}"]
    return " · ".join([*facts, f"{rule.confidence} confidence at most"])


def _relations(rule: Rule, rules: dict[str, Rule]) -> str:
    lines = [f"It needs {', '.join(f'`{need}`' for need in rule.requires) or 'nothing special'} in the trace."]
    if rule.claims_words != "none":
        lines.append(_claims(rule))
    if rule.attaches_to:
        lines.append(f"It explains {_links(rule.attaches_to, rules)}.")
    if rule.refines:
        lines.append(f"It is a special case of {_links(rule.refines, rules)}, and takes its part of their time first.")
    return " ".join(lines) + "\n"


def _claims(rule: Rule) -> str:
    """Say what time a rule claims; a condition of many lines is better read in the rule's file."""
    claimed, _, condition = rule.claims_words.partition(" where ")
    if len(condition) > _LONG_CONDITION:
        return f"It claims a part of the time of `{claimed}`: the condition is in the rule's file."
    return f"It claims the time of `{rule.claims_words}`."


def _links(names: tuple[str, ...], rules: dict[str, Rule]) -> str:
    return ", ".join(f"[`{name}`]({name}.md)" if name in rules else f"`{name}`" for name in names)


def _silent(rule: Rule) -> list[str]:
    lines = [f"It abstains (`{item.reason}`) where `{flowing(item.when)}`." for item in rule.abstain]
    lines += [
        f"Its confidence falls to {prose(f'{item.to}: {item.because}')}, where `{flowing(item.when)}`."
        for item in rule.lower
    ]
    silent = [test.name for test in rule.tests if test.expect["state"] == CLEAR]
    return [*lines, *(f"Tested: {prose(name)}." for name in silent)] or ["Where its condition does not hold."]


def _fix(fix: RuleFix) -> str:
    where = f" *Where `{' '.join(fix.when.split())}`.*" if fix.when else ""
    text = paragraphs(fix.text).rstrip("\n") + where + "\n"
    return text + (f"\n{code_block(fix.code, fix.lang)}" if fix.code else "")
