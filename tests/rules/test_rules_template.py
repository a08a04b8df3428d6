"""Messages: columns in their formats, and counts with the word for one or for many."""

from __future__ import annotations

from typing import Any

import pytest

from traceanalyzer.rules.rule_file.model import render, template_fields
from tracesim import in_memory


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{n: copy|copies}", 1, "1 copy"),
        ("{n: copy|copies}", 0, "0 copies"),
        ("{n:.0f copy|copies}", 1.4, "1 copy"),
        ("{n:.0f copy|copies}", 1.6, "2 copies"),
        ("{n:.1f copy|copies}", 1.0, "1.0 copies"),
        ("{n: kernel starts|kernels start} early", 1, "1 kernel starts early"),
        ("{n: kernel starts|kernels start} early", 12, "12 kernels start early"),
        ("{n: copy|copies}", None, "unknown copies"),
        ("{n:.1%}", 0.5, "50.0 %"),
        ("{n:bytes}", 2048, "2.0 KiB"),
        ("{n: copy|copies}", 3000, "3,000 copies"),
        ("{n:.1f} ms", 1077.34, "1,077.3 ms"),
        ("step {n}", 1077, "step 1077"),
        ("{n:bucket}", "compute", "GPU busy with compute"),
        ("mostly {n:bucket}.", "dev.h2d", "mostly waiting for a host-to-device copy."),
        ("it waits{n:bucket}", "; most is “host.gc” (36 %)", "it waits; most is “Python garbage collection” (36 %)"),
        ("{n:bucket}", "not recorded", "not recorded"),
    ],
)
def test_a_count_brings_the_word_for_one_or_for_many(template: str, value: Any, text: str) -> None:
    assert render(template, {"n": value}) == text


def test_three_words_for_a_count_are_a_mistake() -> None:
    for template in ("{n: copy|copies|more}", "{n:copy|copies}"):
        with pytest.raises(ValueError, match="two words, for one and for many"):
            template_fields(template)


def test_the_macro_for_sql_counts_like_a_message() -> None:
    with in_memory.connect_tables({}) as con:
        rows = con.execute(
            "SELECT counted(n, 'copy', 'copies') FROM unnest([0, 1, 1.4, 1.6, 3000, NULL]) AS numbers(n)"
        ).fetchall()
    assert [text for (text,) in rows] == ["0 copies", "1 copy", "1 copy", "2 copies", "3,000 copies", None]
