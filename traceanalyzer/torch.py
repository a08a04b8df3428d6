"""Recording with `torch.profiler`: a profile with the data that rules need, and one whole trace file for each rank.

    from traceanalyzer.torch import recommended_profile

    with recommended_profile("runs/run42") as profiler:
        for batch in loader:
            train_step(batch)
            profiler.step()

Then: `traceanalyzer diagnose runs/run42`. Of traceanalyzer, only this module is imported into the job, and of other
packages only PyTorch.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import distributed
from torch.profiler import profile, schedule, supported_activities

from traceanalyzer.errors import TraceAnalyzerError

# Launchers, and the variable in which each gives a process its rank: torchrun, Open MPI, MPICH and Intel MPI, Slurm.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
# The job waits for the file. On a trace of 55.6 MB level 1 took 0.17 s, and level 9, the default of gzip, 1.60 s.
_GZIP_LEVEL = 1
_COPY_BYTES = 1 << 20
# What newer versions of PyTorch can record besides, newest last.
_EXPERIMENTAL = ("enable_cuda_sync_events", "record_python_gc_info")


def trace_handler(folder: str | Path, *, rank: int | None = None) -> Callable[[Any], None]:
    """Return what `profile(on_trace_ready=…)` calls: it writes `rank<N>.json.gz` into a folder, which is made at once.

    The rank is asked for when a trace is ready: the given one, else that of torch.distributed, else what torchrun, MPI
    or Slurm say, else 0. The file appears when it is complete and replaces one of an earlier job. The second and later
    cycles of a schedule with `repeat` are runs of their own, in folders beside: `run42-cycle2/rank0.json.gz`.

    Raises TraceAnalyzerError where the folder cannot be made. A trace that cannot be written is a RuntimeWarning: the
    job goes on.
    """
    base = Path(folder)
    _make(base)
    written = 0

    def write(profiler: Any) -> None:
        nonlocal written
        written += 1
        target = base if written == 1 else base.with_name(f"{base.name}-cycle{written}")
        try:
            target.mkdir(parents=True, exist_ok=True)
            _write_trace(profiler, target / f"rank{rank_of_process() if rank is None else rank}.json.gz")
        except (OSError, RuntimeError) as error:
            warnings.warn(f"traceanalyzer: no trace was written into {target}: {error}", RuntimeWarning, stacklevel=2)

    return write


def recommended_profile(
    folder: str | Path,
    *,
    wait: int = 5,
    warmup: int = 2,
    active: int = 10,
    repeat: int = 1,
    stacks: bool = True,
    shapes: bool = True,
    memory: bool = True,
    rank: int | None = None,
) -> profile:
    """Return a `torch.profiler.profile` that records what rules need, and writes into a folder (`trace_handler`).

    Call its `step()` after every step: `active` steps are kept, after `wait` not recorded and `warmup` that are
    dropped, `repeat` times (0: until the job ends). Ten steps distinguish jitter from one slow step. Stacks, shapes and
    allocator events slow the host: where a diagnosis says that the host is late, check it with a second run without.
    """
    return profile(
        activities=supported_activities(),
        schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=repeat),
        on_trace_ready=trace_handler(folder, rank=rank),
        record_shapes=shapes,
        with_stack=stacks,
        profile_memory=memory,
        experimental_config=_experimental_config(),
    )


def rank_of_process() -> int:
    """Return the rank of this process in its job, 0 where nothing says so."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    for variable in _RANK_VARIABLES:
        with suppress(KeyError, ValueError):
            return int(os.environ[variable])
    return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        hint = "name a folder that every rank can write"
        raise TraceAnalyzerError(f"cannot be written: {error.strerror}", folder, hint) from error


def _write_trace(profiler: Any, target: Path) -> None:
    """Write a profiler's trace, whole or not at all; until then it lies in a hidden folder, which no reader opens."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        plain, packed = Path(scratch) / "trace.json", Path(scratch) / target.name
        profiler.export_chrome_trace(str(plain))
        _check_whole(plain)
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=_GZIP_LEVEL) as gzipped:
            shutil.copyfileobj(source, gzipped, _COPY_BYTES)
        with packed.open("rb+") as file:
            os.fsync(file.fileno())
        packed.replace(target)


def _check_whole(file: Path) -> None:
    """Raise OSError for a trace that is not there or ends early: Kineto reports a full disk in its log only."""
    size_bytes = file.stat().st_size if file.exists() else 0
    if not size_bytes:
        raise OSError("PyTorch wrote nothing: is the disk full?")
    with file.open("rb") as content:
        content.seek(max(0, size_bytes - 64))
        if not content.read().rstrip().endswith(b"}"):
            raise OSError(f"PyTorch wrote {size_bytes:,} bytes without the end: is the disk full?")


def _experimental_config() -> Any:
    """Return the settings for what only this version of PyTorch and newer ones record; None where there are none."""
    from torch._C import _profiler

    config: Any = getattr(_profiler, "_ExperimentalConfig", None)
    for count in range(len(_EXPERIMENTAL), 0, -1):
        with suppress(TypeError):
            return config(**dict.fromkeys(_EXPERIMENTAL[:count], True))
    return None
