"""returned_copies: what is copied to the device after it was copied to the host in the same step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

STEPS = """
device  step  start_ns  end_ns  kept
0       0     0         100     true
0       1     100       200     true
0       2     200       300     false
"""
QUERY = "SELECT copied_bytes, returned_bytes FROM returned_copies"


def copies(*rows: tuple[int, str, int]) -> list[dict[str, object]]:
    """Copies at a time, in a direction, of so many MiB."""
    return [
        {"op_id": number, "device": 0, "kind": "memcpy", "copy_kind": kind, "start_ns": at_ns, "size_bytes": size << 20}
        for number, (at_ns, kind, size) in enumerate(rows)
    ]


def test_a_copy_to_the_host_returns_once_and_in_its_step() -> None:
    rows = copies(
        (10, "DtoH", 4),
        (20, "DtoH", 8),
        (30, "HtoD", 8),  # returned
        (40, "HtoD", 4),  # returned
        (50, "HtoD", 4),  # the second: only one went
        (60, "DtoH", 4),
        (110, "HtoD", 4),  # it went in the step before
        (120, "DtoH", 16),
        (130, "HtoD", 2),  # another size
        (220, "DtoH", 4),
        (230, "HtoD", 4),  # in a step that is not kept
    )
    assert ask(connect(steps=STEPS, gpu_ops=rows), QUERY) == [(22 << 20, 12 << 20)]


def test_weights_that_come_before_their_gradients_leave_do_not_return() -> None:
    rows = copies(
        (10, "HtoD", 4), (20, "HtoD", 4), (30, "DtoH", 4), (110, "HtoD", 4), (120, "HtoD", 4), (130, "DtoH", 4)
    )
    assert ask(connect(steps=STEPS, gpu_ops=rows), QUERY) == [(16 << 20, 0)]


def test_traces_without_steps_have_no_row() -> None:
    assert ask(connect(gpu_ops=copies((10, "DtoH", 4), (20, "HtoD", 4))), QUERY) == []


@pytest.mark.check
@examples()
@given(st.lists(st.tuples(st.sampled_from(["DtoH", "HtoD"]), st.integers(1, 3)), min_size=1, max_size=20))
def test_the_nth_copy_of_a_size_returns_where_n_have_gone(drawn: list[tuple[str, int]]) -> None:
    rows = copies(*((10 * number, kind, size) for number, (kind, size) in enumerate(drawn)))
    copied = returned = 0
    for step in (drawn[:10], drawn[10:]):
        for at, (kind, size) in enumerate(step):
            if kind == "HtoD":
                came = step[: at + 1].count(("HtoD", size))
                copied += size << 20
                returned += (size << 20) * (step[:at].count(("DtoH", size)) >= came)
    assert ask(connect(steps=STEPS, gpu_ops=rows), QUERY) == [(copied, returned)]
