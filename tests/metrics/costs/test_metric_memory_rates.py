"""memory_rates: how fast kernels move what their operators have to, by hand on tiny tables."""

from __future__ import annotations

import json
from typing import Any

from text_tables import ask, connect

ELEMENTS = 2**20
READER = "SELECT op_id, operator, family, input_strides, size_bytes, gb_per_s FROM memory_rates ORDER BY op_id"


def rates(calls: list[dict[str, Any]], kernels: list[tuple[int, int, str]]) -> list[tuple[Any, ...]]:
    """Return the rows for calls (numbered from 1) and kernels: number of the call, duration, name of the operator."""
    slices, args = [], []
    for number, given in enumerate(calls, 1):
        slices.append(
            {"slice_id": number, "category": "cpu_op", "name": given["name"], "input_shapes": json.dumps(given["dims"])}
        )
        text = {"Input type": given.get("types", ["float"] * len(given["dims"]))}
        if "strides" in given:
            text["Input Strides"] = given["strides"]
        args.append({"event_id": number, "args": json.dumps(text)})
    rows = [
        {"op_id": 10 + at, "operator_id": call, "dur_ns": dur_ns, "operator": operator, "class": "elementwise"}
        for at, (call, dur_ns, operator) in enumerate(kernels)
    ]
    return ask(connect(READER, host_slices=slices, event_args=args, kernel_class=rows), READER)


def test_the_least_bytes_are_divided_by_the_duration() -> None:
    add = {"name": "aten::add", "dims": [[ELEMENTS], [ELEMENTS]]}
    assert rates([add], [(1, 24_000, "aten::add")]) == [
        (10, "aten::add", "elementwise", None, 12.0 * ELEMENTS, 12 * ELEMENTS / 24_000)
    ]


def test_kernels_of_one_call_share_its_bytes_by_their_time() -> None:
    add = {"name": "aten::add", "dims": [[ELEMENTS], [ELEMENTS]]}
    (first, second) = rates([add], [(1, 20_000, "aten::add"), (1, 60_000, "aten::add")])
    assert (first[4], second[4]) == (3.0 * ELEMENTS, 9.0 * ELEMENTS)
    assert first[5] == second[5] == 12 * ELEMENTS / 80_000


def test_an_expanded_dimension_is_read_once() -> None:
    add = {"name": "aten::add", "dims": [[64, ELEMENTS], [64, ELEMENTS]], "strides": [[ELEMENTS, 1], [0, 1]]}
    ((*_, size_bytes, _),) = rates([add], [(1, 20_000, "aten::add")])
    assert size_bytes == 4 * (64 + 1 + 64) * ELEMENTS


def test_short_kernels_products_and_unknown_arguments_have_no_row() -> None:
    calls = [
        {"name": "aten::add", "dims": [[ELEMENTS], [ELEMENTS]]},
        {"name": "aten::mm", "dims": [[64, 64], [64, 64]]},
        {"name": "aten::mul", "dims": [[ELEMENTS], [ELEMENTS]], "types": ["", ""]},
    ]
    assert rates(calls, [(1, 19_999, "aten::add"), (2, 30_000, "aten::mm"), (3, 30_000, "aten::mul")]) == []
