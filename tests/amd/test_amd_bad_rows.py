"""One bad row, table or value of each container costs what its defect says, and no other work or call."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_amd_bad_input import csv_set, read, rocpd, rpd, tool
from test_rocpd import SUFFIX

from traceanalyzer.run import open_run

LONG = "x" * 10**6  # a text of 1 MB
TOO_LATE = 2**63
# Defects of recordings that are whole.
ALWAYS = {"clock-since-boot", "devices-by-number"}


def found(file: Path) -> tuple[dict[str, int], int, int]:
    """Return the defects of a file, and how much GPU work and how many calls are left."""
    tables = read(file)
    assert not isinstance(tables, str), tables
    defects = {row["defect"]: row["defect_count"] for row in tables["defects"] if row["defect"] not in ALWAYS}
    return defects, len(tables["gpu_ops"]), len(tables["host_slices"])


def in_database(file: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement.replace("{s}", SUFFIX), [LONG] if "?" in statement else [])
        connection.commit()
    return file


FIRST_COPY = "WHERE id = (SELECT min(id) FROM rocpd_memory_copy{s})"
FIRST_CALL = "WHERE id = (SELECT event_id FROM rocpd_region{s} LIMIT 1)"
AS_VIEW = "ALTER TABLE rocpd_region{s} RENAME TO kept"


# What is wrong, the defects that count it, and the work and calls that are lost; None: all of them.
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statements", "defects", "lost"),
    [
        ([f"UPDATE rocpd_memory_copy{{s}} SET name_id = 9999 {FIRST_COPY}"], {"missing-string": 1}, (0, 0)),
        ([f"UPDATE rocpd_memory_copy{{s}} SET dst_agent_id = 99, src_agent_id = 98 {FIRST_COPY}"],
         {"missing-agent": 1}, (0, 0)),
        ([f"UPDATE rocpd_memory_copy{{s}} SET event_id = 9999 {FIRST_COPY}"], {"missing-event": 1}, (0, 0)),
        (["UPDATE rocpd_region{s} SET event_id = 9999 WHERE id = 1"], {"missing-event": 1}, (0, 0)),
        (["UPDATE rocpd_region{s} SET start = 'soon' WHERE id = 1"], {"mixed-types": 1, "no-times": 1}, (0, 1)),
        (['UPDATE rocpd_region{s} SET "end" = 9223372036854775807 WHERE id = 1'],
         {"number-out-of-range": 1, "no-times": 1}, (0, 1)),
        (["UPDATE rocpd_region{s} SET tid = NULL WHERE id = 1"], {}, (0, 0)),
        ([f"UPDATE rocpd_event{{s}} SET extdata = x'ff00' {FIRST_CALL}"], {"invalid-utf8": 1, "bad-json": 1}, (0, 0)),
        ([f"UPDATE rocpd_event{{s}} SET extdata = json_object('message', ?) {FIRST_CALL}"], {}, (0, 0)),
        (["UPDATE rocpd_info_kernel_symbol{s} SET display_name = ? WHERE id = 1"], {}, (0, 0)),
        ([AS_VIEW, "CREATE VIEW rocpd_region{s} AS SELECT * FROM kept"], {"missing-table": 1}, (0, None)),
        ([AS_VIEW, "CREATE VIEW rocpd_region{s} AS SELECT load_extension('x') AS id, * FROM kept"],
         {"missing-table": 1}, (0, None)),
        ([AS_VIEW, 'CREATE VIRTUAL TABLE rocpd_region{s} USING fts4(id, start, "end", name_id, tid, event_id)'],
         {"missing-table": 1}, (0, None)),
        (["CREATE INDEX calls ON rocpd_region{s} (abs(start))"], {}, (0, 0)),
    ],
)  # fmt: skip
def test_rows_of_rocpd(
    statements: list[str], defects: dict[str, int], lost: tuple[int, int | None], tmp_path: Path
) -> None:
    file = rocpd(tmp_path)
    before, work, calls = found(file)
    assert before == {}
    after = found(in_database(file, *statements))
    assert after == (defects, work - lost[0], 0 if lost[1] is None else calls - lost[1])


def test_rows_that_only_the_log_ahead_of_a_database_holds_are_read(tmp_path: Path) -> None:
    file = rocpd(tmp_path)
    _, work, calls = found(file)
    kept = tmp_path / "kept"
    kept.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute(f"DELETE FROM rocpd_kernel_dispatch{SUFFIX} WHERE id = 1")
        connection.commit()
        for name in ("a.db", "a.db-wal"):
            shutil.copy(tmp_path / name, kept)
    assert found(kept / "a.db") == ({}, work - 1, calls)


@pytest.mark.check
def test_processes_of_one_file_may_have_tables_of_different_columns(tmp_path: Path) -> None:
    file, other = rocpd(tmp_path), SUFFIX.replace("cffb", "cffc")
    _, work, calls = found(file)
    with closing(sqlite3.connect(file)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            copied = name.replace(SUFFIX, other)
            connection.execute(f'CREATE TABLE "{copied}" AS SELECT * FROM "{name}"')
        for column in ("graph_exec_id", "group_segment_size", "stream_id"):
            known = [row[1] for row in connection.execute(f"PRAGMA table_info(rocpd_kernel_dispatch{other})")]
            if column in known:
                connection.execute(f"ALTER TABLE rocpd_kernel_dispatch{other} DROP COLUMN {column}")
        connection.commit()
    assert found(file) == ({}, 2 * work, 2 * calls)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statement", "defects", "left"),
    [
        ("UPDATE rocpd_api SET apiName_id = 99 WHERE id = 1", {"missing-string": 1}, (2, 3)),
        ("UPDATE rocpd_op SET description_id = 99 WHERE id = 1", {"missing-string": 1}, (2, 3)),
        ("UPDATE rocpd_op SET opType_id = 99 WHERE id = 1", {"missing-string": 1}, (2, 3)),
        ("UPDATE rocpd_op SET opType_id = 99, description_id = 99 WHERE id = 1",
         {"missing-string": 1, "unknown-kind": 1, "no-gpu-work": 1}, (1, 3)),
        ("UPDATE rocpd_api_ops SET api_id = 99 WHERE id = 1", {"missing-event": 1}, (2, 3)),
        ("UPDATE rocpd_api SET start = 'soon' WHERE id = 1",
         {"mixed-types": 1, "no-times": 1, "missing-event": 1}, (2, 2)),
        ("UPDATE rocpd_api SET pid = NULL WHERE id = 1", {"unknown-process": 1}, (2, 3)),
        ("UPDATE rocpd_api SET tid = NULL WHERE id = 1", {}, (2, 3)),
        ("UPDATE rocpd_op SET start = 0 WHERE id = 1", {"no-times": 1, "no-gpu-work": 1}, (1, 3)),
        ('UPDATE rocpd_op SET "end" = start - 5 WHERE id = 1', {"negative-duration": 1}, (2, 3)),
        ("UPDATE rocpd_op SET queueId = 'many' WHERE id = 1", {"mixed-types": 1}, (2, 3)),
        ("UPDATE rocpd_string SET string = ? WHERE id = 4", {}, (2, 3)),
        ("DELETE FROM rocpd_op", {"no-gpu-work": 1}, (0, 3)),
        ("DELETE FROM rocpd_api", {"missing-event": 2}, (2, 0)),
        ("CREATE TRIGGER rocpd_x AFTER INSERT ON rocpd_api BEGIN SELECT 1; END", {}, (2, 3)),
    ],
)  # fmt: skip
def test_rows_of_rpd(statement: str, defects: dict[str, int], left: tuple[int, int], tmp_path: Path) -> None:
    assert found(in_database(rpd(tmp_path), statement)) == (defects, *left)


def kernel(one: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = one["buffer_records"]["kernel_dispatch"][0]
    return record


def repeat(one: dict[str, Any]) -> None:
    again = {**kernel(one), "start_timestamp": 3_000, "end_timestamp": 3_050}
    one["buffer_records"]["kernel_dispatch"].append(again)


NOWHERE = {"x": 0, "y": 0, "z": 0}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("change", "defects", "left"),
    [
        (lambda one: one["buffer_records"].clear(), {"no-gpu-work": 1}, (0, 0)),
        (lambda one: one["buffer_records"]["kernel_dispatch"].clear(), {}, (1, 1)),
        (lambda one: kernel(one)["dispatch_info"].update(kernel_id=99), {"missing-kernel": 1}, (2, 1)),
        (lambda one: kernel(one)["dispatch_info"].update(agent_id={"handle": 99}), {"missing-agent": 1}, (2, 1)),
        (lambda one: kernel(one)["dispatch_info"].update(grid_size=NOWHERE, workgroup_size=NOWHERE), {}, (2, 1)),
        (lambda one: kernel(one).update(end_timestamp=5), {"negative-duration": 1}, (2, 1)),
        (lambda one: kernel(one).update(start_timestamp=0), {"no-times": 1}, (1, 1)),
        (lambda one: kernel(one).update(end_timestamp=TOO_LATE), {"unreadable-record": 1}, (1, 1)),
        (lambda one: kernel(one).update(end_timestamp="soon"), {"unreadable-record": 1}, (1, 1)),
        (repeat, {"repeated-dispatch": 1}, (3, 1)),
        (lambda one: one["agents"][0].update(type=9), {"unknown-agent": 1}, (2, 1)),
        (lambda one: one["buffer_records"].update(later=[{"kind": 3}]), {"unknown-kind": 1}, (2, 1)),
        (lambda one: one["buffer_records"]["memory_copy"][0].update(operation=77), {"unknown-operation": 1}, (2, 1)),
        (lambda one: one["kernel_symbols"][0].update(formatted_kernel_name=LONG), {}, (2, 1)),
    ],
)
def test_records_of_json(
    change: Callable[[dict[str, Any]], None], defects: dict[str, int], left: tuple[int, int], tmp_path: Path
) -> None:
    one = tool()
    change(one)
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [one]}))
    assert found(file) == (defects, *left)


def last_column(text: str, name: str, cell: str) -> str:
    head, *rows = text.split("\n")
    return "\n".join([f"{head},{name}", *(f"{row},{cell}" for row in rows)])


def tables() -> Iterator[Any]:
    """Yield a table of a set, how its text is changed, the defects that count it, and what is left."""
    own, calls = "a_kernel_trace.csv", "a_hip_api_trace.csv"
    yield own, lambda text: text.split("\n")[0], {"no-gpu-work": 1}, (0, 8)
    yield calls, lambda text: text.split("\n")[0], {}, (8, 0)
    yield "a_marker_api_trace.csv", lambda text: "", {"unreadable-table": 1}, (8, 8)
    yield "a_agent_info.csv", lambda text: "", {"unreadable-table": 1}, (8, 8)
    yield own, lambda text: text[:-20], {"unreadable-record": 1}, (7, 8)
    # Without a line end nothing says that a number goes no further, unless it is an end that lies behind its start.
    yield own, lambda text: text[:-1], {"unreadable-record": 1}, (7, 8)
    yield calls, lambda text: text[:-1], {"unreadable-record": 1}, (8, 7)
    yield own, lambda text: last_column(text, "Grid_Size_Z", "16"), {"unreadable-record": 1}, (7, 8)
    yield own, lambda text: last_column(text, "Grid_Size_Z", '"16"')[:-1], {"unreadable-record": 1}, (7, 8)
    yield own, lambda text: last_column(text, "Grid_Size_Z", '"16"'), {}, (8, 8)
    yield own, lambda text: last_column(text, "Grid_Size_Z", "16") + "\r\n", {}, (8, 8)
    yield own, lambda text: "\ufeff" + text.replace("\n", "\r\n"), {}, (8, 8)
    yield own, lambda text: text.replace("void k<int, float>(int)", LONG, 1), {}, (8, 8)
    yield own, lambda text: text.replace("Agent 1", "somewhere", 1), {"missing-agent": 1}, (8, 8)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "change", "defects", "left"), list(tables()))
def test_tables_of_csv(
    name: str, change: Callable[[str], str], defects: dict[str, int], left: tuple[int, int], tmp_path: Path
) -> None:
    leader = csv_set(tmp_path)
    file = tmp_path / name
    file.write_text(change(file.read_text() if file.exists() else ""), newline="")
    assert found(leader) == (defects, *left)


@pytest.mark.check
@pytest.mark.parametrize("separator", [";", "\t"])
def test_tables_that_a_spreadsheet_of_another_language_wrote_are_read(separator: str, tmp_path: Path) -> None:
    leader = csv_set(tmp_path)
    plain = found(leader)
    for file in tmp_path.glob("*.csv"):
        rows = list(csv.reader(file.read_text().splitlines()))
        with file.open("w", newline="") as target:
            csv.writer(target, delimiter=separator).writerows(rows)
    with open_run(tmp_path, store=tmp_path / "store", attribution=False) as run:
        assert run.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(plain[1],)]
    assert found(leader) == plain
    leader.write_text(leader.read_text().rstrip("\r\n")[:-4])
    assert found(leader) == ({"unreadable-record": 1}, plain[1] - 1, plain[2])


@pytest.mark.check
@pytest.mark.parametrize("shown", ["{:,}", "{}.0", "{},00", "{:,}·", "{:,}'"])
def test_whole_numbers_that_a_spreadsheet_shows_its_way_are_read(shown: str, tmp_path: Path) -> None:
    leader = csv_set(tmp_path)
    plain = found(leader)
    mark = {"·": ".", "'": "'"}.get(shown[-1])
    for file in tmp_path.glob("*.csv"):
        head, *rows = csv.reader(file.read_text().splitlines())
        times = [at for at, name in enumerate(head) if name.endswith("Timestamp")]
        for row in rows:
            for at in times:
                text = shown.rstrip("·'").format(int(row[at]))
                row[at] = text if mark is None else text.replace(",", mark)
        with file.open("w", newline="") as target:
            csv.writer(target).writerows([head, *rows])
    assert found(leader) == plain


@pytest.mark.check
def test_numbers_of_json_that_are_texts_or_reals_are_read(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    content = {"rocprofiler-sdk-tool": [tool()]}
    plain, file = tmp_path / "a_results.json", tmp_path / "texts" / "a_results.json"
    plain.write_text(json.dumps(content))
    for kind in ("kernel_dispatch", "hip_api"):
        for at, record in enumerate(content["rocprofiler-sdk-tool"][0]["buffer_records"][kind]):
            for name in ("start_timestamp", "end_timestamp"):
                record[name] = str(record[name]) if at % 2 else float(record[name])
    file.write_text(json.dumps(content))
    assert found(file) == found(plain)
    assert found(plain)[1] > 0


@pytest.mark.check
def test_a_file_whose_work_is_unreadable_does_not_say_that_it_has_none(tmp_path: Path) -> None:
    content = {"rocprofiler-sdk-tool": [tool()]}
    buffers = content["rocprofiler-sdk-tool"][0]["buffer_records"]
    for record in (*buffers["kernel_dispatch"], *buffers["memory_copy"]):
        record["start_timestamp"] = "soon"
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps(content))
    defects, work, _ = found(file)
    assert work == 0
    assert "unreadable-record" in defects
    assert "no-gpu-work" not in defects


OF_RPD = "gpuId, queueId, sequenceId, completionSignal, start, end, description_id, opType_id"
CALLS_OF_RPD = "pid, tid, start, end, apiName_id, args_id"


@pytest.mark.check
def test_rows_of_rpd_that_are_there_twice_are_one_event(tmp_path: Path) -> None:
    again = (
        f"INSERT INTO rocpd_op ({OF_RPD}) SELECT {OF_RPD} FROM rocpd_op WHERE id = 1",
        f"INSERT INTO rocpd_api ({CALLS_OF_RPD}) SELECT {CALLS_OF_RPD} FROM rocpd_api",
    )
    one = found(rpd(tmp_path))
    (tmp_path / "other").mkdir()
    file = in_database(rpd(tmp_path / "other"), *again)
    assert found(file)[1:] == one[1:]
    tables = read(file)
    assert not isinstance(tables, str)
    repeated = [row["defect_count"] for row in tables["defects"] if row["defect"] == "repeated-record"]
    assert sorted(repeated) == [1, 3]  # of each process


@pytest.mark.check
def test_rows_of_rocpd_that_are_there_twice_are_one_event(tmp_path: Path) -> None:
    file = rocpd(tmp_path)
    one = found(file)
    with closing(sqlite3.connect(file)) as connection:
        for table in ("kernel_dispatch", "memory_copy", "region"):
            name = f"rocpd_{table}{SUFFIX}"
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})") if row[1] != "id"]
            named = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f"INSERT INTO {name} ({named}) SELECT {named} FROM {name} LIMIT 1")
        connection.commit()
    defects, *left = found(file)
    assert left == list(one[1:])
    assert defects == one[0] | {"repeated-record": 3}


@pytest.mark.check
def test_kernels_of_rpd_that_share_a_plain_launch_are_tied_to_none(tmp_path: Path) -> None:
    """A launch starts one kernel: that of a graph, several."""
    for name, tied in (("hipLaunchKernel", 0), ("hipGraphLaunch", 2)):
        file = in_database(
            rpd(tmp_path),
            f"UPDATE rocpd_string SET string = '{name}' WHERE id = 1",
            "UPDATE rocpd_op SET gpuId = 0, start = start + 100 * id, end = end + 100 * id",
            "UPDATE rocpd_api_ops SET api_id = 1",
        )
        tables = read(file)
        assert not isinstance(tables, str)
        assert sum(row["launch_id"] is not None for row in tables["gpu_ops"]) == tied
        file.unlink()
