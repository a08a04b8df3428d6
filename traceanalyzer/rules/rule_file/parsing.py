"""Turns a rule file into a Rule and collects everything that is wrong with its shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.errors import suggestion
from traceanalyzer.metrics import sources_in
from traceanalyzer.rules.rule_file import model
from traceanalyzer.rules.rule_file.document import YamlDocument
from traceanalyzer.rules.rule_file.model import template_fields, with_name
from traceanalyzer.rules.rule_file.sql_text import in_place_of, swallowed_if_folded

ID_PATTERN = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
ID_LENGTH = 40
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
# The keys of a rule and of each of its parts: those that must be there, then the others.
REQUIRED: dict[str, tuple[str, ...]] = {
    "": ("id", "title", "when", "message", "why", "fixes", "references", "tests"),
    "params": ("default", "why"),
    "abstain": ("when", "reason"),
    "claims": (),
    "lower": ("when", "to", "because"),
    "evidence": ("title", "select"),
    "fixes": ("text",),
    "tests": ("name", "expect"),
}
_OPTIONAL = {
    "": (
        *(
            "kind",
            "scope",
            "severity",
            "status",
            "blocks",
            "requires",
            "params",
            "ops",
            "rows",
            "select",
            "abstain",
            "lower",
        ),
        *("clear_without", "claims", "removes", "op_saving", "confidence", "evidence", "refines", "attaches_to"),
    ),
    "params": ("min", "max", "unit"),
    "abstain": ("detail",),
    "claims": ("causes", "where", "compute_ops", "charged_to"),
    "fixes": ("code", "lang", "effort", "when", "names"),
    "tests": ("sim", "tables", "params"),
}
KEYS = {part: (*required, *_OPTIONAL.get(part, ())) for part, required in REQUIRED.items()}
# What a rule's select may read when it does not say: the engine's own table of the rule's bound.
DEFAULT_SELECT = "SELECT * FROM bound"
# What a rule's other SQL calls the rows of these keys.
SELECTED = {"ops": "selected_ops", "rows": "selected_rows"}
_NOT_OF_EXPLANATIONS = ("claims", "removes", "op_saving", "refines", "severity")


def parse_rule(document: YamlDocument, *, tests: bool = True) -> tuple[model.Rule | None, list[model.Mistake]]:
    """Return the rule of a file and every mistake in it; with `tests`, a rule without tests is one.

    A rule with mistakes holds what could be read of it, and empty text for the rest, so that this can be checked
    further. The rule is None where nothing could be read.
    """
    parser = _Parser(document, [key for key in REQUIRED[""] if tests or key != "tests"])
    rule = parser.rule() if document.values else None
    mistakes = [*document.mistakes, *parser.mistakes]
    return rule, mistakes


class _Parser:
    """Reads each part of a rule; a part of the wrong shape becomes a mistake and an empty value."""

    def __init__(self, document: YamlDocument, required: Sequence[str]) -> None:
        self.document = document
        self.required = required
        self.mistakes: list[model.Mistake] = []
        self.selected: dict[str, str] = {}
        for key in SELECTED:
            if key in document.values:
                self.selected[key] = self._sql(key, document.values[key])

    def rule(self) -> model.Rule:
        top = self.document.values
        self._check_keys("", top)
        for key in self.required:
            if key not in top:
                self._mistake("", f"the key '{key}' is missing")
        kind = self._choice("kind", top.get("kind", model.FINDING), model.KINDS)
        params = self._params(top.get("params", {}))
        claims = self._claims(top.get("claims", []))
        rule = model.Rule(
            id=self._id(top.get("id")),
            title=self._text("title", top.get("title")),
            kind=kind,
            scope=self._scope(kind, top.get("scope", model.DEVICE)),
            severity=self._severity(kind, top.get("severity", model.AUTO)),
            status=self._choice("status", top.get("status", model.STATUSES[0]), model.STATUSES),
            blocks=self._blocks(kind, top),
            requires=self._texts("requires", top.get("requires", [])),
            params=params,
            select=self._sql("select", top.get("select", DEFAULT_SELECT)),
            ops=self.selected.get("ops"),
            rows=self.selected.get("rows"),
            abstain=tuple(
                model.Abstention(
                    self._sql(f"{key}.when", item.get("when")),
                    str(item.get("reason")),
                    self._template(f"{key}.detail", item["detail"]) if "detail" in item else None,
                )
                for key, item in self._items("abstain")
            ),
            when=self._condition("when", top.get("when")),
            clear_without=self._sql("clear_without", top["clear_without"]) if "clear_without" in top else None,
            claims=claims,
            removes=self._removes(top, claims),
            removes_claimed=top.get("removes") == model.CLAIMED,
            op_saving=self._sql("op_saving", top["op_saving"]) if "op_saving" in top else None,
            confidence=self._choice("confidence", top.get("confidence", "high"), model.CONFIDENCES),
            lower=tuple(
                model.ConfidenceDrop(
                    self._condition(f"{key}.when", item.get("when")),
                    self._choice(f"{key}.to", item.get("to"), model.CONFIDENCES),
                    str(item.get("because")),
                )
                for key, item in self._items("lower")
            ),
            message=self._template("message", top.get("message")),
            why=self._text("why", top.get("why")),
            evidence=self._evidence(),
            fixes=self._fixes(),
            references=self._references(top.get("references", [])),
            refines=self._texts("refines", top.get("refines", [])),
            attaches_to=self._attaches_to(kind, top),
            tests=self._tests(),
            path=self.document.path,
            lines=self.document.lines,
        )
        return replace(rule, reads=tuple(sources_in(rule.sql)))

    def _evidence(self) -> tuple[model.EvidenceQuery, ...]:
        return tuple(
            model.EvidenceQuery(
                self._text(f"{key}.title", item.get("title")), self._sql(f"{key}.select", item.get("select"))
            )
            for key, item in self._items("evidence")
        )

    def _mistake(self, key: str, what: str, hint: str | None = None) -> None:
        self.mistakes.append(model.Mistake(self.document.path, self.document.line(key), what, hint))

    def _check_keys(self, key: str, values: Mapping[str, Any], kind: str = "") -> None:
        for name in values:
            if name not in KEYS[kind]:
                # Inside {…} a comma ends a value, so the rest of an unquoted sentence reads as a key.
                hint = "put text that holds commas in quotes" if " " in name else suggestion(name, KEYS[kind])
                self._mistake(f"{key}.{name}".lstrip("."), f"unknown key: {name}", hint)

    def _text(self, key: str, value: Any) -> str:
        if isinstance(value, str) and value.strip():
            return value.strip()
        if value is not None or key.rpartition(".")[0]:
            self._mistake(key, f"'{key}' must be text")
        return ""

    def _condition(self, key: str, value: Any) -> str:
        # `when: true` and `when: 1` are YAML for what SQL writes the same way.
        return str(value).lower() if isinstance(value, bool | int) else self._sql(key, value)

    def _sql(self, key: str, value: Any) -> str:
        comment = swallowed_if_folded(self.document.folded.get(key, ""))
        if comment is not None:
            what = f"the comment '{_shortened(comment)}' swallows the lines behind it, which YAML makes one"
            self._mistake(key, what, "write the text after '|' instead of '>', or the comment as /* … */")
        text = self._text(key, value)
        for name, select in self.selected.items():
            text = in_place_of(SELECTED[name], select, text)
        return text

    def _texts(self, key: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._mistake(key, f"'{key}' must be a list of names")
        return ()

    def _choice(self, key: str, value: Any, choices: tuple[str, ...]) -> str:
        if value in choices:
            return str(value)
        self._mistake(key, f"'{key}' must be one of {', '.join(choices)}", suggestion(str(value), choices))
        return choices[0]

    def _items(self, key: str) -> list[tuple[str, dict[str, Any]]]:
        values, required = self.document.values.get(key, []), REQUIRED[key]
        if not isinstance(values, list):
            self._mistake(key, f"'{key}' must be a list")
            return []
        items = []
        for index, item in enumerate(values):
            place = f"{key}.{index}"
            if not isinstance(item, dict):
                self._mistake(place, f"an entry of '{key}' must be a mapping with {', '.join(required)}")
                continue
            self._check_keys(place, item, key)
            for name in required:
                if name not in item:
                    self._mistake(place, f"an entry of '{key}' lacks '{name}'")
            items.append((place, item))
        return items

    def _id(self, value: Any) -> str:
        if not isinstance(value, str) or not ID_PATTERN.fullmatch(value) or len(value) > ID_LENGTH:
            if "id" in self.document.values:
                self._mistake("id", f"'id' must be lower-case words joined by '-', at most {ID_LENGTH} characters")
            return self.document.path.stem
        if value != self.document.path.stem:
            self._mistake("id", f"the id is {value}, the file is {self.document.path.name}", "name both alike")
        return value

    def _attaches_to(self, kind: str, top: Mapping[str, Any]) -> tuple[str, ...]:
        if kind != model.EXPLANATION:
            if "attaches_to" in top:
                self._mistake("attaches_to", "only an explanation is attached to findings", "add 'kind: explanation'")
            return ()
        if not top.get("attaches_to"):
            self._mistake("kind", "an explanation names the findings that it may explain", "attaches_to: [rule-id]")
        for key in _NOT_OF_EXPLANATIONS:
            if top.get(key, "none") != "none":
                self._mistake(key, f"an explanation has no '{key}': time is saved by the finding that it explains")
        return self._texts("attaches_to", top.get("attaches_to", []))

    def _severity(self, kind: str, value: Any) -> str:
        if kind == model.QUALITY and value == model.AUTO:
            self._mistake("severity", "a quality rule says its severity: note, warning or blocker")
        text = self._text("severity", value)
        if re.fullmatch(r"[a-z]+", text) and text not in (*SEVERITIES, model.AUTO):
            self._mistake("severity", f"unknown severity: {text}", suggestion(text, (*SEVERITIES, model.AUTO)))
        return text

    def _scope(self, kind: str, value: Any) -> str:
        if value == (model.HOST if kind == model.QUALITY else model.TRACE):
            self._mistake("scope", f"a rule of kind '{kind}' has no scope '{value}'")
        return self._choice("scope", value, model.SCOPES)

    def _params(self, value: Any) -> dict[str, model.Param]:
        if not isinstance(value, dict):
            self._mistake("params", "'params' must be a mapping of names to {default, why}")
            return {}
        params = {}
        for name, item in value.items():
            key = f"params.{name}"
            if not _NAME.fullmatch(name):
                self._mistake(key, f"'{name}' is no parameter name; use lower_case_words")
            item = item if isinstance(item, dict) else {}
            if "default" not in item or not isinstance(item.get("why"), str):
                self._mistake(key, f"the parameter '{name}' needs a default and why it is so")
            self._check_keys(key, item, "params")
            default = item.get("default", 0)
            if not isinstance(default, int | float | str | bool):
                self._mistake(key, f"the default of '{name}' must be a number, text or true/false")
                default = 0
            why = str(item.get("why"))
            params[name] = model.Param(name, default, why, item.get("min"), item.get("max"), item.get("unit"))
        return params

    def _blocks(self, kind: str, top: Mapping[str, Any]) -> str:
        if "blocks" in top and kind != model.QUALITY:
            self._mistake("blocks", "only a quality rule blocks others")
        return self._choice("blocks", top.get("blocks", model.FINDINGS), (model.FINDINGS, model.RUN))

    def _removes(self, top: Mapping[str, Any], claims: model.Claims) -> tuple[str, ...]:
        if top.get("removes") == "none":
            return ()
        if top.get("removes") == model.CLAIMED:
            if claims.where is None or not all(cause.startswith("host.") for cause in claims.causes):
                self._mistake("removes", f"'{model.CLAIMED}' needs 'claims' of host causes with a 'where'")
            return claims.causes
        return self._texts("removes", top["removes"]) if "removes" in top else claims.causes

    def _claims(self, value: Any) -> model.Claims:
        if value == "none":
            return model.Claims()
        if isinstance(value, str | list):
            return model.Claims(causes=self._texts("claims", value))
        if not isinstance(value, dict):
            self._mistake("claims", "'claims' must be causes of the ledger, or {causes, where} or {compute_ops}")
            return model.Claims()
        self._check_keys("claims", value, "claims")
        return model.Claims(
            causes=self._texts("claims.causes", value.get("causes", [])),
            where=self._sql("claims.where", value["where"]) if "where" in value else None,
            compute_ops=self._sql("claims.compute_ops", value["compute_ops"]) if "compute_ops" in value else None,
            charged_to=self._charged_to(value),
        )

    def _charged_to(self, claims: Mapping[str, Any]) -> str | None:
        if "charged_to" not in claims:
            return None
        if self.document.values.get("scope") != model.RUN:
            self._mistake("claims.charged_to", "only a rule with 'scope: run' charges time to another rank")
        return self._choice("claims.charged_to", claims["charged_to"], ("blame_rank",))

    def _template(self, key: str, value: Any) -> str:
        text = self._text(key, value)
        try:
            template_fields(text)
        except ValueError as error:
            self._mistake(key, f"malformed template: {error}")
            return ""
        return text

    def _fixes(self) -> tuple[model.RuleFix, ...]:
        fixes = []
        for key, item in self._items("fixes"):
            code, lang = item.get("code"), str(item.get("lang", "python"))
            if code is not None and lang == "python":
                self._check_python(f"{key}.code", str(code))
            if f"{key}.code" in self.document.cut:
                what = f"YAML takes '{_shortened(self.document.cut[f'{key}.code'])}' for a comment of the file"
                self._mistake(f"{key}.code", what, "write the snippet after '|'")
            fixes.append(
                model.RuleFix(
                    text=self._text(f"{key}.text", item.get("text")),
                    code=None if code is None else str(code).strip("\n"),
                    lang=lang,
                    effort=self._choice(f"{key}.effort", item.get("effort", "code"), model.EFFORTS),
                    when=self._condition(f"{key}.when", item["when"]) if "when" in item else None,
                    names=self._names(f"{key}.names", item),
                )
            )
        if not fixes and "fixes" in self.document.values:
            self._mistake("fixes", "a rule names at least one fix")
        return tuple(fixes)

    def _names(self, key: str, fix: Mapping[str, Any]) -> dict[str, str]:
        names = fix.get("names", {})
        if not isinstance(names, dict) or not all(isinstance(part, str) for item in names.items() for part in item):
            self._mistake(key, "'names' must be a mapping of words in the fix to columns")
            return {}
        written = f"{fix.get('text')}\n{fix.get('code')}"
        for word in names:
            if with_name(written, word, "") == written:
                self._mistake(f"{key}.{word}", f"the fix does not hold the word '{word}'")
        return names

    def _check_python(self, key: str, code: str) -> None:
        try:
            ast.parse(code)
        # Python's parser answers deep nesting with the last two.
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            what = error.msg if isinstance(error, SyntaxError) else str(error) or "it nests too deep"
            self._mistake(key, f"the snippet is no Python: {what}", "'lang' says what else it is: bash, text …")

    def _references(self, value: Any) -> tuple[str, ...]:
        references = self._texts("references", value)
        for index, reference in enumerate(references):
            if not reference.startswith("https://"):
                self._mistake(f"references.{index}", f"a reference is an https address: {reference}")
        return references

    def _tests(self) -> tuple[model.RuleTest, ...]:
        tests = []
        for key, item in self._items("tests"):
            expect = item.get("expect")
            if not isinstance(expect, dict) or expect.get("state") not in model.STATES:
                self._mistake(f"{key}.expect", f"'expect' needs a state: {', '.join(model.STATES)}")
                continue
            if "sim" not in item and "tables" not in item:
                self._mistake(key, "a test needs 'sim' (a workload) or 'tables' (literal rows)")
            tests.append(
                model.RuleTest(
                    name=str(item.get("name")),
                    line=self.document.line(key),
                    expect=expect,
                    sim=item.get("sim"),
                    tables=item.get("tables", {}),
                    params=item.get("params", {}),
                )
            )
        return tuple(tests)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
