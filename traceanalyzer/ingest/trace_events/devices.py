"""The devices that a trace-event file describes, and those that work ran on."""

from __future__ import annotations

import re
from typing import Any

# How names of devices begin or read, in the order in which they are tried.
_VENDORS = (
    (re.compile(r"\b(amd|instinct|radeon|gfx\d)", re.IGNORECASE), "amd"),
    (re.compile(r"nvidia|tesla|geforce|quadro|rtx", re.IGNORECASE), "nvidia"),
    (re.compile(r"intel|data center gpu|arc\b", re.IGNORECASE), "intel"),
    (re.compile(r"^MTT\b|moore ?threads", re.IGNORECASE), "moore_threads"),
    (re.compile(r"^MLU\d|cambricon", re.IGNORECASE), "cambricon"),
)
# What recorders may call the identity of a device, and its place in its host.
_UUIDS = ("uuid", "UUID", "gpuUuid", "gpu_uuid")
_BUSES = ("pciBusId", "pci_bus_id", "busLocation", "busId", "bus_id")


def describe_devices(metadata: dict[str, Any], used: list[int], vendor: str | None) -> list[dict[str, Any]]:
    """Return the rows of the canonical table `devices`: all that the file describes, and all that work ran on.

    A device that no name describes is of the `vendor` whose calls or arguments the events have.

    ROCm describes the devices that the process sees, from 0 on, and numbers operations by the machine's devices. Where
    all described devices are of one kind, a device that has work and no description is of that kind, too.
    """
    listed = metadata.get("deviceProperties")
    described = dict(enumerate(listed)) if isinstance(listed, list) else {}
    described = {position: item for position, item in described.items() if isinstance(item, dict)}
    rows: dict[int, dict[str, Any]] = {}
    for position, properties in described.items():
        device = whole_number(properties.get("id"))
        row = _device(position if device is None else device, properties, metadata, vendor)
        rows[row["device"]] = row
    kinds = [{key: value for key, value in properties.items() if key != "id"} for properties in described.values()]
    kind = kinds[0] if kinds and all(other == kinds[0] for other in kinds) else {}
    if kind and used and rows.keys().isdisjoint(used) and len(used) == len(rows):
        rows = {}  # the same devices under other numbers
    for device in used:
        rows.setdefault(device, _device(device, kind, metadata, vendor))
    return [rows[device] for device in sorted(rows)]


def devices_run_in_order(metadata: dict[str, Any]) -> bool:
    """Return whether all described devices are of kinds on which no kernel begins before what is ahead of it ended."""
    return max((row["compute_major"] or 99 for row in describe_devices(metadata, [], None)), default=99) < 9


def _device(device: int, properties: dict[str, Any], metadata: dict[str, Any], vendor: str | None) -> dict[str, Any]:
    name = text_or_none(properties.get("name")) or ("TPU" if vendor == "google" else None)
    return {
        "device": device,
        "name": name,
        "vendor": _vendor(name, properties, metadata, vendor),
        "sm_count": whole_number(properties.get("numSms")),
        "memory_bytes": whole_number(properties.get("totalGlobalMem")),
        "compute_major": whole_number(properties.get("computeMajor")),
        "compute_minor": whole_number(properties.get("computeMinor")),
        "warp_size": whole_number(properties.get("warpSize")),
        "max_threads_per_sm": whole_number(properties.get("maxThreadsPerMultiprocessor")),
        "gpu": _identity(properties, metadata),
    }


def _identity(properties: dict[str, Any], metadata: dict[str, Any]) -> str | None:
    """Return which GPU a device is: its UUID, else its bus and host; None: not recorded."""
    uuid = next((text for key in _UUIDS if (text := text_or_none(properties.get(key)))), None)
    if uuid is not None:
        return uuid.lower().removeprefix("gpu-")
    bus = next((text for key in _BUSES if (text := text_or_none(properties.get(key)))), None)
    host = text_or_none(metadata.get("host_name") or metadata.get("hostname"))
    return None if bus is None or host is None else f"{bus.lower()} {host}"


def _vendor(name: str | None, properties: dict[str, Any], metadata: dict[str, Any], seen: str | None) -> str | None:
    if "runtimeMajorVersion" in properties:
        return "mtia"
    for pattern, vendor in _VENDORS:
        if name and pattern.search(name):
            return vendor
    if seen is not None:
        return seen
    if any(key.startswith(("hip_", "roctracer_", "rocprof")) for key in metadata):
        return "amd"
    if any(key.startswith(("cuda_", "cupti_")) for key in metadata) or properties.get("warpSize") == 32:
        return "nvidia"
    return None


def whole_number(value: object) -> int | None:
    """Return a number written as such or as text."""
    try:
        return None if value is None or isinstance(value, bool) else int(str(value))
    except ValueError:
        return None


def text_or_none(value: object) -> str | None:
    return value.encode(errors="replace").decode() if isinstance(value, str) and value else None
