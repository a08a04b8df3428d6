"""ring_hops: exchanges of keys and values between kernels of attention."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

# The kernels of attention, and how long the device waits for each exchange: 1,000 ns each, but for the last.
CASES = {
    "a ring": (4, 1_000, True),
    "a pipeline that waits longest for its last message": (4, 9_000, False),
    "layers between the messages": (16, 1_000, False),
    "no attention": (0, 1_000, False),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_a_ring_has_attention_in_each_hop_and_waits_alike(name: str) -> None:
    attention_count, last_ns, is_ring = CASES[name]
    ops = "op_id  kind    start_ns  dur_ns  is_comm  collective         name"
    waits = "row_id  kept  bucket        cause         start_ns  dur_ns"
    for hop in range(4):
        ops += f"\n{hop}  kernel  {2_000 * hop}  1000  true  batch_isend_irecv  SendRecv"
        waits += f"\n{hop}  true  dev.comm_p2p  dev.comm_p2p  {2_000 * hop}  {last_ns if hop == 3 else 1_000}"
    for kernel in range(attention_count):
        ops += f"\n{kernel + 4}  kernel  {300 * kernel + 1_000}  100  false  -  flash_fwd_kernel"
        waits += f"\n{kernel + 4}  true  compute  compute  {300 * kernel + 1_000}  100"
    windows = "device  start_ns  end_ns  window_ns\n0  0  30000  30000"
    found = ask(
        connect(gpu_ops=ops, windows=windows, ledger_rows=waits),
        "SELECT hop_count, attention_count, is_ring FROM ring_hops",
    )
    assert found == [(4, attention_count, is_ring)]
