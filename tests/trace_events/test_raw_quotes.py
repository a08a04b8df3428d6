"""Quotes that a recorder did not escape: the event stays, and its name holds them."""

from __future__ import annotations

import json

import pytest
from trace_event_tables import events, read

from traceanalyzer.ingest.trace_events.repair import escape_raw_quotes


@pytest.mark.parametrize(
    "name", ['q"uote', 'say "hi"', '"hi" there', 'f["x"]', '{"a"}', 'a, "b", c', 'ok" , "', 'a: "b": c', '""']
)
@pytest.mark.parametrize(
    "event",
    [
        '{"ph": "X", "cat": "user_annotation", "name": "%s", "pid": 1, "ts": 2}',
        '{"name": "%s", "ph": "X", "args": {"labels": "CPU"}}',
        '{"ph": "X", "args": {"Concrete Inputs": ["", "False"]}, "name": "%s"}',
    ],
)
def test_a_name_keeps_its_quotes(event: str, name: str) -> None:
    assert json.loads(escape_raw_quotes(event % name))["name"] == name


def test_a_value_of_an_argument_keeps_its_quotes() -> None:
    text = '{"ph": "M", "name": "process_labels", "args": {"labels": "C"PU", "more": ["a"b", "c"]}, "pid": 1}'
    assert json.loads(escape_raw_quotes(text))["args"] == {"labels": 'C"PU', "more": ['a"b', "c"]}


def test_a_backslash_before_the_closing_quote_does_not_escape_it() -> None:
    assert json.loads(escape_raw_quotes('{"ph": "X", "name": "C:/dir\\", "ts": 1}')) == {
        "ph": "X",
        "name": "C:/dir\\",
        "ts": 1,
    }


def test_what_is_escaped_rightly_stays() -> None:
    text = json.dumps({"ph": "X", "name": 'a "b" \\', "args": {"x": [1, "y", {"z": None}]}})
    assert escape_raw_quotes(text) == text


def test_an_event_with_a_raw_quote_in_its_label_is_repaired_and_counted() -> None:
    def annotation(name: str, ts: int) -> str:
        return (
            f'{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, "dur": 1\n,'
            f'"args": {{"External id": 1}}}}'
        )

    tables = read(events(annotation("a", 0), annotation('q"uote', 10), annotation("b", 20)))
    assert tables.names() == ["a", 'q"uote', "b"]
    assert tables.defects == {"mended-text": 1}
