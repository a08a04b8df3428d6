"""What the tools answer: the reports and tables of the commands as text of bounded size, from runs that are served."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.pipeline.finding import STORE_NAME, cached_store
from traceanalyzer.report import formats
from traceanalyzer.text.visible import as_json, visible

if TYPE_CHECKING:
    from traceanalyzer.comparison.loading import RunCaptures
    from traceanalyzer.report.blocks import Section
    from traceanalyzer.run import Run


# A run is a file, or a folder whose traces lie in it, in a folder in it, or in the files of such a folder.
_DEPTH = 3
MOST_RUNS = 200


@dataclass(frozen=True)
class ServedFolders:
    """Folders by their real paths; nothing outside them is read as a trace."""

    roots: tuple[Path, ...]

    def run(self, name: str) -> Path:
        """Return the real path of a run that is named in full, or below one of the folders.

        Raises TraceAnalyzerError where it does not exist, lies elsewhere, or holds a link that leads elsewhere.
        """
        if "\0" in name:
            raise TraceAnalyzerError("the name holds a NUL", "run", "`runs` lists what can be asked about")
        # An absolute name replaces the root before it.
        for path in dict.fromkeys(Path(os.path.realpath(root / name)) for root in self.roots):
            if path.exists() and self._holds(path):
                self._check_links(path)
                return path
        hint = f"`runs` lists what can be asked about; served: {', '.join(map(str, self.roots))}"
        raise TraceAnalyzerError("no such run in the folders that are served", name, hint)

    def runs(self) -> list[str]:
        """Return what may be runs: the folders themselves, and the files and folders in them that are not hidden."""
        found: list[str] = []
        for root in self.roots:
            found.append(str(root))
            found += sorted(str(entry) for entry in root.iterdir() if not entry.name.startswith("."))
        return found

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _check_links(self, run: Path) -> None:
        """Raise TraceAnalyzerError for a link in a run that leads out of the folders, wherever discovery may follow."""
        # Readers of a file also look for files beside it: SQLite for its log.
        beside = (entry for entry in run.parent.iterdir() if entry.name.startswith(run.name))
        for entry in beside if run.is_file() else _entries(run, _DEPTH):
            if entry.is_symlink() and not self._holds(Path(os.path.realpath(entry))):
                raise TraceAnalyzerError(
                    "is a link that leads out of the folders that are served", entry, "serve the folder it leads to"
                )


def served_folders(folders: Sequence[Path]) -> ServedFolders:
    """Return folders to serve; raises TraceAnalyzerError for what is no folder."""
    for folder in folders:
        if not folder.is_dir():
            raise TraceAnalyzerError("no such folder", folder, "name the folders whose runs may be asked about")
    return ServedFolders(tuple(dict.fromkeys(folder.resolve() for folder in folders)))


def _entries(path: Path, depth: int) -> Iterator[Path]:
    if depth == 0 or not path.is_dir():
        return
    for entry in path.iterdir():
        if entry.name == STORE_NAME:
            continue
        # Whoever asks looks at a link before it is followed.
        yield entry
        yield from _entries(entry, depth - 1)


MOST_CHARACTERS = 60_000
MOST_ROWS = 1_000
MOST_CELL_CHARACTERS = 2_000


@dataclass(frozen=True)
class Answers:
    """One method a tool: each reads runs in the served folders, and returns text of at most MOST_CHARACTERS.

    Every method raises TraceAnalyzerError for what a caller can fix.
    """

    folders: ServedFolders

    def runs(self) -> str:
        """List the files and folders in the served folders: each may be a run, a trace or a folder of traces."""
        runs = self.folders.runs()
        left_out = len(runs) - MOST_RUNS
        return bounded(
            "\n".join([*map(visible, runs[:MOST_RUNS]), *([f"and {left_out} more"] if left_out > 0 else [])])
        )

    def diagnose(self, run: str, verbose: bool = False, as_json: bool = False) -> str:
        """Say what limits a run: ranked findings with evidence places, fixes, and upper bounds of what each saves.

        `verbose` adds definitions, and for each skipped rule what to record. A skipped rule is no all-clear.
        """
        with self._opened(run, shows_left_out=True) as (opened, notes):
            diagnosis = opened.diagnose()
        stream = io.StringIO()
        formats.write_diagnosis(diagnosis, "json" if as_json else "markdown", stream, verbose=verbose)
        if as_json:
            return _whole(stream.getvalue(), "ask without as_json")
        return bounded(notes + stream.getvalue())

    def diff(self, base: list[str], new: list[str], verbose: bool = False, as_json: bool = False) -> str:
        """Say what changed between two sides and how sure that is; each side is one run or several captures of one.

        Captures of one program differ by themselves: a verdict needs several a side, unless the change is very large.
        A folder in which a rank was recorded several times holds as many captures.
        """
        from traceanalyzer.comparison.comparing import compare

        loaded = [[self._captures(run) for run in runs] for runs in (base, new)]
        sides = [[summary for run in side for summary in run.summaries] for side in loaded]
        for name, side in zip(("base", "new"), sides, strict=True):
            if not side:
                raise TraceAnalyzerError("no run was given", name, "name at least one run a side")
        stream = io.StringIO()
        result = compare(sides[0], sides[1])
        formats.write_diff(result, None, "json" if as_json else "markdown", stream, verbose=verbose)
        if as_json:
            return _whole(stream.getvalue(), "ask without as_json")
        left_out = [words for side in loaded for run in side for words in run.left_out]
        return bounded("".join(f"> not compared: {visible(words)}\n\n" for words in left_out) + stream.getvalue())

    def _captures(self, run: str) -> RunCaptures:
        from traceanalyzer.comparison.loading import captures_of
        from traceanalyzer.run import open_run

        with self._opened(run) as (opened, _):
            return captures_of(opened, lambda files: open_run(list(files), store=opened.store))

    def top(
        self, run: str, what: str, by: str = "time", rank: int | None = None, step: int | None = None, limit: int = 20
    ) -> str:
        """Return the largest rows of a run as JSON, times in ns.

        `what` is `kernels`, `operators`, `modules`, `layers`, `lines`, `ranges`, `collectives`, `copies` or
        `iterations`. `by` is `time`; `idle` (but for modules and layers); `host` (operators, layers, lines, ranges);
        `flops` (operators, modules, layers); `headroom` (operators; kernels with counters); or `memory` (operators).
        `nothing` says why no row has a value. Without `step`, rows are of the whole analysis window. By time,
        `whole_ns` is that of all GPU operations there, and `elsewhere_ns` that of those which are in no row.
        """
        from traceanalyzer.answers.top import top
        from traceanalyzer.answers.top_questions import QUESTIONS
        from traceanalyzer.report.screens.top import document

        if what not in QUESTIONS:
            hint = suggestion(what, QUESTIONS, f"one of {', '.join(QUESTIONS)}")
            raise TraceAnalyzerError(f"there is no top of {what!r}", "what", hint)
        with self._opened(run) as (opened, _):
            limit = min(max(limit, 1), MOST_ROWS)
            answer = top(opened.connection, what, by, rank=rank, step=step, limit=limit)
            return _whole(as_json(document(answer, opened.name)), "ask for fewer rows")

    def sql(self, run: str, query: str, limit: int = 100) -> str:
        """Return the first rows of one SELECT over a run's metrics and tables, in DuckDB's SQL, as JSON.

        `metrics` lists what can be queried. No file can be read, and a query has half a minute. `is_complete` is false
        where there are more rows than `limit`, at most 1,000, or than an answer holds.
        """
        from traceanalyzer.rules.evaluation import sandbox
        from traceanalyzer.rules.evaluation.sandbox import lock_workspace

        sandbox.check_length(query)
        limit = min(max(limit, 1), MOST_ROWS)
        with self._opened(run) as (opened, _), sandbox.total_time():
            con = opened.connection
            lock_workspace(con)
            rows, is_complete = sandbox.first_rows(con, query, limit)
        return _table(rows.columns, rows.rows, is_complete=is_complete)

    def metrics(self, name: str | None = None) -> str:
        """List every metric and table that `sql` can query; with `name`, its definitions and columns."""
        from traceanalyzer.report.screens import metric as report

        return _page(report.list_sections() if name is None else report.page(name))

    def rules(self, rule: str | None = None, run: str | None = None) -> str:
        """List every rule; with `rule`, what it finds and how to fix it; with `run` too, why it fires there or not."""
        from traceanalyzer.report.screens import rule as report
        from traceanalyzer.rules.rule_set.loading import load_rules, rule_called

        if rule is None:
            return _page(report.list_sections(load_rules()))
        if run is None:
            return _page(report.sections(rule_called(rule, load_rules())))
        with self._opened(run) as (opened, notes):
            return bounded(notes + _rendered(report.explanation_sections(opened.explain(rule)), "markdown"))

    @contextmanager
    def _opened(self, name: str, *, shows_left_out: bool = False) -> Iterator[tuple[Run, str]]:
        """Open a run with a store in the user's cache; also gives the notes that a command would print.

        Files that are left out are among them unless the answer itself names them.
        """
        from traceanalyzer.run import open_run

        path = self.folders.run(name)
        store = cached_store(path)
        if store is None:
            raise TraceAnalyzerError("the user's cache cannot be written", path, "set XDG_CACHE_HOME")
        with open_run(path, store=store) as run:
            errors = () if shows_left_out else (*run.unreadable, *run.set_aside)
            notes = [f"left out {error}" + (f" ({error.hint})" if error.hint else "") for error in errors]
            notes += [f"settings not used, as they may be a stranger's: {file}" for file in run.settings_file.ignored]
            yield run, "".join(f"> {visible(note)}\n\n" for note in notes)


def _page(sections: Sequence[Section]) -> str:
    """Return a page as the command prints it: Markdown would escape every underscore of a name."""
    return bounded(_rendered(sections, "terminal"))


def _rendered(sections: Sequence[Section], format_: str) -> str:
    stream = io.StringIO()
    formats.render(sections, format_, stream)
    return stream.getvalue()


def bounded(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text that is cut behind a line where it is too long, and says so."""
    if len(text) <= most:
        return text
    last = f"\n\n… cut: the answer has {len(text):,} characters, and this is its beginning."
    room = most - len(last)
    return text[: max(text.rfind("\n", 0, room), 0) or room] + last


def _whole(document: str, hint: str) -> str:
    """Return JSON without blanks, which must not be cut; raises TraceAnalyzerError where it is too long."""
    text = as_json(json.loads(document), compact=True)
    if len(text) > MOST_CHARACTERS:
        raise TraceAnalyzerError(
            f"the answer would have {len(text):,} characters, and may have {MOST_CHARACTERS:,}", hint=hint
        )
    return text


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, is_complete: bool) -> str:
    """Return rows as JSON, without the last ones where all would be too long."""
    from traceanalyzer.report.json import plain_value

    lines = [as_json([_short(plain_value(value)) for value in row]) for row in rows]
    # A name of a trace may be the name of a column.
    names = as_json([_short(name) for name in columns])
    room, kept = MOST_CHARACTERS - len(names) - 200, 0
    while kept < len(lines) and room >= len(lines[kept]) + 2:
        room -= len(lines[kept]) + 2
        kept += 1
    complete = "true" if is_complete and kept == len(lines) else "false"
    body = ",\n".join(lines[:kept])
    return f'{{"columns": {names},\n"is_complete": {complete},\n"row_count": {kept},\n"rows": [\n{body}\n]}}'


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST_CELL_CHARACTERS:
        return value
    return f"{text[:MOST_CELL_CHARACTERS]}… cut: {len(text):,} characters"
