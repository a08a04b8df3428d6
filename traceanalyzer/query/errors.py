"""DuckDB's errors about a query as errors for users: what, where in the query, and DuckDB's own suggestion."""

from __future__ import annotations

from traceanalyzer.errors import TraceAnalyzerError


def query_error(message: str) -> TraceAnalyzerError:
    """Return DuckDB's error as what, where and hint, with the place in the query and DuckDB's own suggestion."""
    body, _, excerpt = message.partition("\n\nLINE ")
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    what = lines[0] if lines else "the query failed"
    suggestions = [line for line in lines[1:] if line.startswith(("Did you mean", "Candidate bindings", "HINT"))]
    place = f"\nline {excerpt}".replace("\n", "\n    ") if excerpt else ""
    hint = " ".join(suggestions) or "`traceanalyzer metrics list` lists what can be queried"
    return TraceAnalyzerError(what + place.rstrip(), "query", hint)
