"""flow_arrows: what a viewer draws between slices, bound by the rules of the trace-event format."""

from __future__ import annotations

from text_tables import ask, connect

#  thread 1   [ op               ]  [ late )      0..20, 30..40
#              [ call )                           1..9
#  stream 7                    [ k   )            15..25
SLICES = """
slice_id  thread_id  name  start_ns  dur_ns  depth  parent_id
1         1          op    0         20      0      -
2         1          call  1         8       1      1
3         1          late  30        10      0      -
"""
THREADS = [{"thread_id": 1, "pid": "100", "tid": "200"}, {"thread_id": 2, "pid": "0", "tid": "7"}]
OPS = """
op_id  device  stream  name  start_ns  dur_ns
9      0       7       k     15        10
"""
ARROWS = "SELECT flow_id, from_name, to_name FROM flow_arrows"


def arrows(flows: str) -> list[tuple[object, ...]]:
    return ask(connect(flows=flows, host_slices=SLICES, threads=THREADS, gpu_ops=OPS), ARROWS)


def test_a_launch_arrow_leads_from_the_call_to_the_kernel() -> None:
    assert arrows("""
        event_id  flow_id  category  name  phase  thread_id  start_ns  binds_enclosing
        10        a5       ac2g      ac2g  s      1          1         true
        11        a5       ac2g      ac2g  f      2          15        true
        """) == [("a5", "call", "k")]  # fmt: skip


def test_a_slice_that_has_ended_is_not_bound_to_but_the_one_around_it_is() -> None:
    assert arrows("""
        event_id  flow_id  category  name  phase  thread_id  start_ns  binds_enclosing
        10        a5       c         n     s      1          12        true
        11        a5       c         n     f      1          25        true
        """) == [("a5", "op", None)]  # fmt: skip


def test_an_end_that_does_not_bind_to_the_enclosing_slice_waits_for_the_next() -> None:
    assert arrows("""
        event_id  flow_id  category  name  phase  thread_id  start_ns  binds_enclosing
        10        a5       c         n     s      1          5         true
        11        a5       c         n     f      1          12        false
        """) == [("a5", "call", "late")]  # fmt: skip


def test_steps_make_a_chain_and_a_used_id_starts_anew() -> None:
    assert arrows("""
        event_id  flow_id  category  name  phase  thread_id  start_ns  binds_enclosing
        10        a5       c         n     s      1          1         true
        11        a5       c         n     t      2          16        true
        12        a5       c         n     f      1          31        true
        13        a5       c         n     s      1          32        true
        14        a5       c         m     f      1          33        true
        """) == [("a5", "call", "k"), ("a5", "k", "late")]  # fmt: skip
