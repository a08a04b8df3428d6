"""What could be taken out of each workload: the questions whose true answers bounds are measured against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.workloads import JOBS, LOCKED, WORKLOADS

LOADER, SYNC, PYTHON, OP, LAUNCH = "host.dataloader", "host.sync", "host.python", "host.op", "host.launch_api"
ALLOC, GC, BLOCK, COMPILE = "host.alloc", "host.gc", "host.memcpy_block", "host.compile"
LOCK, MODULE, PROFILER = "host.lock", "host.module_load", "host.profiler"
H2D, D2H, MEMSET, TRANSFER, MESSAGE = "dev.h2d", "dev.d2h", "dev.memset", "dev.comm_transfer", "dev.comm_p2p"


@dataclass(frozen=True)
class Question:
    """One question about a workload: causes that cost nothing, on all ranks or some, and faster compute kernels."""

    workload: str
    removed: tuple[str, ...] = ()
    kernel_scale: float = 1.0
    ranks: tuple[int, ...] | None = None  # None: all

    @property
    def scenario(self) -> Mapping[str, Any]:
        """Return the workload's scenario."""
        return (WORKLOADS | LOCKED | JOBS)[self.workload]

    @property
    def name(self) -> str:
        """Return the question in words."""
        where = "" if self.ranks is None else f" on {', '.join(map(str, self.ranks))}"
        what = list(self.removed) + ([f"compute × {self.kernel_scale:g}"] if self.kernel_scale != 1 else [])
        return f"{self.workload}: {' + '.join(what)}{where}"

    @property
    def scaled(self) -> dict[str, float] | None:
        """Return the factors on kernels as the simulator wants them."""
        return None if self.kernel_scale == 1 else {"compute": self.kernel_scale}


def _ask(workload: str, *questions: tuple[str, ...] | float) -> list[Question]:
    """Return the questions about a workload: causes, a factor on its kernels, or causes and a factor."""
    asked = []
    for question in questions:
        if isinstance(question, float):
            asked.append(Question(workload, (), question))
        else:
            asked.append(Question(workload, question))
    return asked


WHAT_IFS: tuple[Question, ...] = (
    *_ask("healthy", (LOADER,), (PYTHON, OP, LAUNCH), 0.5),
    *_ask("healthy with jitter", (LOADER,), (PYTHON,), 0.5, 0.9),
    *_ask("hidden loader", (LOADER,), 0.5, 0.25),
    Question("hidden loader", (LOADER,), 0.5),
    *_ask("exposed loader", (LOADER,), (PYTHON,), 0.5),
    Question("exposed loader", (LOADER,), 0.5),
    *_ask("uneven loader", (LOADER,), 0.5),
    *_ask("starving workers", (LOADER,), 0.5),
    *_ask("starving workers and item", (SYNC,), (LOADER,), (LOADER, SYNC), 0.5),
    *_ask("starving workers of a launch-bound job", (PYTHON,), (LOADER,), (LOADER, PYTHON)),
    *_ask("slow pinning and item", (SYNC,), (LOADER, SYNC), 0.5),
    *_ask("busy workers", (LOADER,), 0.8),
    *_ask("slow pinning", (LOADER,)),
    *_ask("item", (SYNC,), 0.5),
    *_ask("item every third step", (SYNC,), (PYTHON,)),
    *_ask("item with jitter", (SYNC,), (OP,), (PYTHON, OP)),
    *_ask("loader and item", (LOADER,), (SYNC,), (LOADER, SYNC), 0.5),
    Question("loader and item", (SYNC,), 0.8),
    *_ask("long loader and item", (LOADER,), (SYNC,), (LOADER, SYNC), 0.5),
    *_ask("device syncs", (SYNC,), 0.5),
    Question("device syncs", (SYNC,), 0.5),
    *_ask("stream syncs", (SYNC,), (OP,), (SYNC, OP)),
    *_ask("waits for short kernels", (SYNC,), (LAUNCH,), (SYNC, LAUNCH), 0.5),
    *_ask("launch-bound", (PYTHON,), (LAUNCH,), (PYTHON, LAUNCH), 0.5),
    *_ask("launch-bound with item", (SYNC,), (PYTHON,), (SYNC, PYTHON)),
    *_ask("launch-bound with loader", (LOADER,), (PYTHON,), (LOADER, PYTHON)),
    *_ask("launch-bound operators", (OP,), (PYTHON, OP)),
    *_ask("launch-bound inference", (PYTHON,), (PYTHON, LAUNCH)),
    *_ask("short queue", (LOADER,), (LAUNCH,), 0.5),
    *_ask("far ahead", (PYTHON,), (LAUNCH,), 0.5, 0.8),
    Question("far ahead", (PYTHON,), 0.5),
    *_ask("a little ahead", (PYTHON,), (LAUNCH,), 0.5, 0.8),
    Question("a little ahead", (PYTHON,), 0.5),
    *_ask("graphs ahead", (PYTHON,), (LAUNCH,), 0.5, 0.8),
    Question("graphs ahead", (PYTHON,), 0.5),
    *_ask("decode", (SYNC,), (PYTHON,), (SYNC, PYTHON), 0.5),
    *_ask("decode ahead", (PYTHON,), 0.5),
    *_ask("pageable", (BLOCK,), (H2D,), (H2D, BLOCK)),
    *_ask("pageable and loader", (LOADER,), (BLOCK,), (LOADER, BLOCK)),
    *_ask("pinned but waited for", (SYNC,), (H2D,), (SYNC, H2D)),
    *_ask("copy in order", (H2D,), 0.5),
    *_ask("copy beside", (H2D,), 0.5),
    *_ask("short copy beside", (H2D,)),
    *_ask("copy beside with events", (H2D,), 0.5),
    *_ask(
        "waiting for four streams",
        (H2D,),
        (H2D, D2H),
        (H2D, MEMSET, D2H),
        (H2D, D2H, TRANSFER),
        (H2D, MEMSET, D2H, TRANSFER),
        0.5,
    ),
    *_ask("read-back of results", (D2H,), (LOADER,)),
    *_ask("collective after", (TRANSFER,), 0.5),
    Question("collective after", (TRANSFER,), 0.5),
    *_ask("collective beside", (TRANSFER,)),
    *_ask("collective exposed in part", (TRANSFER,), 0.5),
    *_ask("barrier", (TRANSFER,), (PYTHON,), (SYNC,), (PYTHON, SYNC), 0.5),
    *_ask("barrier of a late host", (TRANSFER,), (PYTHON,), (LOADER,), (LOADER, PYTHON), (SYNC,), 0.5),
    *_ask("streams by turns", (PYTHON,), (PYTHON, OP, LAUNCH), 0.5),
    *_ask("garbage", (GC,), 0.5),
    *_ask("garbage every third step", (GC,)),
    Question("garbage every third step", (GC,), 0.5),
    *_ask("allocation", (ALLOC,), 0.5),
    *_ask("freeing", (ALLOC,)),
    *_ask("profiler", (PROFILER,)),
    *_ask("recompilation", (COMPILE,), 0.5),
    *_ask("recompilation in few steps", (COMPILE,)),
    *_ask("inference with loader", (LOADER,)),
    *_ask("unfused attention", (OP,), 0.5),
    *_ask("many troubles", (LOADER,), (SYNC,), (GC,), (ALLOC,), (LOADER, SYNC), (LOADER, SYNC, GC, ALLOC), 0.5),
)

LOCKED_WHAT_IFS: tuple[Question, ...] = (
    *_ask("lock once a step", (LOCK,), (LOCK, PYTHON), 0.5),
    *_ask("lock every third step", (LOCK,), 0.5),
    *_ask("interpreter lock", (LOCK,), (PYTHON,), (LOCK, PYTHON), 0.5),
    *_ask("lock and item", (LOCK,), (SYNC,), (LOCK, SYNC), 0.5),
    *_ask("lock hidden by queued work", (LOCK,), 0.5),
)

RUN_WHAT_IFS: tuple[Question, ...] = (
    *_ask("ranks: healthy", (TRANSFER,), (LOADER,), 0.5),
    Question("ranks: one late", (LOADER,), ranks=(3,)),
    Question("ranks: one late", (), 0.5),
    Question("ranks: one late", (LOADER,), 0.5),
    Question("ranks: two late", (LOADER,), ranks=(3,)),
    Question("ranks: two late", (LOADER,), ranks=(1, 3)),
    *_ask("ranks: late after a collective", (LOADER,), 0.5),
    *_ask("ranks: late after a recorded wait", (LOADER,), 0.5),
    *_ask("ranks: launching after a collective", (PYTHON,), (PYTHON, LOADER)),
    Question("ranks: all late", (LOADER,), ranks=(3,)),
    Question("ranks: all late", (LOADER,)),
    Question("ranks: late in turn", (LOADER,)),
    Question("ranks: late in turn", (LOADER,), ranks=(2,)),
    Question("ranks: late at random", (LOADER,), ranks=(0,)),
    Question("ranks: late at random", (LOADER,)),
    Question("ranks: late with items", (LOADER,), ranks=(3,)),
    Question("ranks: late with items", (SYNC,)),
    *_ask("ranks: starving workers on one", (SYNC,), (LOADER,), 0.5),
    Question("ranks: starving workers on one", (LOADER,), ranks=(3,)),
    Question("ranks: slow host", (PYTHON,), ranks=(3,)),
    Question("ranks: slow host", (PYTHON,)),
    Question("ranks: slow device", (), 1 / 1.12, ranks=(2,)),
    Question("ranks: slow device", (), 0.5),
    Question("ranks: exposed transfer", (TRANSFER,)),
    Question("ranks: exposed transfer", (), 0.5),
    Question("ranks: garbage on one", (GC,), ranks=(1,)),
    *_ask("ranks: gathering ahead", (LOADER,), (BLOCK,), (LOADER, BLOCK), (TRANSFER,), (LOADER, TRANSFER), 0.5),
    Question("ranks: gathering ahead", (LOADER,), 0.5),
    Question("ranks: groups", (LOADER,), ranks=(2,)),
    Question("ranks: groups", (TRANSFER,)),
    *_ask("ranks: pipeline", (MESSAGE,), 0.5),
    Question("ranks: pipeline", (), 0.5, ranks=(2,)),
    Question("ranks: pipeline with a slow stage", (), 1 / 1.5, ranks=(2,)),
    Question("ranks: pipeline with a slow stage", (), 0.5, ranks=(1,)),
    Question("ranks: pipeline with a late first stage", (LOADER,), ranks=(0,)),
    *_ask("ranks: ring of messages", (MESSAGE,), (LOADER,), 0.5),
)
