"""A project's own names of host causes: patterns that DuckDB's RE2 matches, in time linear in the name."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from traceanalyzer.attribution.host.host_states import NEUTRAL
from traceanalyzer.attribution.vocabulary.buckets import HOST_CODE

# Each pattern is asked of every different name of a trace, which takes it about a millisecond.
MOST_PATTERNS = 1_000
_IS_PATTERN = "SELECT regexp_matches('', $pattern)"

_MATCHING = """
SELECT number
FROM (SELECT unnest($names) AS name, generate_subscripts($names, 1) - 1 AS number)
WHERE regexp_matches(name, $pattern)
"""


def pattern_mistakes(patterns: Sequence[str]) -> list[str | None]:
    """Return what is wrong with each pattern; None: nothing. RE2 has no look-around and no references to groups."""
    with duckdb.connect() as con:
        return [_mistake(con, pattern) for pattern in patterns]


def _mistake(con: duckdb.DuckDBPyConnection, pattern: str) -> str | None:
    try:
        con.execute(_IS_PATTERN, {"pattern": pattern})
    except duckdb.Error as error:
        return str(error).partition(": ")[2] or str(error)
    return None


def own_states(
    con: duckdb.DuckDBPyConnection, own: Sequence[tuple[str, str]] | None, names: Sequence[str]
) -> list[int]:
    """Return for each name the code of the first cause of the project's that matches it; NEUTRAL: none does.

    `own` are pairs of a cause and a pattern.
    """
    states = [NEUTRAL] * len(names)
    for cause, pattern in reversed(own or ()):
        for (number,) in con.execute(_MATCHING, {"names": list(names), "pattern": pattern}).fetchall():
            states[number] = HOST_CODE[cause]
    return states
