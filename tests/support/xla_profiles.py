"""Made-up profiles of XLA in which the answer is known, and what a diagnosis says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xspace import MS, PlaneMaker, Ref, space

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS

# name, category, ms, and the text of the operation behind its name.
Op = tuple[str, str, float, str]
HOST, DEVICE = "f32[1024,1024]{1,0:T(8,128)S(5)}", "f32[1024,1024]{1,0:T(8,128)}"
TO_DEVICE = f"{DEVICE} copy-done(({DEVICE}, {HOST}, u32[]) %copy-start)"
TO_HOST = f"{HOST} copy-done(({HOST}, {DEVICE}, u32[]) %copy-start.1)"


def diagnose(content: bytes | Path, folder: Path) -> Diagnosis:
    """Diagnose a profile, from its bytes or its file."""
    if isinstance(content, bytes):
        path = folder / "vm.xplane.pb"
        path.write_bytes(content)
    else:
        path = content
    with open_run(path, store=folder / "store") as run:
        return run.diagnose(settings=NO_SETTINGS)


def rules_of(diagnosis: Diagnosis) -> list[str]:
    """Return the rules that found something, one for each of their findings."""
    return sorted({finding.rule for finding in diagnosis.findings})


def tpu_space(ops: Sequence[Op], *, runs: int = 6, gap_ms: float = 0.0, warm_up_ms: float = 0.0) -> bytes:
    """Return a profile of a TPU that runs a program of operations again and again."""
    plane = PlaneMaker("/device:TPU:0")
    plane.stats = {"device_type_string": "TPU v5e", "peak_teraflops_per_second": 197.0}
    at, events, modules = 0.0, [], []
    start = ("%broadcast.1", "broadcast", 0.5, "")
    for run, (wait, program) in enumerate([(0.0, [start]), *[(gap_ms, list(ops))] * runs]):
        at += warm_up_ms if run == 1 else wait
        began = at
        for name, category, ms, text in program:
            full = f"{name} = {text}" if text else name
            plane.name_stats[full] = {"hlo_category": Ref(category)}
            begin = int(at * MS)
            stats: dict[str, Any] = {"device_offset_ps": begin, "device_duration_ps": int(ms * MS)}
            events.append((begin, int(ms * MS), full, stats))
            at += ms
        name = "jit_init(7)" if run == 0 else "jit_step(8)"
        modules.append((int(began * MS), int((at - began) * MS), name, {"run_id": run, "_c": run, "_ct": 12}))
    # Operations that contain others come as a list of their own: see `nested`.
    plane.line(3, "XLA Ops", events, 0)
    plane.line(2, "XLA Modules", modules, 0)
    host = PlaneMaker("/host:CPU").line(9, "python", [(0, MS, "PjitFunction(step)", {})])
    return space(plane, host)
