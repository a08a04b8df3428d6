"""Whether a pattern that a person gave for the names of steps finds any."""

from __future__ import annotations

import duckdb

from traceanalyzer.errors import TraceAnalyzerError

MOST_SUGGESTED = 5

_MATCHES = """
SELECT COUNT(*) > 0
FROM canonical.host_slices
WHERE category IN ('annotation', 'cpu_op')
  AND REGEXP_MATCHES(name, $pattern)
"""
# What recurs, by its name without numbers.
_RECURRING = r"""
SELECT ANY_VALUE(name ORDER BY start_ns)
FROM canonical.host_slices
WHERE category = 'annotation'
GROUP BY REGEXP_REPLACE(name, '\d+', '', 'g')
HAVING COUNT(*) > 1
ORDER BY SUM(dur_ns) DESC, MIN(name)
LIMIT $most
"""


def check_pattern(con: duckdb.DuckDBPyConnection, pattern: str | None) -> None:
    """Raise TraceAnalyzerError where a given pattern is none, or no annotation of the run matches it."""
    if pattern is None:
        return
    try:
        ((found,),) = con.execute(_MATCHES, {"pattern": pattern}).fetchall()
    except duckdb.InvalidInputException as error:
        raise TraceAnalyzerError(
            f"{pattern!r} is no pattern: {error}", "--step-pattern", "a regular expression over names of annotations"
        ) from error
    if found:
        return
    recurring = [name for (name,) in con.execute(_RECURRING, {"most": MOST_SUGGESTED}).fetchall()]
    hint = f"what recurs here: {', '.join(recurring)}" if recurring else "the run has no annotations that recur"
    raise TraceAnalyzerError(f"no annotation of the run matches {pattern!r}", "--step-pattern", hint)
