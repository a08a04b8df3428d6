"""Summaries of strangers: any value in any field is an error that names the field, or gives a harmless comparison."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from drawn_summaries import MS, capture, finding
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.cli import main
from traceanalyzer.comparison.summary import NamedTime, NamedTimes, RunTimes, text_of
from traceanalyzer.report import formats

SECRET = "swordfish4711"
STEERING = f"\x1b]0;owned\x07\u202e\u2028\nerror: forged HF_TOKEN={SECRET}"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069]")
NO_NUMBER = re.compile(r"\b(nan|NaN|inf|Infinity)\b")
WHOLE = capture(
    kernels={"first": (3, 5.0), "second": (1, 2.0)},
    waits_ms={"host.python": 5},
    findings=[finding()],
    run=RunTimes(400 * MS, 4, {"compute": 400 * MS}),
    operators=NamedTimes((NamedTime("aten::mm", "operator", 4, 1000),), 4),
    below_noise={"tiny-kernels": 0.1},
    quality={"tq-truncated": "warning"},
    joint_saving_ns=5,
    taken_at="2026-04-16T04:18:37Z",
)
NUMBERS = (
    0,
    -1,
    2**31,
    2**63,
    -(2**63),
    10**30,
    10**400,
    0.5,
    1e300,
    -1e300,
    5e-324,
    *map(float, ("nan", "inf", "-inf")),
)
OTHERS: tuple[Any, ...] = (
    True,
    None,
    "",
    "x",
    STEERING,
    "\ud800",
    "a" * 70_000,
    "9" * 5000,
    [],
    {},
    [1],
    [None],
    {"a": 1},
    [[[[]]]],
)
COMMANDS = [*(["diff", "BASE", "NEW", "--format", name, "--fail-on", "any", "-v"] for name in formats.DIFF_FORMATS)]
COMMANDS += [[*COMMANDS[0][:1], "NEW", "BASE"], ["export", "baseline", "NEW"]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return every place in a document as its holder and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if key != "summary_version":
            yield value, key
            yield from places(value[key])


COUNT = len(list(places(json.loads(text_of([WHOLE])))))


def shown_by(document: dict[str, Any], command: list[str], folder: Path) -> tuple[int, str]:
    """Return the exit code of a command about a file of summaries, and all that it prints."""
    paths = {"BASE": folder / "base.json", "NEW": folder / "new.json"}
    paths["BASE"].write_text(text_of([WHOLE]), encoding="utf-8")
    paths["NEW"].write_text(json.dumps(document), encoding="utf-8")
    out, said = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        code = main([str(paths.get(word, word)) for word in command])
    return code, out.getvalue() + said.getvalue()


@pytest.mark.check
@given(
    st.lists(st.tuples(st.integers(0, COUNT - 1), st.sampled_from((*NUMBERS, *OTHERS))), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(COMMANDS),
)
@examples(400)
def test_any_value_of_any_field_is_taken_or_named(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, Any]], as_key: bool, command: list[str]
) -> None:
    document = json.loads(text_of([WHOLE]))
    for place, drawn in changes:
        value = json.loads(json.dumps(drawn)) if isinstance(drawn, list | dict) else drawn  # never within itself
        all_places = list(places(document))
        holder, key = all_places[place % len(all_places)]
        if as_key and isinstance(holder, dict) and isinstance(value, str):
            holder[value] = holder.pop(key)
        else:
            holder[key] = value
    code, shown = shown_by(document, command, tmp_path_factory.getbasetemp())
    assert code in (0, 1, 2, 3), shown
    assert "internal error" not in shown
    assert RAW.search(shown) is None
    assert SECRET not in shown
    assert not any(line.startswith("error: forged") for line in shown.splitlines())
    if code == 2:
        assert re.search(r"error: \S+new\.json: (field|summary_version)|error: .*captures", shown), shown
    else:
        told = re.sub(
            r"<script>.*?</script>", "", shown, flags=re.DOTALL
        )  # the page's own program may count to Infinity
        assert NO_NUMBER.search(told) is None, told


@pytest.mark.parametrize("value", [10**400, 1e300, float("nan"), float("inf"), -(2**63)], ids=str)
def test_a_number_out_of_range_is_named_with_its_field(tmp_path: Path, value: float) -> None:
    document = json.loads(text_of([WHOLE]))
    document["captures"][0]["kernels"]["rows"][0]["dur_ns"] = value
    code, shown = shown_by(document, ["export", "baseline", "NEW"], tmp_path)
    assert code == 2
    assert "field captures[0].kernels.rows[0].dur_ns: Expected `int`" in shown


def test_a_word_that_is_none_is_named_with_its_field(tmp_path: Path) -> None:
    document = json.loads(text_of([WHOLE]))
    document["captures"][0]["findings"][0]["severity"] = STEERING
    code, shown = shown_by(document, ["diff", "BASE", "NEW"], tmp_path)
    assert code == 2
    assert "field captures[0].findings[0].severity: Expected `str` matching regex '^(note|" in shown
    assert RAW.search(shown) is None


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    document = json.loads(text_of([WHOLE]))
    document["captures"][0]["label"] = "half \ud800 a pair"
    assert shown_by(document, ["diff", "BASE", "NEW", "--format", "sarif"], tmp_path)[0] == 0
