"""The fields and arguments of events that the JSON reader reads, taken from the SQL that reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from traceanalyzer.ingest import trace_events

SQL = Path(trace_events.__file__).parent / "sql"
_STRUCTURE = re.compile(r"from_json\(\s*args,\s*'(\{.*?\})'", re.DOTALL)
_PATH = re.compile(r"""args\s*->>\s*'\$\.(?:"([^"]+)"|(\w+))'""")
_COLUMNS = re.compile(r"columns = \{(.*?)\}", re.DOTALL)


def arguments_of(file: str) -> list[str]:
    """Return the arguments of events that one SQL file of the reader reads."""
    text = (SQL / f"{file}.sql").read_text(encoding="utf-8")
    keys = {key for structure in _STRUCTURE.findall(text) for key in json.loads(structure)}
    return sorted(keys | {quoted or plain for quoted, plain in _PATH.findall(text)})


def files_that_read_arguments() -> list[str]:
    """Return the SQL files of the reader that read arguments by name."""
    return sorted(path.stem for path in SQL.glob("*.sql") if arguments_of(path.stem))


def event_fields() -> list[str]:
    """Return the fields of an event that the reader reads."""
    text = (SQL / "macros.sql").read_text(encoding="utf-8")
    return sorted({field for columns in _COLUMNS.findall(text) for field in re.findall(r"(\w+): '", columns)})
