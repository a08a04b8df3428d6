"""Any value in any column of an export costs what it is a part of, and nothing else: the export is read."""

from __future__ import annotations

import math
import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsys_export import (
    KERNEL,
    RUNTIME,
    Ingested,
    Rows,
    global_pid,
    global_tid,
    ingest,
    launched,
    write_parquet_folder,
)
from tiers import examples

from traceanalyzer.ingest.nsys.tables import TABLES, ColumnSpec

PLAIN: dict[str, Any] = {
    "start": 5000,
    "end": 5100,
    "globalPid": global_pid(10),
    "globalTid": global_tid(10),
    "endGlobalTid": None,
}
BY_TYPE: dict[str, Any] = {"int": 1, "real": 1.0, "text": "x", "blob": b"x"}
ABSURD = st.one_of(
    st.none(),
    st.sampled_from(
        [0, -1, 2**31, -(2**31) - 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 1.5e300, -1e-300, float("inf")]
    ),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.sampled_from(["", "x", "9" * 25, "9" * 5000, "nan", "1e400", "\x00", "\u202e", "[" * 2000, "{}"]),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.just(b"\xff" * 3000),
)
COLUMNS = [(table.name, column.name) for table in TABLES for column in table.columns]


def plain(column: ColumnSpec) -> Any:
    return PLAIN.get(column.name, BY_TYPE[column.type])


def whole_export() -> dict[str, Rows]:
    """Return a program of two kernels in which every table that is read has a row."""
    tables: dict[str, Rows] = {
        table.name: [{column.name: plain(column) for column in table.columns}] for table in TABLES
    }
    own = launched()
    for name in (KERNEL, RUNTIME):
        # Its columns are those of the first row.
        tables[name] = [*({**tables[name][0], **row} for row in own[name]), *tables[name]]
    return tables | {"StringIds": [*own["StringIds"], {"id": 9999, "value": "x"}]}


@pytest.mark.check
@given(st.dictionaries(st.sampled_from(COLUMNS), ABSURD, min_size=1, max_size=4))
@examples()
def test_any_value_of_any_column_leaves_other_rows_alone(values: dict[tuple[str, str], Any]) -> None:
    tables = dict(whole_export())
    for (table, column), value in values.items():
        *kept, last = tables[table]
        tables[table] = [*kept, {**last, column: value}]
    with tempfile.TemporaryDirectory() as folder:
        read = ingest(Path(folder), tables)
        starts_ns = [
            row["start_ns"] for name in read.names for row in read.rows("gpu_ops", name) if row["dur_ns"] == 400
        ]
    # Times count from the first one in the file, which may be the absurd one.
    assert 1000 in {later - earlier for earlier in starts_ns for later in starts_ns}


@pytest.mark.check
@pytest.mark.parametrize("value", ["odd one", b"\x00odd", 1.5e300, math.inf, -math.inf, -1e19, "inf", "nan"])
def test_a_wrong_type_of_any_column_of_numbers_is_counted(tmp_path: Path, value: str | bytes | float) -> None:
    tables = dict(whole_export())
    wrong = 0
    is_real = isinstance(value, float) and math.isfinite(value)
    for table in TABLES:
        columns = [c.name for c in table.columns if c.type == "int" or (c.type == "real" and not is_real)]
        tables[table.name] = [*tables[table.name], *({**tables[table.name][-1], name: value} for name in columns)]
        wrong += len(columns)
    found = ingest(tmp_path, tables)
    defects = found.defects()
    assert defects.get("mixed-types", 0) + defects.get("number-out-of-range", 0) == wrong
    assert found.column("gpu_ops", "dur_ns").count(400) == 2
    assert all(value is None or math.isfinite(value) for value in found.column("counters", "value"))


@pytest.mark.check
@pytest.mark.parametrize("value", ["9" * 25, "-" + "9" * 4000, b"9" * 25])
def test_a_text_of_too_many_digits_alone_in_its_table_is_counted(tmp_path: Path, value: str | bytes) -> None:
    tables = dict(whole_export())
    others = [table for table in TABLES if table.name not in (KERNEL, RUNTIME, "StringIds")]
    wrong = 0
    for table in others:
        columns = [column.name for column in table.columns if column.type == "int"]
        tables[table.name] = [{**tables[table.name][0], **dict.fromkeys(columns, value)}]
        wrong += len(columns)
    found = ingest(tmp_path, tables)
    assert found.defects()["number-out-of-range"] == wrong
    assert found.column("gpu_ops", "dur_ns").count(400) == 2


@pytest.mark.check
@pytest.mark.parametrize(
    "odd",
    [
        pa.array([date(2026, 1, 1)]),
        pa.array([Decimal(10) ** 30], pa.decimal128(38, 0)),
        pa.array([[1, 2]]),
        pa.array([{"a": 1}]),
    ],
    ids=lambda odd: str(odd.type),
)
def test_a_column_of_parquet_of_an_odd_type_is_unknown_and_counted(tmp_path: Path, odd: pa.Array[Any]) -> None:
    folder = odd_parquet(tmp_path, odd)
    found = Ingested(folder, tmp_path / "store")
    others = [table for table in TABLES if table.name not in (KERNEL, RUNTIME, "StringIds")]
    assert found.defects()["mixed-types"] == sum(len(table.columns) for table in others)
    assert found.column("gpu_ops", "dur_ns").count(400) == 2


@pytest.mark.check
@pytest.mark.parametrize(
    "odd", [pa.array([2**64 - 1], pa.uint64()), pa.array(["9" * 30], pa.large_string()), pa.array([True]), pa.nulls(1)]
)
def test_a_column_of_parquet_of_another_type_costs_itself(tmp_path: Path, odd: pa.Array[Any]) -> None:
    found = Ingested(odd_parquet(tmp_path, odd), tmp_path / "store")
    rows = [row for name in found.names for row in found.rows("gpu_ops", name)]
    assert [row["dur_ns"] for row in rows].count(400) == 2
    assert all(row["size_bytes"] in (None, 1) for row in rows)


def odd_parquet(tmp_path: Path, odd: pa.Array[Any]) -> Path:
    """Return an export in which all columns are of one type, but for those of kernels, their calls and their names."""
    folder = write_parquet_folder(tmp_path / "report_pqtdir", whole_export())
    for table in TABLES:
        if table.name not in (KERNEL, RUNTIME, "StringIds"):
            columns = {column.name: odd for column in table.columns}
            pq.write_table(pa.table(columns), folder / f"{table.name}.parquet")
    return folder


@pytest.mark.check
@pytest.mark.parametrize("taken", [None, "x", 2**62])
def test_a_cpu_sample_without_a_time_is_left_out_and_counted(tmp_path: Path, taken: object) -> None:
    sample = {"id": 1, "start": 5000, "globalTid": global_tid(10)}
    frame = {"id": 1, "symbol": 1, "module": 1, "stackDepth": 0}
    tables: dict[str, Rows] = {
        **launched(),
        "COMPOSITE_EVENTS": [sample, {**sample, "id": 2, "start": taken}],
        "SAMPLING_CALLCHAINS": [frame, {**frame, "id": 2}],
    }
    found = ingest(tmp_path, tables)
    assert found.column("cpu_samples", "start_ns") == [5000]
    assert found.defects()["no-times"] == 1


@pytest.mark.check
def test_a_text_of_a_hundred_megabytes_costs_itself(tmp_path: Path) -> None:
    tables = dict(whole_export())
    long = 100 * 2**20
    tables["StringIds"] = [
        *tables["StringIds"],
        {"id": 10_000, "value": "é" * long},
        {"id": 10_001, "value": bytes(long)},
    ]
    tables[KERNEL] = [*tables[KERNEL], {**tables[KERNEL][0], "demangledName": 10_000, "start": 7000, "end": 7100}]
    tables["NVTX_EVENTS"] = [{**tables["NVTX_EVENTS"][0], "text": "x" * long, "binaryData": bytes(long)}]
    found = ingest(tmp_path, tables)
    assert found.defects()["long-text"] == 4
    assert "é" * 2**15 in found.column("gpu_ops", "name")
    assert "gemm_kernel" in found.column("gpu_ops", "name")


@pytest.mark.sampled
@pytest.mark.parametrize("number", [None, -1, 2**31, "GPU"])
def test_work_of_a_device_that_cannot_be_is_that_of_its_context_or_of_none(number: Any, tmp_path: Path) -> None:
    own = launched(4)
    rows = [dict(row) for row in own[KERNEL]]
    rows[1] |= {"deviceId": 1, "contextId": 2}
    rows[2] |= {"deviceId": number, "contextId": 2}
    rows[3] |= {"deviceId": number, "contextId": 3}
    found = ingest(tmp_path, {**own, KERNEL: rows})
    assert [row["device"] for row in found.rows("gpu_ops")] == [0, 1, 1]
    assert {row["defect"]: row["defect_count"] for row in found.rows("defects")}["device-lost"] == 1


def test_work_that_names_no_possible_device_at_all_is_that_of_one(tmp_path: Path) -> None:
    own = launched()
    found = ingest(tmp_path, {**own, KERNEL: [{**row, "deviceId": -1} for row in own[KERNEL]]})
    assert [row["device"] for row in found.rows("gpu_ops")] == [0, 0]
    assert "device-lost" not in {row["defect"] for row in found.rows("defects")}
