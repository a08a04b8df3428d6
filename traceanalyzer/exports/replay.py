"""A script that runs one operator as it was recorded: shapes, types and strides, and a timing loop."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.process import dicts_of
from traceanalyzer.text.words import counted, duration

if TYPE_CHECKING:
    import duckdb

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long": "int64",
    "long int": "int64",
    "__int64": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
_INTEGERS = ("int64", "int32")
_LISTS = ("TensorList", "GenericList")
# Indices stay below the size of a dimension: place of the tensor, and of the dimension's number (None: the first).
_INDEXED: Mapping[str, tuple[int, int | None]] = {
    "aten::embedding": (0, None),
    "aten::_embedding_bag": (0, None),
    "aten::index": (0, None),
    "aten::index_put_": (0, None),
    "aten::index_select": (0, 1),
    "aten::gather": (0, 1),
    "aten::scatter": (0, 1),
    "aten::scatter_add": (0, 1),
}
_CALLS = """
    WITH RECURSIVE work AS (
        SELECT trace_id, cpu_op_id AS slice_id, sum(dur_ns) AS device_ns
        FROM canonical.gpu_ops
        WHERE cpu_op_id IS NOT NULL
        GROUP BY ALL
    ),
    handed_up AS (
        FROM work
        UNION ALL
        SELECT slices.trace_id, slices.op_id, handed_up.device_ns
        FROM handed_up
        JOIN canonical.host_slices AS slices USING (trace_id, slice_id)
        WHERE slices.op_id IS NOT NULL
    ),
    device AS (SELECT trace_id, slice_id, sum(device_ns) AS device_ns FROM handed_up GROUP BY ALL)
    SELECT
        slices.input_shapes AS shapes,
        args.args ->> '$."Input type"' AS types,
        args.args ->> '$."Input Strides"' AS strides,
        args.args ->> '$."Concrete Inputs"' AS values,
        count(*) AS call_count,
        CAST(coalesce(sum(device.device_ns), 0) AS BIGINT) AS device_ns,
        CAST(sum(slices.dur_ns) AS BIGINT) AS host_ns
    FROM canonical.host_slices AS slices
    LEFT JOIN canonical.event_args AS args ON args.trace_id = slices.trace_id AND args.event_id = slices.slice_id
    LEFT JOIN device ON device.trace_id = slices.trace_id AND device.slice_id = slices.slice_id
    WHERE slices.category = 'cpu_op' AND operator_base(slices.name) = $operator
    GROUP BY ALL
    ORDER BY device_ns DESC, host_ns DESC, shapes, types, strides, values
"""


def replay_of(con: duckdb.DuckDBPyConnection, operator: str, row: int, run: str) -> str:
    """Return the script for the arguments of an operator that took most time, or for those in the given row by time.

    Raises TraceAnalyzerError where the run has no such operator or row, or recorded no shapes of it.
    """
    operator = operator if "::" in operator else f"aten::{operator}"
    if not _NAME.fullmatch(operator):
        raise TraceAnalyzerError("is no name of an operator", operator, "for example aten::mm")
    rows = dicts_of(con.execute(_CALLS, {"operator": operator}))
    if not rows:
        known = "SELECT DISTINCT operator_base(name) FROM canonical.host_slices WHERE category = 'cpu_op' ORDER BY 1"
        operators = [name for (name,) in con.execute(known).fetchall() if name]
        hint = suggestion(operator, operators, "`traceanalyzer top operators` lists those that ran")
        raise TraceAnalyzerError("the run has no operator of this name", operator, hint)
    if row > len(rows):
        raise TraceAnalyzerError(
            f"has {counted(len(rows), 'row')} of different arguments", operator, "--row counts from 1"
        )
    call = rows[row - 1]
    if call["shapes"] is None:
        hint = "record with torch.profiler.profile(record_shapes=True)"
        raise TraceAnalyzerError("its input shapes were not recorded", operator, hint)
    return _script(operator, call, run, f"row {row} of {len(rows)} by time")


def _script(operator: str, call: Mapping[str, Any], run: str, place: str) -> str:
    shapes = _list(call["shapes"])
    types = _list(call["types"])
    strides, values = _list(call["strides"]), _list(call["values"])
    limit = _index_limit(operator, shapes, values)
    settings, arguments, has_indices = [], [], False
    for at, shape in enumerate(shapes):
        kind = str(types[at]).removeprefix("struct ") if at < len(types) else ""  # struct: PyTorch for Windows
        stride = strides[at] if at < len(strides) else None
        value = values[at] if at < len(values) else None
        if kind in _TYPES:
            arguments.append(_tensor(shape, stride, f"torch.{_TYPES[kind]}"))
            has_indices |= _TYPES[kind] in _INTEGERS
        elif kind in _LISTS and shape:
            name = f"DTYPE_{at}"
            type_ = "int64" if kind == "GenericList" else "float32"
            has_indices |= type_ == "int64"
            settings.append(f"{name} = torch.{type_}  # the trace holds no types of the tensors in a list")
            each = [_tensor(one, _at(stride, place_), name) for place_, one in enumerate(shape)]
            arguments.append(f"[{', '.join(each)}]")
        elif _dims(shape):
            # Without a known type only the shape was recorded.
            settings.append(f"DTYPE_{at} = torch.float32  # not recorded, or not known: {kind[:40]!r}")
            arguments.append(_tensor(shape, stride, f"DTYPE_{at}"))
        elif isinstance(value, str) and value:
            arguments.append(_literal(value))
        else:
            note = "not recorded: the default of the operator" if kind else "None, or not recorded"
            settings.append(f"ARGUMENT_{at} = DEFAULT  # {note}")
            arguments.append(f"ARGUMENT_{at}")
    on_device = call["device_ns"] > 0
    if has_indices:
        settings.append(f"INDICES = {limit}  # the trace holds no values: integers are random, below this")
    device_ns = call["device_ns"] if on_device else call["host_ns"]
    values_of = {
        "__title__": ascii(
            f"{operator} of {run}, {place}: {counted(call['call_count'], 'call')}, "
            f"{duration(device_ns)} on the {'GPU' if on_device else 'host'}"
        )[1:-1]
        .replace('"', "'")
        .replace("\\", "/"),
        "__device__": repr("cuda" if on_device else "cpu"),
        "__recorded_us__": f"{device_ns / call['call_count'] / 1000:.3f}",
        "__indices__": "INDICES" if has_indices else "2",
        "__namespace__": operator.partition("::")[0],
        "__operator__": operator.partition("::")[2],
        "__settings__": "\n".join(settings),
        "__arguments__": "".join(f"        {argument},\n" for argument in arguments),
    }
    text = (Path(__file__).parent / "replay_template.txt").read_text(encoding="utf-8")
    return re.sub(r"__[a-z_]+__(?=[^_a-z]|$)", lambda found: values_of.get(found[0], found[0]), text)


def _list(text: str | None) -> list[Any]:
    """Return a JSON list; nothing where there is none."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _at(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _dims(shape: Any) -> tuple[int, ...]:
    """Return dimensions as whole numbers; none of what is no list of them."""
    return tuple(shape) if isinstance(shape, list) and all(type(size) is int for size in shape) else ()


def _tensor(shape: Any, stride: Any, dtype: str) -> str:
    dims, steps = _dims(shape), _dims(stride)
    return f"tensor({dims!r}, {dtype}{f', {steps!r}' if len(steps) == len(dims) and dims else ''})"


def _literal(text: str) -> str:
    """Return a recorded value as Python: a number, a truth, a list, else text."""
    try:
        return repr(ast.literal_eval(text))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return "DEVICE" if re.fullmatch(r"(cuda|hip|cpu|xpu)(:\d+)?", text) else repr(text)


def _index_limit(operator: str, shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """Return what random indices stay below: the size that they index, else one that every tensor has."""
    if operator == "aten::embedding_dense_backward":
        number = str(_at(list(values), 2))
        return int(number) if number.isdecimal() and int(number) else 1
    if operator in _INDEXED:
        place, dimension = _INDEXED[operator]
        dims = _dims(_at(list(shapes), place))
        number = "0" if dimension is None else str(_at(list(values), dimension))
        if dims and re.fullmatch(r"-?\d{1,3}", number) and -len(dims) <= int(number) < len(dims):
            return max(dims[int(number)], 1)
    sizes = [size for shape in shapes for size in _dims(shape) if size > 0]
    return min(sizes, default=2)
