"""What a person decides about attribution; tables made under different options are stored apart."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

STEP_PATTERN = r"^(ProfilerStep#\d+|(train_?)?(step|iter|iteration|batch)[ _#:-]?\d+|execute_context_.*|step\[.*\])$"


@dataclass(frozen=True)
class AttributionOptions:
    """How attribution reads a trace; whatever is here goes into the key of the tables, so a field is all it takes."""

    step_pattern: str | None = None  # names of the annotations that are steps; None: the profiler's own and usual names
    # Host causes and patterns of the names that stand for them here; None: those of the project's settings.
    names: tuple[tuple[str, str], ...] | None = None

    def key(self) -> str:
        """Return a text that differs where any option does."""
        return json.dumps(asdict(self), sort_keys=True)


DEFAULT_OPTIONS = AttributionOptions()
