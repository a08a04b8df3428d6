"""Takes secrets out of metadata before it is shown: profilers record environments, and environments hold keys."""

from __future__ import annotations

import json
import re
from typing import Any

MASK = "(redacted)"

# TOKENIZERS_PARALLELISM and num_tokens are about text, PASSES about passes, KEYS and AUTHOR about no secret.
_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:\w*(?:token(?!i[sz]|s)|secret|passw(?:or)?d|passphrase|credential|bearer|cookie|signature)\w*"
    r"|\w*(?:api|access|private|secret|encryption|signing|storage|account|auth)[_\-. ]?keys?(?:[_\-. ]?id)?"
    r"|(?:\w*[_\-.])?(?:auth|authorization|pwd|pat|sas|dsn|session[_\-. ]?id)(?:[_\-.]\w*)?)(?:$|[^a-z])",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|\b(?:hf|api_org)_[A-Za-z0-9]{16,}"
    r"|\b(?:A3T|AKIA|ASIA|AGPA|AIDA|AROA|ABIA|ACCA)[A-Z0-9]{12,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bnvapi-[\w-]{20,}"
    r"|\bdckr_pat_[\w-]{16,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{40,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=://)[^/\s:@\"']+:[^/\s@\"']+(?=@)",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(
    r"(?:(?P<name>[\w.\-]+)(?P<between>[\"']?\s*[=:]\s*)|(?P<option>--[\w\-]+)(?P<space>\s+))"
    r"(?P<value>(?:(?:Bearer|Basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"']+))"
)


def redacted(key: str, value: str | None) -> str | None:
    """Return metadata with what looks like a secret masked, by its name at any depth or by its own form."""
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except ValueError:
        return MASK if is_secret_name(key) else masked_text(value)
    return json.dumps(_masked(key, parsed), ensure_ascii=False)


def is_secret_name(name: str) -> bool:
    """Return whether a value under this name is a secret."""
    return _SECRET_NAME.search(name) is not None


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        named = value.get("name", value.get("key"))
        # {"name": "HF_TOKEN", "value": "…"} is an assignment too.
        outer = named if isinstance(named, str) and "value" in value else ""
        return {
            key: MASK if key == "value" and outer and is_secret_name(outer) else _masked(key, item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(name, item) for item in value]
    if is_secret_name(name) and value not in (None, "", True, False):
        return MASK
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Return a text without what looks like a secret by its own form or by the name before it."""

    def assigned(match: re.Match[str]) -> str:
        name, between = match["name"] or match["option"], match["between"] or match["space"]
        return name + between + MASK if is_secret_name(name) else match[0]

    return _ASSIGNMENT.sub(assigned, _SECRET_VALUE.sub(MASK, text))
