"""Protocol-buffer wire format in columns: the fields of one message, or of many messages at once, without a schema."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]
_Words = npt.NDArray[np.uint64]

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5
_WINDOW_BYTES = 2**23
# More than the tag and the length of a field take.
_MARGIN_BYTES = 32
_MASK = 2**64 - 1
_MOST_VARINT_BYTES = 10
# Of so few messages the fields are found one by one: one message of many fields would else take a vector for each.
_FEW_MESSAGES = 32
_STOP_BITS = np.uint64(0x0080808080808080)
_EMPTY = np.empty(0, np.int64)


class Field(NamedTuple):
    """A field: its number, wire type, and value; of a block the value is its start, which `length` bytes follow."""

    number: int
    wire: int
    value: int
    length: int


class DamageError(Exception):
    """A message goes on with bytes that are no field."""

    def __init__(self, offset: int, *, is_cut: bool) -> None:
        super().__init__(offset)
        self.offset = offset
        self.is_cut = is_cut  # the field is whole as far as the bytes go


def signed(value: int) -> int:
    """Return a number of 64 bits as two's complement."""
    value &= _MASK
    return value - 2**64 if value >= 2**63 else value


def fields(view: memoryview, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message; raise DamageError where it is cut or damaged, after all that is whole."""
    at = start
    while at < end:
        begin = at
        tag, at = _varint(view, at, end, begin)
        number, wire = tag >> 3, tag & 7
        length = 0
        if wire == VARINT:
            value, at = _varint(view, at, end, begin)
        elif wire == BLOCK:
            length, at = _varint(view, at, end, begin)
            value, at = at, at + length
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value, at = int.from_bytes(view[at : at + size], "little"), at + size
        else:
            raise DamageError(begin, is_cut=False)
        if number == 0:
            raise DamageError(begin, is_cut=False)
        if at > end:
            raise DamageError(begin, is_cut=True)
        yield Field(number, wire, value, length)


def _varint(view: memoryview, at: int, end: int, begin: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= end:
            raise DamageError(begin, is_cut=True)
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK, at
        shift += 7
        if shift >= 7 * _MOST_VARINT_BYTES:
            raise DamageError(begin, is_cut=False)


@dataclass
class Blocks:
    """Where the blocks of some fields of a message lie, by field: starts and ends; and the message's other fields."""

    starts: dict[int, Int]
    ends: dict[int, Int]
    others: list[Field]
    damage: DamageError | None = None


def blocks(view: memoryview, start: int, end: int, numbers: tuple[int, ...]) -> Blocks:
    """Return the blocks of repeated fields below 16, and all other fields; what follows damage is left out."""
    tags = {number << 3 | BLOCK: number for number in numbers}
    starts, ends = {number: array("q") for number in numbers}, {number: array("q") for number in numbers}
    others: list[Field] = []
    damage = None
    at = start
    while at < end:
        number = tags.get(view[at])
        if number is not None:
            after = _run_of_blocks(view, at, end, starts[number], ends[number])
            if after > at:
                at = after
                continue
        try:
            one = next(fields(view, at, end))
        except DamageError as error:
            damage = error
            break
        if one.number in starts and one.wire == BLOCK:
            starts[one.number].append(one.value)
            ends[one.number].append(one.value + one.length)
        else:
            others.append(one)
        at = _end_of(view, at, one)
    return Blocks(_numbers(starts), _numbers(ends), others, damage)


def _numbers(lists: dict[int, array[int]]) -> dict[int, Int]:
    return {number: np.frombuffer(values, np.int64) if values else _EMPTY for number, values in lists.items()}


def _run_of_blocks(view: memoryview, at: int, end: int, starts: array[int], ends: array[int]) -> int:
    """Note the blocks of one field that follow each other, and return where something else begins.

    A loop over bytes: each length tells where the next block begins. All that is special is left to `fields`.
    """
    tag = view[at]
    while at < end:
        block = view[at : min(end, at + _WINDOW_BYTES)].tobytes()
        last = len(block) - _MARGIN_BYTES
        most = end - at
        found: list[int] = []
        note = found.append
        place = 0
        while place < last and block[place] == tag:
            following = block[place + 1]
            if following < 128:
                following += place + 2
            elif 0 < block[place + 2] < 128:
                following = (following & 127 | block[place + 2] << 7) + place + 3
            else:
                break
            if following > most:
                break
            place = following
            note(place)
        _note_blocks(at, found, starts, ends)
        at += place
        if place < last or place == 0:
            break
    return at


def _note_blocks(at: int, found: list[int], starts: array[int], ends: array[int]) -> None:
    """Note blocks that follow each other from `at` on, by where each ends; its length takes one byte or two."""
    until = np.array(found, np.int64)
    size = np.diff(until, prepend=0)
    starts.frombytes((until - size + np.where(size < 130, 2, 3) + at).tobytes())
    ends.frombytes((until + at).tobytes())


def _end_of(view: memoryview, at: int, one: Field) -> int:
    if one.wire == BLOCK:
        return one.value + one.length
    at = _skip_varint(view, at)
    if one.wire == VARINT:
        return _skip_varint(view, at)
    return at + (8 if one.wire == FIXED64 else 4)


def _skip_varint(view: memoryview, at: int) -> int:
    while view[at] >= 128:
        at += 1
    return at + 1


@dataclass
class Columns:
    """The fields of many messages, message by message and in order: of a block, `value` is where it starts."""

    owner: Int  # place of the message
    tag: Int  # number and wire type
    value: Int  # 64 bits as two's complement
    length: Int  # of a block
    damaged: Bool  # by message: it holds bytes that are no field; the fields before are kept

    def of(self, number: int, wire: int) -> npt.NDArray[np.intp]:
        """Return the places of a field of a wire type."""
        return np.flatnonzero(self.tag == (number << 3 | wire))

    def last(self, number: int, count: int) -> Int:
        """Return the value of a number in each message, the last one where there are several; 0 where there is none."""
        values = np.zeros(count, np.int64)
        rows = self.of(number, VARINT)
        values[self.owner[rows]] = self.value[rows]
        return values


class _Found(NamedTuple):
    owner: Int
    tag: Int
    value: Int
    length: Int


class Decoder:
    """Decodes many messages of one buffer at once: one vector step for the first field of each, one for the second …"""

    def __init__(self, data: Bytes, view: memoryview) -> None:
        self._view = view
        self._size = len(data)
        if self._size < 8:
            data = np.concatenate([data, np.zeros(8 - self._size, np.uint8)])
        # Eight bytes from any place on: an unaligned look at the same memory.
        self._words: _Words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))

    def columns(self, starts: Int, ends: Int) -> Columns:
        """Return the fields of messages that lie in the buffer from `starts` to `ends`."""
        count = len(starts)
        damaged = np.zeros(count, np.bool_)
        counts = np.zeros(count, np.int64)
        steps: list[_Found] = []
        owner = np.flatnonzero(starts < ends)
        at, until = starts[owner], ends[owner]
        while len(owner) > _FEW_MESSAGES:
            found, after, is_bad = self._next(owner, at, until)
            if is_bad.any():
                damaged[owner[is_bad]] = True
                fine = ~is_bad
                found = _Found(*(column[fine] for column in found))
                owner, after, until = owner[fine], after[fine], until[fine]
            counts[owner] += 1
            steps.append(found)
            goes_on = after < until
            if not goes_on.all():
                owner, after, until = owner[goes_on], after[goes_on], until[goes_on]
            at = after
        rest = self._one_by_one(owner, at, until, damaged)
        return _in_order(steps, counts, rest, damaged)

    def _one_by_one(self, owner: Int, at: Int, until: Int, damaged: Bool) -> _Found:
        rows: list[tuple[int, int, int, int]] = []
        for message, start, end in zip(owner.tolist(), at.tolist(), until.tolist(), strict=True):
            try:
                for one in fields(self._view, start, end):
                    tag = min(one.number, 2**31) << 3 | one.wire
                    rows.append((message, tag, signed(one.value), one.length))
            except DamageError:
                damaged[message] = True
        table = np.array(rows, np.int64).reshape(-1, 4)
        return _Found(*(np.ascontiguousarray(column) for column in table.T))

    def words(self, at: Int) -> _Words:
        """Return the eight bytes from each place on, zero behind the end of the buffer."""
        last = len(self._words) - 1
        if not len(at) or int(at.max()) <= last:
            return self._words[at]
        begin = np.minimum(at, last)
        beyond = np.minimum(at - begin, 8).astype(np.uint64)
        shifted = self._words[begin] >> np.minimum(beyond * np.uint64(8), np.uint64(63))
        return np.where(beyond >= np.uint64(8), np.uint64(0), shifted)

    def _next(self, owner: Int, at: Int, until: Int) -> tuple[_Found, Int, Bool]:
        """Return the field that begins at each place, where it ends, and where there is none."""
        word = self.words(at)
        tag = (word & np.uint64(127)).view(np.int64)
        place = at + 1
        is_bad = np.zeros(len(at), np.bool_)
        long_tags = np.flatnonzero(word & np.uint64(128))
        if len(long_tags):
            tag[long_tags], size, bad = self._varints(at[long_tags])
            place[long_tags] = at[long_tags] + size
            is_bad[long_tags] = bad
            word = word >> np.uint64(8)
            word[long_tags] = self.words(place[long_tags])
        else:
            word = word >> np.uint64(8)
        wire = tag & 7
        number = tag >> 3
        value, size = _short_varints(word)
        # A word holds seven bytes behind a tag of one; longer numbers are read again.
        unfinished = np.flatnonzero((size == 0) & ((wire == VARINT) | (wire == BLOCK)))
        if len(unfinished):
            value[unfinished], size[unfinished], bad = self._varints(place[unfinished])
            is_bad[unfinished] |= bad
        length = np.zeros(len(at), np.int64)
        after = place + size
        is_block = wire == BLOCK
        if is_block.all():
            length, value = value, after
            after = value + length
        else:
            rows = np.flatnonzero(is_block)
            if len(rows):
                length[rows] = value[rows]
                value[rows] = after[rows]
                after[rows] += length[rows]
            is_other = np.flatnonzero((wire != VARINT) & ~is_block)
            if len(is_other):
                fixed = np.where(wire[is_other] == FIXED64, 8, np.where(wire[is_other] == FIXED32, 4, 0))
                content = self.words(place[is_other])
                value[is_other] = np.where(fixed == 4, content & np.uint64(2**32 - 1), content).view(np.int64)
                after[is_other] = place[is_other] + fixed
                is_bad[is_other] |= fixed == 0
        is_bad |= (after > until) | (length < 0) | (after < at) | (number == 0)
        return _Found(owner, tag, value, length), after, is_bad

    def _varints(self, at: Int) -> tuple[Int, Int, Bool]:
        """Return numbers of any length, how many bytes they take, and which are none."""
        value = np.zeros(len(at), np.uint64)
        size = np.zeros(len(at), np.int64)
        is_open = np.ones(len(at), np.bool_)
        for place in range(_MOST_VARINT_BYTES):
            byte = self.words(at + place) & np.uint64(255)
            bits = (byte & np.uint64(127)) << np.uint64(7 * place)
            value = np.where(is_open, value | bits, value)
            size += is_open
            is_open &= byte >= np.uint64(128)
            if not is_open.any():
                break
        return value.view(np.int64), size, is_open


def _short_varints(word: _Words) -> tuple[Int, Int]:
    """Return the number at the beginning of each word and how many bytes it takes, of at most 7; else 0 bytes."""
    value = (word & np.uint64(127)).view(np.int64)
    size = np.ones(len(word), np.int64)
    rows = np.flatnonzero(word & np.uint64(128))
    if len(rows):
        longer = word[rows]
        stops = ~longer & _STOP_BITS
        until = stops ^ (stops - np.uint64(1))
        bits = longer & until
        bits = (bits & np.uint64(0x007F007F007F007F)) | (bits & np.uint64(0x7F007F007F007F00)) >> np.uint64(1)
        bits = (bits & np.uint64(0x00003FFF00003FFF)) | (bits & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
        bits = (bits & np.uint64(0x000000000FFFFFFF)) | (bits & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
        value[rows] = bits.view(np.int64)
        size[rows] = np.where(stops == 0, 0, np.bitwise_count(until).astype(np.int64) >> 3)
    return value, size


def _in_order(steps: list[_Found], counts: Int, rest: _Found, damaged: Bool) -> Columns:
    """Put fields that were found step by step in the order of their messages."""
    own_counts = counts + np.bincount(rest.owner, minlength=len(counts)) if len(rest.owner) else counts
    first = np.cumsum(own_counts) - own_counts
    total = int(own_counts.sum())
    columns = [np.empty(total, np.int64) for _ in _Found._fields[1:]]
    for step, found in enumerate(steps):
        place = first[found.owner] + step
        for column, values in zip(columns, found[1:], strict=True):
            column[place] = values
    if len(rest.owner):
        # The rest of a message follows what the steps found of it.
        is_first = np.append(True, rest.owner[1:] != rest.owner[:-1])
        rank = np.arange(len(rest.owner)) - np.maximum.accumulate(np.where(is_first, np.arange(len(rest.owner)), 0))
        place = first[rest.owner] + counts[rest.owner] + rank
        for column, values in zip(columns, rest[1:], strict=True):
            column[place] = values
    tag, value, length = columns
    return Columns(np.repeat(np.arange(len(counts)), own_counts), tag, value, length, damaged)
