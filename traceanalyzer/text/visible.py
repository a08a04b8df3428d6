"""What may be shown of a text: every renderer sends each text from traces through `visible`.

Profilers record environments, arguments and command lines, so secrets are masked: a secret is known by the name that it
stands under, by its own form, or by the place in a URL. All patterns stand here. Characters that steer a terminal
become escapes. Names and paths as SQL, and rows as CSV that no spreadsheet takes for formulas, are made here, too.
"""

from __future__ import annotations

import csv
import decimal
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

MASK = "(redacted)"

# Strangers choose the texts: every pattern takes time as its text is long, so what repeats begins at one place of a run
# of its characters, never at each.

# Names of metadata under which a secret stands. TOKENIZERS_PARALLELISM and num_tokens are about text, PASSES about
# passes, KEYS and AUTHOR about no secret.
_SECRET_NAME = re.compile(
    r"token(?!i[sz]|s)|secret|passw(?:or)?d|passphrase|credential|bearer|cookie|signature"
    r"|(?:api|access|private|encryption|signing|storage|account|auth)[_\-. ]?keys?(?:id)?(?![a-z])"
    r"|(?<![a-z])(?:auth|authorization|pwd|pat|sas|dsn|jwt|webhook|session[_\-. ]?id|connection[_\-. ]?string)"
    r"(?![a-z])",
    re.IGNORECASE,
)
# Names that end in what a secret is called, as in MY_PASS, AWS_KEY and --wandb_key. A name of a function or a module
# may hold such a word, but rarely ends with it before an equals sign.
_SERVICES = (
    "aws|azure|gcp|google|wandb|hf|huggingface|openai|anthropic|cohere|mistral|github|gitlab|slack|comet|neptune|mlflow"
    "|clearml|ngc|nvidia|datadog|dd|sentry|stripe|twilio|sendgrid|ssh|gpg|rsa|db|s3|minio|redis|kaggle|license|licence"
)
_SECRET_ENDING = re.compile(
    r"(?:^|[^a-z])(?:passwd|passphrase|credentials?|pwd|pat|dsn|jwt"
    r"|connection[_\-]?string|authorization|cookie|webhook(?:[_\-]?url)?|session[_\-]?id)$"
    r"|(?:token|secret|password|api[_\-.]?key"
    r"|(?:access|secret|private|signing|encryption|account|storage|auth)[_\-.]?key"
    rf"(?:[_\-]?id)?)$|(?:^|[^a-z])(?:{_SERVICES})[_\-.]?key$|^--?(?:[\w\-]*[_\-])?pass$|^--(?:[\w\-]*[_\-])?key$",
    re.IGNORECASE,
)
# Compilers have passes, too: under these names only what looks like a password is one, or what follows a user.
_DOUBTFUL_NAME = re.compile(r"(?:(?:db|user|root|admin|smtp|mail|ftp|my|mysql|pg|redis)[_\-.]?)?pass", re.IGNORECASE)
_USER = re.compile(r"\buser(?:name)?\b|\blogin\b|-u\b", re.IGNORECASE)
_NEAR = 80
# Letters and digits together, which a word of a sentence behind a name has not.
_LOOKS_RANDOM = re.compile(r"(?=[^\d]*\d)(?=[^a-zA-Z]*[a-zA-Z]).{6,}", re.DOTALL)
_ENVIRONMENT_KEY = re.compile(r"[A-Z][A-Z0-9_]*_(?:KEY|PASS)|PASS")

# Secrets by their own form.
_SECRET_FORMS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}",
    r"\b(?:A3T|AKIA|ASIA|AGPA|AIDA|AROA|ABIA|ACCA)[A-Z0-9]{12,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",
    r"\bsk-[\w-]{16,}",
    r"\b[prs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bgsk_[A-Za-z0-9]{20,}",
    r"\br8_[A-Za-z0-9]{20,}",
    r"\bdop_v1_[a-f0-9]{32,}",
    r"\bdapi[a-f0-9]{32}",
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\b(?:xox[a-eoprs]|xapp)-[\w-]{10,}",
    r"\bAIza[\w-]{30,}",
    r"\bya29\.[\w-]{20,}",
    r"\bnvapi-[\w-]{20,}",
    r"\bdckr_pat_[\w-]{16,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w-]{40,}",
    r"\bhv[bsr]\.[\w-]{20,}",
    r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
    r"\bgl(?:rt|dt|cbt|ptt|ft|imt|agent|oas)-[\w-]{16,}",
    r"\bglsa_[A-Za-z0-9]{20,}\w*",
    r"\b(?:dckr_oat|figd|lin_api|lsv2_(?:pt|sk)|ntn|rubygems|sntry[su]|tgp_v1|whsec)_[\w-]{20,}",
    r"\b(?:csk|pplx|xai)-[A-Za-z0-9]{40,}",
    r"\b(?:xkeysib|sq0(?:csp|atp))-[\w-]{20,}",
    r"\bpul-[a-f0-9]{40}",
    r"\bdp\.(?:ct|pt|st)\.[A-Za-z0-9]{30,}",
    r"\bAT[AC]TT3[\w=-]{50,}",
    r"\bABSK[A-Za-z0-9+/]{60,}={0,2}",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,}",
    r"\bSK[a-f0-9]{32}\b",
    r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    # Secrets by the word or the option before them.
    r"(?<=\bBearer )(?=[\w.~+/-]*\d)[\w.~+/-]{8,}=*",
    r"(?<=\bwandb login )\w{16,}",
    r"(?:(?<=\s-u )|(?<=\s-u [\"'])|(?<=\s--user[ =])|(?<=\s--user[ =][\"']))[^\s:@\"']+:(?!\d+\b)[^\s\"']+",
    # Secrets by their place in a URL: user and password, a token as the user, hooks, and parameters.
    r"(?<=://)[^/\s:@\"']*:[^/\s@\"']+(?=@)",
    r"(?<=://)[^/\s:@\"']{16,}(?=@)",
    r"(?<=hooks\.slack\.com/)[^\s\"')]+",
    r"(?<=webhook\.office\.com/)[^\s\"')]+",
    r"(?<=api\.telegram\.org/bot)[^\s/\"')]+",
    # A folder of Python files may have these names, too.
    r"(?:(?<=/webhook/)|(?<=/webhooks/)|(?<=/hooks/))(?![\w./-]{1,250}\.py\b)[^\s\"')]+",
    r"(?<=[?&]sig=)[^&\s\"')]+|(?<=[?&]Signature=)[^&\s\"')]+|(?<=[?&]key=)[^&\s\"')]+|(?<=[?&]code=)[^&\s\"')]+",
    r"(?<=[?&]X-Amz-Signature=)[^&\s\"')]+|(?<=[?&]X-Goog-Signature=)[^&\s\"')]+",
)
_SECRET_VALUE = re.compile("|".join(_SECRET_FORMS), re.DOTALL)
# Programs that take a password right behind -p, where others have a port; or behind -a; and the lines of a .netrc.
_TAKES_PASSWORD = r"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|sshpass)(?![\w.])"
_GLUED_PASSWORD = re.compile(
    rf"({_TAKES_PASSWORD}[^;|&\n]{{0,200}}?\s-p"
    r"|\bredis-cli(?![\w.])[^;|&\n]{0,200}?\s-a\s{1,8}"
    r"|\bmachine\s{1,8}\S{1,200}\s{1,8}login\s{1,8}\S{1,200}\s{1,8}password\s{1,8})"
    r"(?!\(redacted)[^\s\"']+"
)
_PASSWORD_PROGRAM = re.compile(_TAKES_PASSWORD + "$")
# Not `Token::run` of C++; plain values (numbers, truth values, options) and masked ones stay as they are. A value in
# quotes may have lost its end, and quotes of a text inside JSON have a backslash each.
_ASSIGNMENT = re.compile(
    r"(?:(?<![\w.\-])(?P<name>[\w.\-]++)(?P<between>(?:\\*+[\"'])?\]?\s*+(?:=|:(?![:/]))\s*+)"
    r"|(?P<option>(?<![^\s\"'])--?[\w.\-]++)(?P<space>[\"']?,?\s++)"
    r"|(?P<variable>(?<![\w.\-])[A-Z][A-Z0-9]*+_[A-Z0-9_]++)(?P<blank>\s++))"
    r"(?P<value>(?:(?:Bearer|Basic|Token)\s++)?(?:\\*+(?:\"[^\"]*+\"?|'[^']*+'?)|[^\s,;&\"')\]}>]++))"
)
_NO_VALUE = re.compile(r"true|false|none|null|-.*|\(redacted", re.IGNORECASE)
_PLAIN_VALUE = re.compile(rf"[-+]?\d{{1,9}}(?:\.\d+)?|{_NO_VALUE.pattern}", re.IGNORECASE)
_LEAST_AFTER_COLON = 6
# Under these names even a number is a secret.
_PASSWORD = re.compile(r"passw|passphrase|pwd|secret", re.IGNORECASE)
# A text without any of these holds no secret that is known by its form or its place; nearly all names are such texts.
_HINTS = re.compile(
    r"[=:@]|_|-|Bearer |SG\.|AKIA|ASIA|A3T|A[GIRBC][PDOIC]A|AIza|eyJ|ya29|dapi|hv[bsr]\.|dp\.|AT[AC]TT3|ABSK"
    r"|SK[a-f0-9]{8}|wandb login|machine "
)


def redacted(key: str, value: str | None) -> str | None:
    """Return metadata with what looks like a secret masked, by its name at any depth or by its own form."""
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return MASK if is_secret_name(key) else masked(value)
    return json.dumps(_masked(key, parsed), ensure_ascii=False)


def is_secret_name(name: str) -> bool:
    """Return whether a value under this name is a secret."""
    return _SECRET_NAME.search(name) is not None or _ends_as_secret(name)


def _ends_as_secret(name: str) -> bool:
    return _SECRET_ENDING.search(name) is not None or _ENVIRONMENT_KEY.fullmatch(name) is not None


@lru_cache(maxsize=2**16)
def masked(text: str) -> str:
    """Return a text with what looks like a secret masked: assignments, options, URLs and known forms."""
    if _HINTS.search(text) is None:
        return text
    text = _GLUED_PASSWORD.sub(rf"\1{MASK}", _SECRET_VALUE.sub(MASK, text))
    parts, copied, at = [], 0, 0
    while (match := _ASSIGNMENT.search(text, at)) is not None:
        at = match.start("value")
        if _is_secret(match):
            parts += [text[copied:at], MASK]
            copied = at = match.end()
        # What is no secret as a whole may hold one, as in -e HF_TOKEN=x.
    return "".join([*parts, text[copied:]])


def _is_secret(match: re.Match[str]) -> bool:
    name = match["name"] or match["option"] or match["variable"]
    between, value = match["between"] or match["space"] or match["blank"], match["value"]
    if match["variable"] is not None and _LOOKS_RANDOM.fullmatch(value) is None:
        return False
    if match["name"] is not None and _DOUBTFUL_NAME.fullmatch(name) is not None and not name.isupper():
        before = match.string[max(0, match.start() - _NEAR) : match.start()]
        return _LOOKS_RANDOM.fullmatch(value) is not None or (
            _USER.search(before) is not None and _NO_VALUE.fullmatch(value) is None
        )
    if not (name == "-p" or _ends_as_secret(name)) or value.startswith(MASK[:-1]):
        return False
    short = between.strip(" \"'") == ":" and len(value) < _LEAST_AFTER_COLON
    plain = _NO_VALUE if _PASSWORD.search(name) is not None else _PLAIN_VALUE
    return not short and plain.fullmatch(value) is None


def _masked(name: str, value: Any) -> Any:
    """Return metadata under a name masked; what stands below a secret name is a part of the secret."""
    if isinstance(value, dict):
        # {"name": "HF_TOKEN", "value": "…"} is an assignment too.
        assigned = any(
            isinstance(item, str) and is_secret_name(item) for key, item in value.items() if not _is_value(key)
        )
        return {
            masked(key): MASK if assigned and _is_value(key) else _masked(name if is_secret_name(name) else key, item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return _masked_list(name, value)
    if is_secret_name(name) and value not in (None, "", True, False):
        return MASK
    return masked(value) if isinstance(value, str) else value


def masked_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a program with secrets masked: in them, and behind an option that takes one."""
    return _masked_list("arguments", arguments)


def _masked_list(name: str, values: Sequence[Any]) -> list[Any]:
    # ["--wandb_key", "…"] is an assignment, too, and so is ["HF_TOKEN", "…"].
    pair = len(values) == 2 and isinstance(values[0], str) and is_secret_name(values[0])
    hidden = [False, *(pair or _is_secret_option(item) for item in values)]
    if values and isinstance(values[0], str) and _PASSWORD_PROGRAM.search(values[0]):
        values = [f"-p{MASK}" if isinstance(v, str) and re.match("-p.", v) else v for v in values]
    values = [
        masked(f" -u {v}")[4:] if before in ("-u", "--user") and isinstance(v, str) else v
        for before, v in zip([None, *values], values, strict=False)
    ]
    return [
        MASK if hide and v is not None and not isinstance(v, bool) else _masked(name, v)
        for hide, v in zip(hidden, values, strict=False)
    ]


def _is_value(key: str) -> bool:
    return key.lower() == "value"


def _is_secret_option(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.startswith("-")
        and "=" not in value
        and (value == "-p" or _ends_as_secret(value))
    )


# Control characters (ESC begins terminal commands), marks that turn the direction of writing, line and paragraph
# separators, and halves of surrogate pairs, which no file can hold.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\N{ARABIC LETTER MARK}\N{LEFT-TO-RIGHT MARK}\N{RIGHT-TO-LEFT MARK}"
    "\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLANKS = re.compile(r"[ \t\r\n\f\v]+")


def visible(text: str) -> str:
    """Return a text as it may be shown: secrets masked, and characters that steer as escapes, ESC as `\\x1b`."""
    return _STEERING.sub(_escape, masked(text))


def as_json(value: Any, indent: int | None = None, *, compact: bool = False) -> str:
    """Return plain values as JSON, compact without blanks: secrets masked, and characters that steer as JSON's escapes.

    Raises ValueError for a number that is none.
    """
    text = json.dumps(
        with_texts_masked(value),
        indent=indent,
        separators=(",", ":") if compact else None,
        ensure_ascii=False,
        allow_nan=False,
        default=str,
    )
    return _STEERING.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def become_utf8(stream: TextIO) -> None:
    """Let a stream write UTF-8 whatever the locale, as readers of JSON, Markdown and pages expect."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8")


def write_json(value: Any, stream: TextIO) -> None:
    """Write plain values as a JSON document, which is UTF-8 whatever the locale; see `as_json`."""
    become_utf8(stream)
    stream.write(as_json(value, indent=2) + "\n")


def with_texts_masked(value: Any) -> Any:
    """Return plain values with the secrets in their texts masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {with_texts_masked(key): with_texts_masked(item) for key, item in value.items()}
    return [with_texts_masked(item) for item in value] if isinstance(value, list | tuple) else value


def visible_lines(text: str) -> str:
    """Return a text of several lines as it may be shown; only its line breaks are meant."""
    return "\n".join(map(visible, text.split("\n")))


def one_line(text: str) -> str:
    """Return a text without line breaks and runs of blanks, its other steering characters written as escapes."""
    return visible(_BLANKS.sub(" ", text).strip(" "))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def literal(path: Path) -> str:
    """Return a path of our own store as a SQL text; views cannot have parameters."""
    return quoted(str(path))


def quoted(text: str) -> str:
    """Return a text of our own as a SQL text, for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


# What a spreadsheet computes, or moves into the next cell, when it opens a file: names in traces come from strangers.
_FORMULA = "=+-@\t\r\n＝＋－＠"
_LINE_END = "\r\n"


def as_cell(value: Any) -> Any:
    """Return a value as the cell that shows it: a text that would be a formula stands behind an apostrophe."""
    if value is None or isinstance(value, int | float | decimal.Decimal):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(tuple(_FORMULA)) else text


def cell_sql(column: str) -> str:
    """Return the same in DuckDB's SQL, for a quoted name of a column of texts."""
    starts = ", ".join(f"chr({ord(start)})" for start in _FORMULA)
    return f"CASE WHEN left({column}, 1) IN ({starts}) THEN chr(39) || {column} ELSE {column} END"


class CsvRows:
    """Writes rows; a line ends with a line feed, and a text that holds any line break is quoted."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Python's writer quotes only what ends its own lines.
        self._writer = csv.writer(self, lineterminator=_LINE_END)

    def write(self, line: str) -> None:
        """Take a line from Python's writer."""
        self._stream.write(line.removesuffix(_LINE_END) + "\n")

    def add(self, values: Iterable[Any]) -> None:
        self._writer.writerow([as_cell(value) for value in values])
