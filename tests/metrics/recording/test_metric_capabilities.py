"""What rules can require of a trace: what it holds, and what was seen where it does not."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

COPIES = """
op_id  kind    copy_kind  src_kind  name
1      memcpy  HtoD       pinned    Memcpy HtoD (Pinned -> Device)
2      memcpy  HtoD       {0}       {1}
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("src_kind", "name", "available"),
    [
        ("pageable", "Memcpy HtoD (Pageable -> Device)", True),
        ("host", "Memcpy HtoD (Host -> Device)", False),
        ("-", "Memcpy HtoD (Unknown -> Device)", False),
        ("-", "Memcpy UVM HtoD (Unknown -> Unknown)", True),
    ],
    ids=["pageable", "AMD", "unknown", "pages of managed memory"],
)
def test_copies_tell_from_which_memory(src_kind: str, name: str, available: bool) -> None:
    con = connect(gpu_ops=COPIES.format(src_kind, name))
    assert ask(con, "SELECT available FROM capabilities WHERE capability = 'copy_kinds'") == [(available,)]
