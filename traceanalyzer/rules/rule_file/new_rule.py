"""Helps to write a rule: a file to start from, and a JSON Schema that shows editors what it may contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traceanalyzer.attribution.columns import CAUSES, EXPLAINED
from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.rule_file import model
from traceanalyzer.rules.rule_file.parsing import ID_LENGTH, ID_PATTERN, KEYS, REQUIRED

_TEMPLATE = Path(__file__).with_name("new_rule.yaml")
_PLACEHOLDER = "RULE_ID"

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_SQL = {**_TEXT, "description": "SQL"}
_CONDITION = {"type": ["string", "boolean"], "description": "SQL condition over the columns of `select` and $params"}
_VALUE = {"type": ["number", "string", "boolean"]}
_NAMES = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_CAUSE = {"enum": sorted(CAUSES)}
_CAUSES = {"anyOf": [_CAUSE, {"type": "array", "items": _CAUSE}]}
_EXPLAINED = {"enum": sorted(EXPLAINED)}


def new_rule(rule_id: str, folder: Path) -> Path:
    """Write a rule to start from, which passes its lint and fails its first test; returns its file."""
    if not ID_PATTERN.fullmatch(rule_id) or len(rule_id) > ID_LENGTH:
        hint = f"lower-case words joined by '-', at most {ID_LENGTH} characters"
        raise TraceAnalyzerError("no id for a rule", rule_id, hint)
    file = folder / f"{rule_id}.yaml"
    if file.exists():
        raise TraceAnalyzerError("exists already", file, "choose another id, or edit that rule")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(_TEMPLATE.read_text(encoding="utf-8").replace(_PLACEHOLDER, rule_id), encoding="utf-8")
    return file


def rule_schema() -> dict[str, Any]:
    """Return the JSON Schema of a rule file."""
    parts = {name: _object(properties, name) for name, properties in _parts().items()}
    top = {
        "id": {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$", "maxLength": ID_LENGTH},
        "title": _TEXT,
        "kind": {"enum": list(model.KINDS)},
        "scope": {"enum": list(model.SCOPES)},
        "severity": {"anyOf": [{"enum": [model.AUTO, *SEVERITIES]}, _SQL]},
        "status": {"enum": list(model.STATUSES), "description": "experimental: no real trace has shown it yet"},
        "blocks": {
            "enum": [model.FINDINGS, model.RUN],
            "description": "of a quality rule: what abstains where it fired",
        },
        "requires": {**_NAMES, "description": "capabilities: traceanalyzer metrics show capability_kinds"},
        "params": {"type": "object", "additionalProperties": parts["params"]},
        "select": _SQL,
        "ops": {**_SQL, "description": "SELECT trace_id, op_id, …: read by the rule's other SQL as selected_ops"},
        "rows": {**_SQL, "description": "SELECT trace_id, device, row_id, … of ledger_rows: read as selected_rows"},
        "op_saving": {**_SQL, "description": "SELECT trace_id, op_id, saving_ns, and maybe left_out"},
        "when": _CONDITION,
        "clear_without": {**_SQL, "description": "what follows FROM: without a row of it, the rule is clear"},
        "claims": {"anyOf": [{"const": "none"}, _CAUSES, parts["claims"]]},
        "removes": {"anyOf": [{"enum": ["none", model.CLAIMED]}, _CAUSES]},
        "confidence": {"enum": list(model.CONFIDENCES)},
        "message": {**_TEXT, "description": "text with {column:.1f}; bytes and dur are formats, too"},
        "why": _TEXT,
        "references": {"type": "array", "items": {"type": "string", "pattern": "^https://"}, "minItems": 1},
        "refines": _NAMES,
        "attaches_to": {**_NAMES, "description": "of an explanation: the findings that it may explain"},
        **{
            name: {"type": "array", "items": parts[name]} for name in ("abstain", "lower", "evidence", "fixes", "tests")
        },
    }
    schema = _object(top, "")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "traceanalyzer rule", **schema}


def _parts() -> dict[str, dict[str, Any]]:
    rows = {"type": "array", "items": {"type": "object"}}
    return {
        "params": {"default": _VALUE, "why": _TEXT, "min": _VALUE, "max": _VALUE, "unit": _TEXT},
        "abstain": {"when": _CONDITION, "reason": _TEXT, "detail": _TEXT},
        "claims": {
            "causes": {"anyOf": [_EXPLAINED, {"type": "array", "items": _EXPLAINED}]},
            "where": _SQL,
            "compute_ops": _SQL,
            "charged_to": {"const": "blame_rank", "description": "count rows for the rank that they wait for"},
        },
        "lower": {"when": _CONDITION, "to": {"enum": list(model.CONFIDENCES)}, "because": _TEXT},
        "evidence": {"title": _TEXT, "select": _SQL},
        "fixes": {
            "text": _TEXT,
            "code": _TEXT,
            "lang": _TEXT,
            "effort": {"enum": list(model.EFFORTS)},
            "when": _CONDITION,
            "names": {"type": "object", "additionalProperties": _TEXT, "description": "word of the fix: column"},
        },
        "tests": {
            "name": _TEXT,
            "sim": {"type": "object"},
            "tables": {"type": "object", "additionalProperties": rows},
            "params": {"type": "object", "additionalProperties": _VALUE},
            "expect": {"type": "object", "properties": {"state": {"enum": list(model.STATES)}}, "required": ["state"]},
        },
    }


def _object(properties: dict[str, Any], part: str) -> dict[str, Any]:
    if properties.keys() != set(KEYS[part]):
        raise AssertionError(f"the schema of '{part or 'a rule'}' and the reader of rules know different keys")
    return {"type": "object", "properties": properties, "required": list(REQUIRED[part]), "additionalProperties": False}
