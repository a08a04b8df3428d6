"""A wait for work that was itself asked for too late says so: an earlier host removes it, too."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

from tracesim import in_memory, simulate

HELD = "SELECT bucket, late_issue FROM attribution.ledger_rows WHERE bucket LIKE 'dev.%' AND dur_ns > 50000"
ANY_LATE = "SELECT DISTINCT bucket FROM attribution.ledger_rows WHERE late_issue"


def drawn(copies: str, copy_calls: str) -> Drawn:
    """Return a kernel, copies on a stream of their own, and a kernel that waits for the last of them."""
    return Drawn.of(
        f"""
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        {copy_calls}
        9  0      runtime  cudaLaunchKernel 203   208
        """,
        f"""
        id stream kind   start end launch
        90 7      kernel 10    100 1
        {copies}
        99 7      kernel 303   400 9
        """,
    )


def test_a_copy_that_was_asked_for_once_the_device_was_idle_is_late_itself() -> None:
    # host   L                L  L
    # copy                     [======== 91 ========]
    # gpu     [= 90 =]                               [ 99 ]
    found = drawn("91 20 h2d 205 300 2", "2 0 runtime cudaMemcpyAsync 195 200")
    assert found.rows(HELD) == [("dev.h2d", True)]


def test_a_copy_that_was_asked_for_in_time_is_not_late() -> None:
    found = drawn("91 20 h2d 60 300 2", "2 0 runtime cudaMemcpyAsync 50 55")
    assert found.rows(HELD) == [("dev.h2d", False)]


def test_a_copy_that_waited_for_the_one_before_it_is_not_late() -> None:
    # An earlier call finds its stream just as busy.
    found = drawn(
        "91 20 h2d 60 210 2\n92 20 h2d 212 300 3",
        "2 0 runtime cudaMemcpyAsync 50 55\n3 0 runtime cudaMemcpyAsync 195 200",
    )
    assert found.rows(HELD) == [("dev.h2d", False)]


def test_time_that_the_host_owns_is_no_late_issue() -> None:
    found = drawn("91 20 h2d 205 300 2", "2 0 runtime cudaMemcpyAsync 195 200")
    late = found.rows("SELECT count(*) FROM attribution.ledger_rows WHERE late_issue AND bucket LIKE 'host.%'")
    assert late == [(0,)]


@pytest.mark.parametrize(("loader_us", "late"), [(12_000, [("dev.h2d",)]), (0, [])])
def test_a_batch_that_is_copied_after_a_slow_loader_is_late(loader_us: int, late: list[tuple[str]]) -> None:
    program = [{"next": {"us": loader_us}}, {"h2d": {"mb": 16}}, {"repeat": 60, "do": [{"kernel": {"us": 80}}]}]
    con = in_memory.connect_tables(simulate({"steps": 6, "program": program}).canonical_tables())
    assert con.sql(f"{ANY_LATE} AND kept").fetchall() == late
