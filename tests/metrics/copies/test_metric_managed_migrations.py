"""managed_migrations: pages of managed memory that move because somebody touched them."""

from __future__ import annotations

from text_tables import ask, connect

QUERY = "SELECT op_id, move_count, size_bytes, to_device_bytes, moving_ns, fault_count FROM managed_migrations"
KERNEL = """
    op_id  kind    start_ns  dur_ns  name
    1      kernel  100       100     touch
"""


def test_moves_belong_to_the_kernel_that_runs_when_they_begin() -> None:
    moves = """
    event_id  kind  start_ns  dur_ns  cause                 copy_kind  size_bytes
    2         move  110       5       page fault            HtoD       4096
    3         move  190       50      speculative prefetch  HtoD       8192
    4         move  200       5       page fault            DtoH       4096
    5         move  50        5       eviction              DtoH       4096
    """
    found = ask(connect(gpu_ops=KERNEL, managed_memory=moves), QUERY)
    assert found == [(1, 2, 12288, 12288, 55, None), (None, 2, 8192, 0, 10, None)]


def test_faults_of_the_gpu_are_counted_and_move_nothing() -> None:
    faults = """
    event_id  kind       start_ns  dur_ns  fault_count
    2         gpu_fault  110       5       3
    3         gpu_fault  150       5       4
    4         cpu_fault  160       0       -
    """
    assert ask(connect(gpu_ops=KERNEL, managed_memory=faults), QUERY) == [(1, 0, 0, 0, 0, 7)]


def test_moves_that_the_program_asked_for_and_copies_do_not_count() -> None:
    copies = """
    op_id  kind    start_ns  dur_ns  name                              copy_kind  size_bytes
    1      memcpy  110       5       Memcpy HtoD (Pageable -> Device)  HtoD       4096
    """
    moves = """
    event_id  kind  start_ns  dur_ns  cause          copy_kind  size_bytes
    2         move  110       5       user prefetch  HtoD       4096
    """
    assert ask(connect(gpu_ops=copies, managed_memory=moves), QUERY) == []
