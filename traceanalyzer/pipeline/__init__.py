"""What opening a run does, in this order: `finding` names its files, `ingesting` has what is new read, `contents` puts
what the store then holds in order and writes its catalogue, and `deriving` has it attributed, by `attributing`.

Reading one file and attributing one trace are tasks: threads of this process run them, or an executor that is given,
such as `cluster`'s. `planning` says what there is to do, and how many requests of an object store that takes, and
does a share of it, for jobs without a scheduler. `deriving` also has the last answer about a run that did not
change since. A `RunRequest` goes whole from a command to all that opens a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.attribution import DEFAULT_OPTIONS, AttributionOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from traceanalyzer.ingest import Progress
    from traceanalyzer.remote.location import Location


def ignore(progress: Progress) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Which run to open, and how; `open_run` says what each option means."""

    inputs: tuple[str | Path | Location, ...]
    store: str | Path | Location | None = None
    jobs: int | None = None  # cores to use; None: all
    report: Callable[[Progress], None] = ignore
    attribution: bool = True
    options: AttributionOptions = DEFAULT_OPTIONS
    with_settings: bool = True  # False: as if no traceanalyzer.toml were there
    trust: bool = False
    device: str | None = None
    ncu: tuple[str | Path, ...] = ()
    catalog: bool = False
    executor: Executor | None = None
    from_store: bool = False  # read no trace: those that the store lacks are left out

    @property
    def cores(self) -> int:
        """The number of cores to use."""
        return self.jobs or os.cpu_count() or 1
