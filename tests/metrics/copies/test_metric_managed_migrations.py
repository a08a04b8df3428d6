"""managed_migrations: pages of managed memory that move because somebody touched them."""

from __future__ import annotations

from text_tables import ask, connect

QUERY = "SELECT op_id, move_count, size_bytes, to_device_bytes, moving_ns FROM managed_migrations"


def test_moves_belong_to_the_kernel_that_runs_when_they_begin() -> None:
    ops = """
    op_id  kind    start_ns  dur_ns  name                            copy_kind  size_bytes
    1      kernel  100       100     touch                           -          -
    2      memcpy  110       5       Memcpy UVM HtoD (page fault)    HtoD       4096
    3      memcpy  190       50      Memcpy UVM HtoD (page fault)    HtoD       8192
    4      memcpy  200       5       Memcpy UVM DtoH (page fault)    DtoH       4096
    5      memcpy  50        5       Memcpy UVM DtoH (eviction)      DtoH       4096
    """
    assert ask(connect(gpu_ops=ops), QUERY) == [(1, 2, 12288, 12288, 55), (None, 2, 8192, 0, 10)]


def test_moves_that_the_program_asked_for_and_copies_do_not_count() -> None:
    ops = """
    op_id  kind    start_ns  dur_ns  name                             copy_kind  size_bytes
    1      memcpy  110       5       Memcpy UVM HtoD (user prefetch)  HtoD       4096
    2      memcpy  110       5       Memcpy HtoD (Pageable -> Device)  HtoD       4096
    """
    assert ask(connect(gpu_ops=ops), QUERY) == []
