"""The numbers that docs/tensorboard.md puts beside those of xprof 2.24.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import traceanalyzer

pytestmark = pytest.mark.check
_KERNELS = "SELECT sum(dur_ns) FROM canonical.gpu_ops WHERE kind IN ('kernel', 'memcpy', 'memset')"
_PEAK = (
    "SELECT device, max(allocated_bytes) FROM canonical.memory_events WHERE device >= 0 GROUP BY device ORDER BY device"
)
_WINDOW = "SELECT max(start_ns + dur_ns) - min(start_ns) FROM canonical.gpu_ops"
_MARKS = (
    "SELECT count(*) FROM canonical.host_slices JOIN canonical.event_args ON event_id = slice_id "
    "WHERE args LIKE '%\"step_num\"%'"
)
QUESTIONS: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    ("tf_v100x8_2020", "SELECT sum(sum_ns) FROM kernel_summary", [(29_690_748,)]),
    ("jax08_mi300_gemm", _KERNELS, [(3_475_484,)]),
    ("jax08_mi300_attention", _KERNELS, [(3_845_562,)]),
    ("jax08_mi300_gemm", _WINDOW, [(9_456_212,)]),
    ("jax_gfx950_te_attention", _WINDOW, [(12_956_751,)]),
    ("jax_train_default", _MARKS, [(8,)]),
    ("torch_xla", _MARKS, [(8,)]),
    (
        "jax_tpu_v6e4_host_offload",
        "SELECT device, count(*) FROM steps GROUP BY device ORDER BY device",
        [(device, 100) for device in range(4)],
    ),
    ("jax08_mi300_attention", _PEAK, [(0, 452_985_344)]),
    (
        "jax08_mi300_attention",
        "SELECT sum(sum_ns) FROM hlo_ops",
        [(3_763_002,)],
    ),
    (
        "jax_tpu_v6e4_host_offload",
        # xprof: 315,117,903.7 µs, 1,626,718,863,360 operations, 5.62e-6 of the peak.
        "SELECT round(sum(sum_ns) / 1e6), sum(model_flops), round(sum(flops) * 1e6 / (sum(sum_ns) * 918e3), 3) "
        "FROM hlo_ops",
        [(315_118.0, 1_626_718_863_360.0, 5.623)],
    ),
]


@pytest.mark.parametrize(("name", "query", "wanted"), QUESTIONS)
def test_a_number_of_the_page_is_that_of_xprof(
    corpus: Path, tmp_path: Path, name: str, query: str, wanted: list[tuple[Any, ...]]
) -> None:
    path = corpus / "xla" / f"{name}.xplane.pb"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with traceanalyzer.open(path, store=tmp_path) as run:
        assert run.sql(query).fetchall() == wanted
