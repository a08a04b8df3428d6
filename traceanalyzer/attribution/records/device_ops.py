"""The GPU work of one device, as arrays: each op with the host call that launched it, and its share of the device.

A kernel needs the share that so many of its blocks fill as can be resident at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from traceanalyzer.attribution.columns import (
    CODE,
    MESSAGE,
    NO_ROW,
    TRANSFER,
    Codes,
    Flags,
    Ints,
    NamedRows,
    array_of,
    column,
    flag_column,
)
from traceanalyzer.attribution.matching_collectives import CommWaits, is_message, name_of

_RESIDENCE_QUERY = """
SELECT device, vendor, sm_count, max_threads_per_sm, compute_major, compute_minor, warp_size
FROM canonical.devices
WHERE trace_id = $trace_id AND sm_count > 0
"""
_REGISTERS = 65_536
# Registers are given to a warp in units of so many.
_REGISTER_UNIT = 256
# Most blocks and bytes of shared memory of an SM by compute capability: CUDA C++ Programming Guide, 'Technical
# Specifications per Compute Capability'. Of an unknown one, the largest of all: more blocks at once need less.
_LIMITS = {
    (6, 0): (32, 65_536),
    (6, 1): (32, 98_304),
    (6, 2): (32, 65_536),
    (7, 0): (32, 98_304),
    (7, 5): (16, 65_536),
    (8, 0): (32, 167_936),
    (8, 6): (16, 102_400),
    (8, 7): (16, 167_936),
    (8, 9): (24, 102_400),
    (12, 0): (24, 102_400),
    (12, 1): (24, 102_400),
}
_MOST_BLOCKS, _MOST_SHARED = 32, 233_472
_MOST_THREADS = 2_048

Shares = NDArray[np.float64]


class Residence(Struct, frozen=True):
    """What limits the resident blocks of a device."""

    sm_count: int
    threads: int  # of an SM
    warp_size: int
    blocks: int  # of an SM
    shared_bytes: int  # of an SM
    registers: int | None  # of an SM; None: other rules than NVIDIA's

    def blocks_per_sm(self, threads: Ints, registers: Ints, shared: Ints) -> Ints:
        """Return how many blocks of each kernel an SM holds at once, at least one."""
        warps = -(-threads // self.warp_size)
        most = np.minimum(self.threads // (warps * self.warp_size), self.blocks)
        most = np.where(shared > 0, np.minimum(most, self.shared_bytes // np.maximum(shared, 1)), most)
        if self.registers is not None:
            of_warp = -(-registers * self.warp_size // _REGISTER_UNIT) * _REGISTER_UNIT
            most = np.where(
                registers > 0, np.minimum(most, self.registers // np.maximum(of_warp, 1) // np.maximum(warps, 1)), most
            )
        found: Ints = np.maximum(most, 1)
        return found


def load_residence(con: duckdb.DuckDBPyConnection, trace_id: int) -> dict[int, Residence]:
    """Return the limits of each device whose number of SMs is known."""
    found = {}
    for device, vendor, sm_count, threads, major, minor, warp_size in con.execute(
        _RESIDENCE_QUERY, {"trace_id": trace_id}
    ).fetchall():
        is_amd = vendor == "amd"
        blocks, shared = _LIMITS.get((major, minor), (_MOST_BLOCKS, _MOST_SHARED)) if not is_amd else (64, _MOST_SHARED)
        found[device] = Residence(
            sm_count, threads or _MOST_THREADS, warp_size or 32, blocks, shared, None if is_amd else _REGISTERS
        )
    return found


def device_shares(table: pa.Table, residence: Residence | None) -> Shares:
    """Return which part of the device each kernel needs while it runs; 0: its grid or the device is not known.

    A grid of 2.5 times the blocks that are resident at once runs in three waves, and needs 2.5 / 3 of the device.
    """
    blocks, threads, registers, shared = (
        column(table, name, 0) for name in ("blocks", "threads", "registers_per_thread", "shared_memory_bytes")
    )
    if residence is None:
        return np.zeros(table.num_rows)
    known = (blocks > 0) & (threads > 0)
    at_once = residence.sm_count * residence.blocks_per_sm(np.maximum(threads, 1), registers, shared)
    waves = np.maximum(-(-blocks // at_once), 1)
    return np.where(known, blocks / (at_once * waves), 0.0)


_QUERY = """
SELECT o.op_id, o.device, COALESCE(o.stream, -1) AS stream, o.kind, o.is_comm, o.name,
       o.start_ns, o.start_ns + o.dur_ns AS end_ns, o.run_id, o.copy_kind, o.dst_kind, o.src_kind, o.collective,
       o.cpu_op_id, o.annotation_id, o.python_id,
       o.grid_x * o.grid_y * o.grid_z AS blocks, o.block_x * o.block_y * o.block_z AS threads,
       o.registers_per_thread, o.shared_memory_bytes,
       named.comm_annotation,
       l.slice_id AS launch_id, COALESCE(calling.twin_id, l.thread_id) AS launch_thread, l.name AS launch_name,
       l.start_ns AS launch_start, l.start_ns + l.dur_ns AS launch_end
FROM canonical.gpu_ops AS o
LEFT JOIN canonical.host_slices AS l
  ON l.trace_id = o.trace_id AND l.slice_id = o.launch_id
LEFT JOIN canonical.threads AS calling
  ON calling.trace_id = l.trace_id AND calling.thread_id = l.thread_id
LEFT JOIN (
  SELECT o.trace_id, o.op_id,
         CASE WHEN STARTS_WITH(around.name, 'nccl:') THEN around.name ELSE outside.name END AS comm_annotation
  FROM canonical.gpu_ops AS o
  JOIN canonical.host_slices AS around
    ON around.trace_id = o.trace_id AND around.slice_id = o.annotation_id
  LEFT JOIN canonical.host_slices AS outside  -- NCCL's own range, ncclGroupEnd, may lie between
    ON outside.trace_id = o.trace_id AND outside.slice_id = around.annotation_id AND STARTS_WITH(outside.name, 'nccl:')
  WHERE o.is_comm
) AS named
  ON named.trace_id = o.trace_id AND named.op_id = o.op_id
WHERE o.trace_id = $trace_id
  -- A loop or call of a TPU computes nothing itself: what it runs are operations, too.
  AND o.self_ns IS NULL
  AND NOT (o.kind = 'op' AND o.dur_ns = 0)  -- what takes no time delays nothing
"""

_COPY_BUCKETS = {"HtoD": "dev.h2d", "DtoH": "dev.d2h", "DtoD": "dev.d2d", "PtoP": "dev.d2d", "HtoH": "dev.d2d"}
_NO_PRODUCER = -1
_PAGE_MOVES = "Memcpy UVM "
_GATHER = re.compile(r"(?i)all_?gather")
_COMM_NAMES = ("collective", "name", "comm_annotation")


class DeviceOps(Struct, frozen=True):
    """Ops of one device ordered by start, end and id; launch columns are NO_ROW where the launch is unknown."""

    device: int
    op_id: Ints
    stream: Ints
    start: Ints
    end: Ints  # later than recorded_end where the rest of a replay is missing
    recorded_end: Ints
    compute: Flags  # kernels except communication, and graph replays
    opaque: Flags  # whole graph replays
    device_share: Shares  # part of the device that a kernel needs while it runs; 0: not known, and of all else
    gathers: Flags  # all-gathers: their input (parameters) may be older than the work before them
    producer: Codes  # dev.* bucket of a wait for this op; -1 for compute
    read_back: Flags  # copies to the host
    with_host: Flags  # copies from or to the host
    moves_pages: Flags  # moves of managed memory that no call asks for: they go along with the host's accesses
    cpu_op_id: Ints
    annotation_id: Ints
    python_id: Ints
    launch_id: Ints
    launch_thread: Ints
    launch_start: Ints
    launch_end: Ints
    launch_return: Ints  # later than launch_end where the call then waits for its kernel
    launch_name: NamedRows
    name: NamedRows
    of_program: Flags  # operations of a TPU: one call starts a whole program, and they follow each other
    run: Ints  # run of a program; NO_ROW: not known
    match_id: Ints  # collective all of whose ranks are known; NO_ROW: none
    comm_wait: Ints  # time at its beginning in which it waited for the last rank; 0: not known
    last_rank: Ints  # rank that it waited for; NO_ROW: not known
    missing_start: Ints  # stretches in which work ran that was not recorded
    missing_end: Ints

    @property
    def count(self) -> int:
        return len(self.op_id)

    @property
    def linked(self) -> Flags:
        known: Flags = self.launch_id != NO_ROW
        return known


def _comm_names(table: pa.Table, talks: Ints) -> list[str]:
    """Return the operations of some communication kernels."""
    names = [table[name].take(array_of(talks, pa.int64())).to_pylist() for name in _COMM_NAMES]
    return [name_of(*texts) for texts in zip(*names, strict=True)]


def _producers(kinds: NamedRows, copies: NamedRows, talks: Ints, names: list[str]) -> Codes:
    codes = np.full(len(kinds.codes), _NO_PRODUCER, dtype=np.int8)
    codes[kinds.where(lambda kind: kind == "memset")] = CODE["dev.memset"]
    waits = kinds.where(lambda kind: kind == "op") & copies.where(lambda copy: copy is not None)
    is_copy = kinds.where(lambda kind: kind == "memcpy") | waits
    bucket = np.asarray([CODE[_COPY_BUCKETS.get(copy or "", "dev.d2d")] for copy in copies.names], np.int8)
    codes[is_copy] = bucket[copies.codes[is_copy]]
    # A TPU's program sends as part of its collectives.
    is_of_stages = _flags(names, is_message) & ~kinds.where(lambda kind: kind == "op")[talks]
    codes[talks] = np.where(is_of_stages, CODE["dev.comm_p2p"], CODE["dev.comm_transfer"])
    return codes


def _moves_pages(table: pa.Table) -> Flags:
    found = NamedRows.of(table["name"]).where(lambda name: name is not None and name.startswith(_PAGE_MOVES))
    moved: Flags = found & (column(table, "launch_id") == NO_ROW)
    return moved


def _flags(names: list[str], say: Callable[[str], bool]) -> Flags:
    return np.asarray([say(name) for name in names], np.bool_)


def _device(table: pa.Table, device: int, residence: Residence | None) -> DeviceOps:
    comm = flag_column(table, "is_comm")
    kinds, copies = NamedRows.of(table["kind"]), NamedRows.of(table["copy_kind"])
    opaque = kinds.where(lambda kind: kind == "graph")
    of_program = kinds.where(lambda kind: kind == "op")
    works = of_program & ~copies.where(lambda copy: copy is not None)
    compute = ((kinds.where(lambda kind: kind == "kernel") | works) & ~comm) | opaque
    talks = np.flatnonzero(comm & (kinds.where(lambda kind: kind == "kernel") | of_program))
    names = _comm_names(table, talks)
    gathers = np.zeros(table.num_rows, np.bool_)
    gathers[talks] = _flags(names, lambda name: bool(_GATHER.search(name)))
    return DeviceOps(
        device=device,
        op_id=column(table, "op_id"),
        stream=column(table, "stream"),
        start=column(table, "start_ns"),
        end=column(table, "end_ns"),
        recorded_end=column(table, "end_ns"),
        compute=compute,
        opaque=opaque,
        device_share=np.where(compute, device_shares(table, residence), 0.0),
        gathers=gathers,
        producer=_producers(kinds, copies, talks, names),
        read_back=copies.where(lambda copy: copy == "DtoH"),
        with_host=copies.where(lambda copy: copy in ("HtoD", "DtoH")),
        moves_pages=_moves_pages(table),
        cpu_op_id=column(table, "cpu_op_id"),
        annotation_id=column(table, "annotation_id"),
        python_id=column(table, "python_id"),
        launch_id=column(table, "launch_id"),
        launch_thread=column(table, "launch_thread"),
        launch_start=column(table, "launch_start"),
        launch_end=column(table, "launch_end"),
        launch_return=column(table, "launch_end"),
        launch_name=NamedRows.of(table["launch_name"]),
        name=NamedRows.of(table["name"]),
        of_program=of_program,
        run=column(table, "run_id"),
        match_id=np.full(table.num_rows, NO_ROW),
        comm_wait=np.zeros(table.num_rows, np.int64),
        last_rank=np.full(table.num_rows, NO_ROW),
        missing_start=np.zeros(0, np.int64),
        missing_end=np.zeros(0, np.int64),
    )


def _in_order(table: pa.Table) -> pa.Table:
    """Return ops by device, start, end and id, with each text held once: rows with texts take twice the memory."""
    if not table.num_rows:
        return table
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = cast(Any, table[at].combine_chunks()).dictionary_encode("encode")
            table = table.set_column(at, field.name, texts)
    order = np.lexsort([column(table, name) for name in ("op_id", "end_ns", "start_ns", "device")])
    return table.take(array_of(order, pa.int64()))


def load_device_ops(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[DeviceOps]:
    """Read the GPU work of a trace, one element per device."""
    table = _in_order(con.sql(_QUERY, params={"trace_id": trace_id}).to_arrow_table())
    residence = load_residence(con, trace_id)
    devices = column(table, "device")
    numbers, first = np.unique(devices, return_index=True)
    last = np.append(first[1:], len(devices))
    return [
        _device(table.slice(low, high - low), device, residence.get(device))
        for device, low, high in zip(numbers.tolist(), first.tolist(), last.tolist(), strict=True)
    ]


def with_waits(ops: DeviceOps, waits: CommWaits | None) -> DeviceOps:
    """Return ops with the waits in their collectives filled in."""
    if waits is None:
        return ops
    ids = ops.op_id.tolist()
    return replace(
        ops,
        match_id=np.asarray([waits.match_id.get(op, NO_ROW) for op in ids], np.int64),
        comm_wait=np.asarray([waits.wait_ns.get(op, 0) for op in ids], np.int64),
        last_rank=np.asarray([NO_ROW if rank is None else rank for rank in map(waits.last_rank.get, ids)], np.int64),
    )


def queued_before(ops: DeviceOps) -> Flags:
    """Return the ops launched before the trace began: those before the first op of their stream with a known launch."""
    linked = ops.linked
    streams, of_stream = np.unique(ops.stream, return_inverse=True)
    none = np.iinfo(np.int64).max
    first = np.full(len(streams), none)
    np.minimum.at(first, of_stream[linked], ops.start[linked])
    carried: Flags = ~linked & (first[of_stream] != none) & (ops.start < first[of_stream])
    return carried


def as_launched(ops: DeviceOps, which: Flags) -> Ints:
    """Return the rows of the ops in `which` whose launch is known, in the order of their launches."""
    rows = np.flatnonzero(which & ops.linked)
    return rows[np.argsort(ops.launch_start[rows], kind="stable")]


# Recorded times are integer microseconds of two clocks.
_CLOCK_ERROR_NS = 2_000
# Fewer launches may all have met an idle device.
MIN_LAUNCHES = 200
# A call may take longer than a short kernel, and end after it without waiting for it.
MIN_TELLING_NS = 5_000
# In real traces without blocking launches it is less than one launch in ten, and mostly none.
MIN_BLOCKING_SHARE = 0.9
# From the end of a launch call that does not wait to the start of its kernel on an idle device: 1.6 to 1.8 us in most
# real traces of NVIDIA's devices. Where it is longer, the launch seems to cost more and the wait less than they do.
LATENCY_NS = 2_000
_COMM = (CODE[TRANSFER], CODE[MESSAGE])


def split_blocking_launches(ops: DeviceOps) -> DeviceOps:
    """Return ops with the launch ends of launches that do not wait, if all launches wait for their kernels."""
    blocked = _blocked(ops)
    if not len(blocked):
        return ops
    launched = ops.launch_start[blocked]
    # An idle device starts a kernel as soon as it is launched.
    cost = ops.start[blocked] - LATENCY_NS - launched
    busy_until = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(ops.end)[:-1]])[blocked]
    idle = busy_until <= launched
    usual = int(np.median(cost[idle] if idle.any() else cost))
    cost = np.where(idle, cost, np.minimum(cost, usual))
    launch_end = ops.launch_end.copy()
    launch_end[blocked] = np.minimum(launched + np.maximum(cost, 1), ops.launch_end[blocked])
    return replace(ops, launch_end=launch_end)


def _blocked(ops: DeviceOps) -> Ints:
    """Return the kernels that their launches waited for; none unless nearly all launches of kernels wait."""
    kernels = np.flatnonzero(ops.linked & ~ops.opaque & (ops.compute | np.isin(ops.producer, _COMM)))
    _, launch, count = np.unique(ops.launch_id[kernels], return_inverse=True, return_counts=True)
    alone = kernels[count[launch] == 1]
    waits: Flags = ops.launch_return[alone] >= ops.end[alone] - _CLOCK_ERROR_NS
    telling: Flags = ops.end[alone] - ops.start[alone] >= MIN_TELLING_NS
    is_mode = int(telling.sum()) >= MIN_LAUNCHES and float(waits[telling].mean()) >= MIN_BLOCKING_SHARE
    awaited: Ints = alone[waits & is_mode]
    return awaited
