"""Every malformation that profilers, crashes and tools leave behind costs its own event and no other."""

from __future__ import annotations

import gzip
import json

import pytest
from trace_event_tables import events, read, slice_text

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.trace_events import reader

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

GOOD_BEFORE = slice_text("before", ts=1)
GOOD_AFTER = slice_text("after", ts=100)

# What stands between two good events, the defect that it is, and the names that are read.
BETWEEN = {
    "raw quote in a name": (
        '{"ph": "X", "name": "{"device": "cpu"}(12): run", "pid": 1, "tid": 1, "ts": 10, "dur": 5}',
        "mended-text",
        '{"device": "cpu"}(12): run',
    ),
    "raw newline in a name": (slice_text("a\nb"), "mended-text", "a\nb"),
    "control character": (slice_text("a\x01b"), "mended-text", "a\x01b"),
    "windows path": (slice_text(r"C:\Users\python.py(1): f"), "mended-text", r"C:\Users\python.py(1): f"),
    "bare N/A": (slice_text("copy", args='{"memory bandwidth (GB/s)": N/A, "bytes": 0}'), "mended-text", "copy"),
    "empty fragments": (slice_text("op", args='{"a": 1, , "b": 2}'), "mended-text", "op"),
    "lone surrogate": (slice_text("a\\ud800b"), "lone-surrogate", "a\ufffdb"),
    "duplicate key": (slice_text("first")[:-1] + ', "name": "last"}', "duplicate-key", "last"),
    "text for a time": (slice_text("lost", ts='"soon"'), "bad-timestamp", None),
    "null for a time": (slice_text("lost", ts="null"), "bad-timestamp", None),
    "list for a time": (slice_text("lost", ts="[1]"), "bad-timestamp", None),
    "null duration": (slice_text("lost", dur="null"), "bad-duration", None),
    "text for a duration": (slice_text("lost", dur='"long"'), "bad-duration", None),
    "absurd duration": (slice_text("lost", dur="18446744073709551615"), "bad-duration", None),
    "negative duration": (slice_text("op", dur=-3), "negative-duration", "op"),
    "missing phase": ('{"name": "lost", "ts": 3}', "missing-phase", None),
    "unknown phase": ('{"ph": "Q", "name": "lost", "ts": 3}', "unknown-phase", None),
    "no event": ("17", "not-an-event", None),
    "broken number": (slice_text("lost", ts="-1.-500"), "unreadable-event", None),
    "cut event in the middle": ('{"ph": "X", "name": "lost", "ts": ', "unreadable-event", None),
}


@pytest.mark.parametrize(("text", "defect", "name"), BETWEEN.values(), ids=BETWEEN.keys())
def test_a_bad_event_costs_one_event(text: str, defect: str, name: str | None) -> None:
    document = events(GOOD_BEFORE, text, GOOD_AFTER)
    tables = read(document)
    assert tables.names() == [n for n in ("before", name, "after") if n is not None]
    assert tables.defects == {defect: 1}
    assert tables.offset(defect) == document.encode().index(text.encode())


@pytest.mark.parametrize("text", ["NaN", "nan", "Infinity", "-Infinity", "inf"])
def test_numbers_that_are_none_are_kept_out_of_the_way(text: str) -> None:
    tables = read(events(GOOD_BEFORE, slice_text("op", args=f'{{"bandwidth": {text}}}'), GOOD_AFTER))
    assert tables.names() == ["before", "op", "after"]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    document = events(GOOD_BEFORE, slice_text("a?b"), GOOD_AFTER).encode().replace(b"a?b", b"a\xffb")
    tables = read(document)
    assert tables.names() == ["before", "a\ufffdb", "after"]
    assert tables.defects == {"invalid-utf8": 1}


def test_surrogate_pairs_are_characters() -> None:
    assert read(events(slice_text("\\ud83d\\ude00"))).names() == ["\U0001f600"]


@pytest.mark.parametrize("empty", ["{}", "null"])
def test_empty_events_are_skipped_in_silence(empty: str) -> None:
    tables = read(events(GOOD_BEFORE, empty, GOOD_AFTER))
    assert tables.names() == ["before", "after"]


def test_a_missing_comma_is_put_in() -> None:
    tables = read(events(GOOD_BEFORE + "\n" + GOOD_AFTER))
    assert tables.names() == ["before", "after"]
    assert tables.defects == {"missing-comma": 1}


@pytest.mark.parametrize("commas", [",,", ", ,"])
def test_a_comma_too_many_is_left_out(commas: str) -> None:
    tables = read('{"traceEvents": [' + GOOD_BEFORE + commas + GOOD_AFTER + "]}")
    assert tables.names() == ["before", "after"]
    assert tables.defects == {"extra-comma": 1}


def test_a_trailing_comma_is_left_out() -> None:
    tables = read('{"traceEvents": [' + GOOD_BEFORE + ",\n]}")
    assert tables.names() == ["before"]
    assert tables.defects == {"extra-comma": 1}


def test_a_cut_object_keeps_what_lies_before_the_cut() -> None:
    whole = events(GOOD_BEFORE, slice_text("cut"), GOOD_AFTER)
    cut = whole[: whole.index('"cut"') + 3]
    tables = read(cut)
    assert tables.names() == ["before"]
    assert tables.defects == {"truncated": 1}
    assert tables.offset("truncated") == cut.rindex("{")
    assert tables["traces"][0]["truncated"]


def test_a_missing_end_of_the_list_is_a_cut() -> None:
    tables = read('{"traceEvents": [' + GOOD_BEFORE)
    assert tables.names() == ["before"]
    assert tables["traces"][0]["truncated"]


def test_an_array_needs_no_closing_bracket() -> None:
    tables = read("[" + GOOD_BEFORE + ",\n" + GOOD_AFTER)
    assert tables.names() == ["before", "after"]
    assert not tables["traces"][0]["truncated"]


@pytest.mark.parametrize("tail", ["", "\n", " \0\0\0"])
def test_blanks_and_nul_bytes_after_the_end_are_nothing(tail: str) -> None:
    assert read(events(GOOD_BEFORE) + tail).defects == {}


def test_text_after_the_end_is_counted() -> None:
    document = events(GOOD_BEFORE)
    tables = read(document + "garbage")
    assert tables.names() == ["before"]
    assert tables.defects == {"trailing-data": 1}
    assert tables.offset("trailing-data") == len(document)


@pytest.mark.parametrize("limit_bytes", [2**20, 8])
@pytest.mark.parametrize("between", ["", "\n", " \0"])
def test_a_second_document_is_named(between: str, limit_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HEADER_LIMIT_BYTES", limit_bytes)
    for first in (events(GOOD_BEFORE), f"[{GOOD_BEFORE}]"):
        tables = read(first + between + events(GOOD_AFTER))
        assert tables.names() == ["before"]
        assert tables.defects == {"second-document": 1}
        assert tables.offset("second-document") == len(first)
        keys = {row["key"] for row in tables["metadata"]}
        assert ("traceName" in keys) == first.startswith("{")


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b"\xef\xbb\xbf" + events(GOOD_BEFORE).encode()).names() == ["before"]


@pytest.mark.parametrize("content", [b"", b"  \n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_gets_one_sentence(content: bytes) -> None:
    with pytest.raises(TraceAnalyzerError, match="the file is empty"):
        read(content)


@pytest.mark.parametrize("content", ['{"a": 1}', '{"traceEvents": 5}', "hello", "<html>", "\0\0\0"])
def test_what_is_no_trace_gets_one_sentence(content: str) -> None:
    with pytest.raises(TraceAnalyzerError, match=r"traceEvents|no trace"):
        read(content)


def test_a_list_without_events_is_a_trace() -> None:
    tables = read('{"traceEvents": [], "baseTimeNanoseconds": 5}')
    assert tables.names() == []
    assert tables["traces"][0]["base_ns"] == 5


def test_gzip_is_told_by_content_and_read_member_by_member() -> None:
    document = events(GOOD_BEFORE, GOOD_AFTER).encode()
    members = gzip.compress(document[:50]) + gzip.compress(document[50:])
    assert read(members, name="trace.json").names() == ["before", "after"]
    assert read(document, name="trace.json.gz").names() == ["before", "after"]


def test_a_cut_gzip_keeps_what_could_be_inflated() -> None:
    many = [slice_text(f"op {i} {i * 7919}", ts=i * 10) for i in range(2000)]
    packed = gzip.compress(events(*many).encode())
    tables = read(packed[: len(packed) // 2])
    names = tables.names()
    assert 0 < len(names) < 2000
    assert names == [f"op {i} {i * 7919}" for i in range(len(names))]
    assert "gzip-truncated" in tables.defects
    assert tables["traces"][0]["truncated"]


def test_damaged_gzip_keeps_what_lies_before_the_damage() -> None:
    many = [slice_text(f"op {i} {i * 7919}", ts=i * 10) for i in range(200_00)]
    packed = bytearray(gzip.compress(events(*many).encode()))
    packed[len(packed) // 2 : len(packed) // 2 + 64] = bytes(64)
    tables = read(bytes(packed))
    assert tables.names()[:10] == [f"op {i} {i * 7919}" for i in range(10)]
    assert tables["traces"][0]["truncated"]


def test_bytes_after_the_last_gzip_member_are_counted() -> None:
    tables = read(gzip.compress(events(GOOD_BEFORE).encode()) + b"garbage")
    assert tables.names() == ["before"]
    assert tables.defects == {"gzip-trailing-data": 1}


def test_a_bad_value_outside_the_events_costs_only_itself() -> None:
    tables = read('{"a": 1, "broken": nope, "rank": 3, "traceEvents": [' + GOOD_BEFORE + '], "b": [1, 2]}')
    assert {row["key"]: row["value"] for row in tables["metadata"]} == {"a": "1", "rank": "3", "b": "[1, 2]"}
    assert tables.defects == {"bad-header": 1}


def test_keys_after_the_events_count_like_keys_before_them() -> None:
    base = 1_711_964_646_000_000_000
    before = read(f'{{"baseTimeNanoseconds": {base}, "traceEvents": [{GOOD_BEFORE}]}}')
    after = read(f'{{"traceEvents": [{GOOD_BEFORE}], "baseTimeNanoseconds": {base}}}')
    assert before["host_slices"] == after["host_slices"]
    assert after["host_slices"][0]["start_ns"] == base + 1000


def test_properties_after_the_events_are_no_events() -> None:
    devices = json.dumps([{"id": i, "name": "NVIDIA H100"} for i in range(8)])
    tables = read('{"traceEvents": [' + GOOD_BEFORE + f'], "deviceProperties": {devices}}}', chunk_bytes=64)
    assert tables.names() == ["before"]
    assert [row["device"] for row in tables["devices"]] == list(range(8))
    assert tables.defects == {}


@pytest.mark.check
def test_arguments_as_one_text_say_what_the_object_says() -> None:
    launch = slice_text("cudaLaunchKernel", cat='"cuda_runtime"', args='{"correlation": 3}')
    place = {"device": 0, "stream": 7, "correlation": 3, "grid": [4, 1, 1], "note": 'a "quoted" word'}
    plain = events(
        launch, slice_text("k", ts=30, cat='"kernel"', args=json.dumps(place)), slice_text("other", args="{}")
    )
    texts = json.loads(plain)
    for event in texts["traceEvents"]:
        if "args" in event:
            event["args"] = json.dumps(event["args"])
    found, wanted = read(json.dumps(texts)), read(plain)
    for table in ("gpu_ops", "host_slices"):
        assert found[table] == wanted[table]
    assert (found["gpu_ops"][0]["grid_x"], found["gpu_ops"][0]["launch_id"] is None) == (4, False)
    assert found.defects == wanted.defects


@pytest.mark.check
@pytest.mark.parametrize("text", ["soon", "{soon", "[1]", "3"])
def test_arguments_that_are_another_text_are_counted(text: str) -> None:
    found = read(events(slice_text("a"), slice_text("b", ts=20, args=json.dumps(text))))
    assert len(found["host_slices"]) == 2
    assert found.defects["bad-arguments"] == 1
