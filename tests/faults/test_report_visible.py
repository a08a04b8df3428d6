"""Text from traces cannot steer a terminal, forge lines, or turn the direction of writing."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_diagnoses import ledger, loader_finding, quality_finding, sick, trace

from traceanalyzer.cli import main
from traceanalyzer.diagnosis import Evidence, Fix
from traceanalyzer.report import formats
from traceanalyzer.text.visible import one_line, visible

HOSTILE = "\x1b]0;title\x07 \x1b[31m \u202egnp.exe \u2066x\u2069 a\u2028b\u2029c \x9b2J \ud800 \x00"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("lone \udc80", "lone \\udc80"),
        ("naïve 日本 🙂 −3 %", "naïve 日本 🙂 −3 %"),
    ],
)
def test_steering_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_the_name_of_a_file_cannot_steer_or_forge_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tmp_path / "\x1b[31mred\nerror: forged")]) == 2
    (error, *_) = capsys.readouterr().err.splitlines()
    assert "\\x1b[31mred error: forged" in error


@pytest.mark.check
@given(st.text())
def test_what_is_visible_holds_no_steering_character_and_can_be_encoded(text: str) -> None:
    assert not STEERING.search(one_line(text))
    assert "\n" not in one_line(text)
    one_line(text).encode()
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("format_", formats.DIAGNOSIS_FORMATS)
@pytest.mark.parametrize("verbose", [False, True])
def test_no_text_of_a_trace_reaches_a_report_unescaped(format_: str, verbose: bool) -> None:
    code = f"run({HOSTILE!r})  # {HOSTILE}"
    finding = loader_finding(
        rule=HOSTILE,
        title=HOSTILE,
        message=HOSTILE,
        why=HOSTILE,
        evidence=(Evidence(HOSTILE, (HOSTILE, "b"), ((HOSTILE, 1),)),),
        fixes=(Fix(HOSTILE, code),),
        references=(HOSTILE,),
    )
    one = replace(ledger(host__python=0.3), device_name=HOSTILE, buckets=(("compute", 7), (HOSTILE, 3)), window_ns=10)
    quality = replace(quality_finding(), message=HOSTILE)
    diagnosis = sick(run=HOSTILE, traces=(trace(HOSTILE),), ledgers=(one,), findings=(finding, quality))
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, format_, stream, verbose=verbose)
    assert not STEERING.search(stream.getvalue())
    # JSON has escapes of its own.
    assert "\\x1b" in stream.getvalue() or "\\u001b" in stream.getvalue()
    stream.getvalue().encode()
