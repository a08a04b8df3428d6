"""Truth by row: comparisons of Arrow columns in which unknown counts as false."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = "pa.Array[Any]"
Mask: TypeAlias = "pa.BooleanArray"


def _mask(function: str, *arguments: object) -> Mask:
    return cast("Mask", pc.call_function("coalesce", [pc.call_function(function, list(arguments)), pa.scalar(False)]))


def above(column: Column, bound: int) -> Mask:
    """Return which values are larger than a bound."""
    return _mask("greater", column, pa.scalar(bound))


def differs(column: Column, other: Column | int) -> Mask:
    """Return which values differ from another column's, or from one value."""
    return _mask("not_equal", column, pa.scalar(other) if isinstance(other, int) else other)


def less(column: Column, other: Column) -> Mask:
    """Return which values are smaller than another column's."""
    return _mask("less", column, other)


def known(column: Column) -> Mask:
    """Return which values are not NULL."""
    return _mask("is_valid", column)


def finite_ones(column: Column) -> Mask:
    """Return which reals are numbers that are not infinite."""
    return _mask("is_finite", column)


def filled(column: Column) -> Mask:
    """Return which texts or bytes are there and not empty."""
    return above(cast("Column", pc.call_function("binary_length", [column])), 0)


def one_of(column: Column, values: tuple[int, ...], *, unknown: bool = False) -> Mask:
    """Return which values are among some; `unknown` is the answer for NULL."""
    found = _mask("equal", column, pa.scalar(values[0]))
    for value in values[1:]:
        found = either(found, _mask("equal", column, pa.scalar(value)))
    return either(found, negated(known(column))) if unknown else found


def either(first: Mask, second: Mask) -> Mask:
    """Return where one of two holds."""
    return _mask("or", first, second)


def both(first: Mask, second: Mask) -> Mask:
    """Return where two hold."""
    return _mask("and", first, second)


def negated(mask: Mask) -> Mask:
    """Return where it does not hold."""
    return _mask("invert", mask)


def count(mask: Mask) -> int:
    return mask.true_count


def where(mask: Mask, chosen: Column, otherwise: Column | pa.Scalar[Any]) -> Column:
    """Take from one column where it holds and from another where not."""
    return cast("Column", pc.call_function("if_else", [mask, chosen, otherwise]))
