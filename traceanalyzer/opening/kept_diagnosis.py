"""A diagnosis that was made before is read from the run's store while nothing that it is made from has changed.

It is made from the stored tables, the rules, this package, what the caller and the settings file say, and the day, on
which a suppression may end. Its file holds it as JSON, behind a hash that needs the user's key.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from traceanalyzer.diagnosis import LIMIT_REACHED, Diagnosis
from traceanalyzer.rules.rule_set.files import builtin_folder, rule_files
from traceanalyzer.store.inputs import engine_key
from traceanalyzer.store.store import Store

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Opening
    from traceanalyzer.settings.settings import Settings


def question(
    tables: Sequence[object], project: Settings, rule_paths: Sequence[Path], params: Mapping[str, Any], opening: Opening
) -> str:
    """Return all that a diagnosis depends on, as text; `tables` say which run it is and where its tables lie."""
    rules = hashlib.blake2b(digest_size=16)
    for file in rule_files([builtin_folder(), *project.rule_paths, *rule_paths]):
        content = file.read_bytes()
        rules.update(f"{file} {len(content)}\n".encode(errors="surrogateescape") + content)
    facts = (
        *tables,
        project,
        sorted(params.items()),
        opening,
        rules.hexdigest(),
        engine_key(("*",)),
        datetime.date.today(),
    )
    return "\n".join(map(repr, facts))


def recall(store: Store, asked: str) -> Diagnosis | None:
    """Return the diagnosis that was kept under a question; None where there is none."""
    content = store.answers.get(asked)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Diagnosis)
    except msgspec.DecodeError:
        return None


def keep(store: Store, asked: str, diagnosis: Diagnosis) -> None:
    """Keep a diagnosis for the next time, if it is whole and JSON can hold it."""
    if any(outcome.reason == LIMIT_REACHED for outcome in diagnosis.outcomes):
        return
    try:
        content = msgspec.json.encode(diagnosis)
        if msgspec.json.decode(content, type=Diagnosis) == diagnosis:
            store.answers.keep(asked, content)
    except (TypeError, UnicodeError, msgspec.MsgspecError):
        return
