"""Devices that the simulator can pretend to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracesim.catalogue.keys import (
    checked_count,
    checked_number,
    checked_text,
    reject_unknown_keys,
    unknown_name_error,
)


@dataclass(frozen=True)
class Device:
    """One accelerator as the trace's header describes it, and its peak rates in TFLOP/s for plausible shapes."""

    name: str
    vendor: str = "nvidia"
    sm_count: int = 132
    memory_bytes: int = 85_017_755_648
    compute_major: int = 9
    compute_minor: int = 0
    warp_size: int = 32
    max_threads_per_sm: int = 2048
    shared_memory_per_block_bytes: int = 49_152
    fp32_tflops: float = 67.0
    tf32_tflops: float = 494.0
    half_tflops: float = 989.0
    memory_gb_per_s: float = 3350.0

    @property
    def family(self) -> str:
        """Return the name that kernels of this device carry: volta, ampere, hopper, blackwell or cdna."""
        if self.vendor == "amd":
            return "cdna"
        return {7: "volta", 8: "ampere", 9: "hopper"}.get(self.compute_major, "blackwell")

    def tflops(self, precision: str) -> float:
        """Return the peak rate of matmuls in a precision."""
        return {"fp32": self.fp32_tflops, "tf32": self.tf32_tflops}.get(precision, self.half_tflops)


DEVICES = {
    "V100": Device(
        "Tesla V100-SXM2-32GB", "nvidia", 80, 34_079_637_504, 7, 0, 32, 2048, 49_152, 15.7, 15.7, 125.0, 900.0
    ),
    "A100": Device(
        "NVIDIA A100-SXM4-80GB", "nvidia", 108, 85_097_971_712, 8, 0, 32, 2048, 49_152, 19.5, 156.0, 312.0, 2039.0
    ),
    "H100": Device("NVIDIA H100 80GB HBM3"),
    "H200": Device("NVIDIA H200", memory_bytes=150_754_820_096, memory_gb_per_s=4800.0),
    "B200": Device(
        "NVIDIA B200", "nvidia", 148, 191_514_017_792, 10, 0, 32, 2048, 49_152, 75.0, 1125.0, 2250.0, 8000.0
    ),
    "MI300X": Device(
        "AMD Instinct MI300X", "amd", 304, 206_141_652_992, 9, 4, 64, 2048, 65_536, 163.4, 653.7, 1307.4, 5300.0
    ),
}
DEFAULT_DEVICE = "H100"


def parse_device(value: object) -> Device:
    """Read a device: one of the known short names, or a mapping of fields over one (`like`, H100 by default)."""
    if isinstance(value, Device):
        return value
    if isinstance(value, str):
        if value not in DEVICES:
            raise unknown_name_error("device", value, DEVICES)
        return DEVICES[value]
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"name": value}
    base = parse_device(fields.get("like", DEFAULT_DEVICE))
    reject_unknown_keys(fields, {"like", *vars(base)}, "device")
    changes: dict[str, Any] = {}
    for name, raw in fields.items():
        if name == "like":
            continue
        if isinstance(getattr(base, name), str):
            changes[name] = checked_text(raw, f"device.{name}")
        elif isinstance(getattr(base, name), int):
            changes[name] = checked_count(raw, f"device.{name}")
        else:
            changes[name] = checked_number(raw, f"device.{name}")
    return replace(base, **changes)
