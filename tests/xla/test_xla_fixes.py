"""Fixes of findings in profiles of XLA are in words of JAX, TensorFlow and torch_xla, and not of PyTorch or CUDA."""

from __future__ import annotations

import pytest

from traceanalyzer.diagnosis import Fix
from traceanalyzer.rules.dialects import XLA, is_possible


@pytest.mark.parametrize(
    ("text", "code", "wanted"),
    [
        ("Copy ahead.", "batch = jax.device_put(next(batches))", True),
        (
            "Build batches in workers.",
            "loader = pl.MpDeviceLoader(torch.utils.data.DataLoader(data), torch_xla.device())",
            True,
        ),
        ("Let XLA compile it.", "model.compile(optimizer, loss, jit_compile=True)", True),
        ("Use fewer ranks.", None, True),
        ("Give each launch more work.", "loader = DataLoader(dataset, batch_size=4 * batch_size)", False),
        ("Capture it in CUDA graphs.", None, False),
        ("Sample the program.", "nsys profile -t cuda ./program", False),
        ("Record shapes.", "with profile(record_shapes=True) as prof:", False),
        ("Compile the model.", 'model = torch.compile(model, mode="reduce-overhead")', False),
    ],
)
def test_a_fix_fits_programs_of_xla_unless_it_is_for_others(text: str, code: str | None, wanted: bool) -> None:
    assert is_possible(Fix(text, code), XLA) is wanted
