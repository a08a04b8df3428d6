"""The cause of every nanosecond of a device, and an upper bound of what removing a cause saves.

`tables.compute` fills the tables that `schema/` defines, from the canonical tables; `replay.bounds` answers what-if
questions from them. A trace passes through the folders in this order: `records` reads operations and host calls; `host`
finds what the issuing threads did; `steps` finds the steps and the analysis window; `matching_collectives` pairs
collectives over ranks; `ledger` splits each gap between compute kernels into launch delays of the host and waits on
the device; `replay` bounds what a fix can save. `attributed_device` does this for one device, `tables` for a run, and
`run_tables` for all its ranks together.

Here are the options of attribution; the store keeps the tables of different options apart.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

STEP_PATTERN = (
    r"^(ProfilerStep#\d+|(train_?)?(step|iter|iteration|batch)[ _#:-]?\d+|execute_context_.*|step\[.*\]"
    r"|(\[Executor\] )?_forward_step \d+:.*)$"
)


@dataclass(frozen=True)
class AttributionOptions:
    """The options by which attribution reads a trace; every field is part of the key of the stored tables."""

    step_pattern: str | None = None  # names of the annotations that are steps; None: the profiler's own and usual names
    # Pairs of a host cause and a pattern of slice names that mean it; None: the pairs of the project's settings.
    names: tuple[tuple[str, str], ...] | None = None
    # First and last number of the steps that alone are analysed, warm-up or not; None: all that the trace shows whole.
    steps: tuple[int, int] | None = None

    @property
    def steps_words(self) -> str:
        """Say the chosen steps: `step 3`, `steps 3-7`; empty where none are chosen."""
        if self.steps is None:
            return ""
        first, last = self.steps
        return f"step {first}" if first == last else f"steps {first}-{last}"

    def key(self) -> str:
        """Return a text that differs if any option differs."""
        return json.dumps(asdict(self), sort_keys=True)


DEFAULT_OPTIONS = AttributionOptions()
