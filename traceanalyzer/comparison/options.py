"""What a caller may choose about a comparison."""

from __future__ import annotations

from dataclasses import dataclass

MIN_EFFECT_SHARE = 0.02


@dataclass(frozen=True)
class CompareOptions:
    """How two sides are compared."""

    align: str = "auto"  # auto, steps or work
    min_effect_share: float = MIN_EFFECT_SHARE  # a smaller change of the step is no change
    capture_spread: float | None = None  # known standard deviation between captures of one configuration, as a share
    rank: int | None = None  # compare only this rank
    device: int | None = None  # compare only this device
    accepted: tuple[str, ...] = ()  # differences that would block the verdict, and are named instead


DEFAULT_COMPARE_OPTIONS = CompareOptions()
