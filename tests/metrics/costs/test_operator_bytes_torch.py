"""operator_costs against PyTorch: bytes of the tensors that operators really got and gave.

The arguments are those that PyTorch's profiler wrote of the same calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_metric_operator_costs import costs
from tiers import needed

pytestmark = pytest.mark.check
torch = needed("torch")
# An operator, its arguments, and, where not all of them count, the places of the arguments that it reads and of the
# tensors that it gives; statistics do not count, nor what is only overwritten.
NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}
Case = tuple[str, Sequence[Any], Sequence[int] | None, Sequence[int] | None]


def tensors(dtype: Any, *shape: int) -> Any:
    return torch.ones(shape, dtype=dtype)


def element_wise() -> list[Case]:
    x, narrow, half = tensors(torch.float32, 4, 6), tensors(torch.float32, 6), tensors(torch.bfloat16, 4, 6)
    ints, flags = tensors(torch.int64, 4, 6), tensors(torch.bool, 4, 6)
    cases: list[Case] = [
        (name, args, None, None)
        for name in ("add", "mul", "maximum", "atan2", "remainder")
        for args in ((x, narrow), (half, half), (ints, ints))
    ]
    cases += [(name, (value,), None, None) for name in ("abs", "sin", "reciprocal") for value in (x, half, ints)]
    cases += [("add", (ints, 0.5), None, None), ("mul", (flags, 2), None, None), ("mul", (ints, True), None, None)]
    cases += [("clamp", (value, 0, 1), None, None) for value in (x, half, ints)]
    cases += [
        ("clamp", (ints, 0.5), None, None),
        ("clamp_min", (x, 0), None, None),
        ("clamp", (x, narrow, narrow), None, None),
    ]
    cases += [(name, (x, narrow, x), None, None) for name in ("addcmul", "addcdiv", "lerp", "addcmul_")]
    cases += [
        ("logical_and", (x, x), None, None),
        ("leaky_relu", (half,), None, None),
        ("hardswish_", (x,), None, None),
    ]
    cases += [("native_dropout", (x, 0.5, True), None, None), ("native_dropout_backward", (x, flags, 2.0), None, None)]
    cases += [
        ("fill_", (x, 1), [], None),
        ("zero_", (half,), [], None),
        ("uniform_", (x,), [], None),
        ("copy_", (x, half), [1], None),
    ]
    cases += [("mse_loss", (x, x, how), None, None) for how in (0, 1)]
    return [*cases, ("mse_loss_backward", (tensors(torch.float32), x, x, 1), None, None)]


def reductions() -> list[Case]:
    x, half, ints = tensors(torch.float32, 4, 6, 3), tensors(torch.bfloat16, 4, 6), tensors(torch.int32, 4, 6)
    cases: list[Case] = []
    for name in ("sum", "mean", "amax", "amin", "var", "std", "var_mean"):
        cases += [
            (name, (x, dims, keep), None, None)
            for dims, keep in (([0], False), ([-1, 0], True))
            if "var" not in name and name != "std"
        ]
        cases += [(name, (half,), None, None)]
    cases += [(name, (x, [1, -1]), None, None) for name in ("var", "std", "var_mean")]
    cases += [
        ("sum", (ints,), None, None),
        ("sum", (half, [1]), None, None),
        ("cumsum", (ints, 0), None, None),
        ("cumsum", (half, 1), None, None),
    ]
    cases += [
        (name, (value, 1), None, None) for name in ("max", "min", "argmax", "all", "any") for value in (x, half, ints)
    ]
    cases += [(name, (value,), None, None) for name in ("max", "min", "argmin", "all", "any") for value in (x, half)]
    cases += [("linalg_vector_norm", (x, 2, dims), None, None) for dims in (None, [0], [-1, 1])]
    cases += [("norm", (x, 2, [1]), None, None), ("norm", (half,), None, None)]
    return [*cases, ("topk", (x, 2, 1), None, None), ("topk", (half, 3), None, None), ("sort", (x, 1), None, None)]


def norms_and_pools() -> list[Case]:
    x, weight, stats = tensors(torch.float32, 2, 8, 6, 6), tensors(torch.float32, 8), tensors(torch.float32, 2, 4)
    rows, scale, row_stats = tensors(torch.float32, 5, 7), tensors(torch.float32, 7), tensors(torch.float32, 5, 1)
    cases: list[Case] = [("native_group_norm", (x, w, w, 2, 8, 36, 4, 1e-5), [0, 1, 2], [0]) for w in (weight, None)]
    for mask in ([True, True, True], [True, False, False], [False, True, True]):
        group = (x, x, stats, stats, weight, 2, 8, 36, 4, mask)
        layer = (rows, rows, [7], row_stats, row_stats, scale, scale, mask)
        cases += [
            ("native_group_norm_backward", group, [0, 1, 4], None),
            ("native_layer_norm_backward", layer, [0, 1, 5], None),
        ]
    batch = (x, x, weight, weight, weight, weight, weight, True, 1e-5, [True, True, True])
    cases += [
        ("native_batch_norm_backward", batch, [0, 1, 2], None),
        ("_fused_rms_norm", (rows, [7], scale, 1e-5), [0, 2], [0]),
    ]
    for stride, padding in (([2, 2], [1, 1]), ([], [0])):
        for shape in ((2, 3, 9, 8), (3, 9, 8)):
            image = tensors(torch.float32, *shape)
            cases += [("max_pool2d_with_indices", (image, [3, 2], stride, padding), None, None)]
            cases += [("avg_pool2d", (image, [3, 2], stride, padding), None, None)]
    values, places = torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    pool = (values, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)
    cases += [
        ("max_pool2d_with_indices_backward", pool, [0, 7], None),
        ("_adaptive_avg_pool2d", (x, [2, 3]), None, None),
    ]
    return [*cases, ("gather", (rows, 1, tensors(torch.int64, 5, 3)), None, None)]


def written_by_profiler(case: Case, folder: Path) -> dict[str, Any]:
    """Run a call and return it as operator_costs gets it."""
    from torch.profiler import ProfilerActivity, profile

    name, args, _, _ = case
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        getattr(torch.ops.aten, name)(*args)
    recorded.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    event = next(event for event in events if event.get("name") == f"aten::{name}")
    return {
        "category": "cpu_op",
        "name": event["name"],
        "input_shapes": json.dumps(event["args"]["Input Dims"]),
        "args": json.dumps(event["args"]),
    }


def real_bytes(case: Case) -> int:
    """Return the bytes of the tensors that a call reads and gives; of a table, the rows that indices name."""
    name, args, reads, writes = case
    given = getattr(torch.ops.aten, name)(*args)
    given = [given] if isinstance(given, torch.Tensor) else list(given)
    read = [value for place, value in enumerate(args) if reads is None or place in reads]
    if name == "gather":
        read = [given[0], args[2]]
    if name in ("add", "mul"):  # the profiler writes a number as a tensor
        read = [
            value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=NUMBERS[type(value)])
            for value in read
        ]
    written = [value for place, value in enumerate(given) if writes is None or place in writes]
    return sum(value.numel() * value.element_size() for value in [*read, *written] if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("cases", [element_wise, reductions, norms_and_pools])
def test_bytes_are_those_of_the_real_tensors(cases: Callable[[], list[Case]], tmp_path: Path) -> None:
    calls = cases()
    modelled = costs(
        *(written_by_profiler(case, tmp_path) for case in calls), columns="operator, input_shapes, size_bytes"
    )
    real = [real_bytes(case) for case in calls]
    assert [(*row[:2], size) for row, size in zip(modelled, real, strict=True)] == modelled


def test_every_type_of_pytorch_has_the_size_that_it_has_there(tmp_path: Path) -> None:
    types = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)
    calls = []
    for dtype in types:
        try:
            calls.append((dtype, written_by_profiler(("zero_", (torch.empty(3, dtype=dtype),), [], None), tmp_path)))
        except (RuntimeError, NotImplementedError, TypeError):
            continue  # not on the CPU
    sizes = costs(*(call for _, call in calls), columns="input_types, size_bytes")
    assert len(sizes) > 15
    assert sizes == [(given, 3 * dtype.itemsize) for (given, _), (dtype, _) in zip(sizes, calls, strict=True)]
