"""The workload language: a list of actions a step does, checked when it is read and then played on a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.communication import COLLECTIVES
from tracesim.catalogue.kernels import KERNEL_CLASSES, PRECISIONS
from tracesim.catalogue.keys import (
    checked_choice,
    checked_count,
    checked_flag,
    checked_number,
    checked_text,
    reject_unknown_keys,
    unknown_name_error,
)
from tracesim.catalogue.recording import COMM_STREAM, COMPUTE_STREAM, COPY_STREAM

STREAMS = {"compute": COMPUTE_STREAM, "copy": COPY_STREAM, "comm": COMM_STREAM}
SYNC_KINDS = ("device", "stream", "event")


@dataclass(frozen=True)
class Action:
    """One action: its name, its checked fields, and the actions inside it."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    body: tuple[Action, ...] = ()

    def ns(self, key: str, default_us: float = 0.0) -> int:
        """Return a duration given in microseconds as ns."""
        value = self.fields.get(key)
        return round((default_us if value is None else value) * 1000)

    def ns_in_step(self, key: str, step: int | None) -> int:
        """Return a duration that may differ from step to step as ns."""
        value = self.fields.get(key) or 0.0
        return round(1000 * (value[(step or 0) % len(value)] if isinstance(value, tuple) else value))

    def get(self, key: str, default: Any) -> Any:
        """Return a field, or a default where it was not given."""
        value = self.fields.get(key)
        return default if value is None else value


def _us(value: object, place: str) -> float:
    return checked_number(value, place)


def us_by_step(value: object, place: str) -> float | tuple[float, ...]:
    """Return a time, or the times of one step after the other, which then repeat."""
    if not isinstance(value, list | tuple) or not value:
        return checked_number(value, place)
    return tuple(checked_number(item, place) for item in value)


def _collective(value: object, place: str) -> str:
    return checked_choice(value, COLLECTIVES, place)


def _stream(value: object, place: str) -> int:
    if isinstance(value, str):
        return STREAMS[checked_choice(value, STREAMS, place)]
    return checked_count(value, place)


def _streams(value: object, place: str) -> list[int]:
    return [_stream(item, place) for item in (value if isinstance(value, list) else [value])]


def _class(value: object, place: str) -> str:
    return checked_choice(value, KERNEL_CLASSES, place)


def _precision(value: object, place: str) -> str:
    return checked_choice(value, PRECISIONS, place)


def _sync_kind(value: object, place: str) -> str:
    return checked_choice(value, SYNC_KINDS, place)


def _any(value: object, place: str) -> object:
    return value


Check = Callable[[object, str], Any]
_BODY: dict[str, Check] = {"do": _any}
_KERNEL: dict[str, Check] = {
    "class": _class,
    "prec": _precision,
    "us": _us,
    "name": checked_text,
    "stream": _stream,
    "wait": _streams,
    "py_us": _us,
    "op_us": _us,
    "op": checked_text,
    "rows": checked_count,
    "tc": _any,
    "module_load_us": _us,
    "on_host_mb": _us,
}
_NEXT: dict[str, Check] = {
    "us": us_by_step,
    "workers": checked_count,
    "worker_us": us_by_step,
    "prefetch": checked_count,
    "pin_us": _us,
}
_COMM: dict[str, Check] = {
    "us": _us,
    "mb": _us,
    "blocking": checked_flag,
    "stream": _stream,
    "after": _stream,
    "event": checked_text,
}
# What may be said in each action; the first key is the one a bare value stands for.
ACTIONS: dict[str, dict[str, Check]] = {
    "next": _NEXT,
    "loader": _NEXT,
    "py": {"us": _us, "name": checked_text},
    "op": {"name": checked_text, "py_us": _us, "op_us": _us, **_BODY},
    "kernel": {"us": _us, **{key: check for key, check in _KERNEL.items() if key != "us"}},
    "repeat": {"count": checked_count, **_BODY},
    "every": {"steps": checked_count, "phase": checked_count, **_BODY},
    "first": {"steps": checked_count, "otherwise": _any, **_BODY},
    "backward": {"repeat": checked_count, "thread": checked_text, "kernel": _any, **_BODY},
    "optimizer": {
        "kernels": checked_count,
        "us": _us,
        "name": checked_text,
        "fused": checked_flag,
        "parameters": checked_count,
        "foreach": checked_flag,
        "py_us": _us,
        "op_us": _us,
    },
    "h2d": {
        "mb": _us,
        "us": _us,
        "pinned": checked_flag,
        "stream": _stream,
        "wait": checked_flag,
        "blocking": checked_flag,
    },
    "d2h": {"mb": _us, "us": _us, "pinned": checked_flag, "stream": _stream, "blocking": checked_flag},
    "prefetch": {"mb": _us},
    "read_managed": {"mb": _us, "name": checked_text},
    "memset": {"mb": _us, "us": _us, "stream": _stream},
    "item": {"count": checked_count},
    "occupied": {"us": _us, "stream": _stream},
    "sync": {"kind": _sync_kind, "stream": _stream},
    "event_record": {"stream": _stream, "event": checked_text},
    "stream_wait": {"on": _stream, "of": _stream, "event": checked_text},
    "context": {"us": _us},
    "malloc": {"us": _us, "count": checked_count, "mb": _us},
    "free": {"us": _us, "count": checked_count},
    "retry": {"us": _us, "frees": checked_count, "free_us": _us},
    "oom": {"mb": _us, "us": _us, "frees": checked_count, "free_us": _us},
    "hold": {"mb": _us},
    "release": {"mb": _us},
    "cache": {"mb": _us},
    "gc": {"us": _us},
    "lock": {"us": _us, "name": checked_text},
    "compile": {"us": _us, "recompile": checked_count},
    "overhead": {"us": _us, "name": checked_text},
    "comm": {**_COMM, "op": _collective, "group": checked_text, "name": checked_text},
    "send": {"to": checked_count, **_COMM},
    "recv": {"from": checked_count, **_COMM},
    "exchange": {"to": checked_count, "from": checked_count, **_COMM},
    "graph": {"kernels": checked_count, "us": _us, "class": _class, "prec": _precision},
    "capture": {"instantiate_us": _us, **_BODY},
    "replicas": {"mb": _us, "us": _us, **_BODY},
    "annot": {"name": checked_text, **_BODY},
    "frame": {"name": checked_text, **_BODY},
}


def parse_program(items: object, place: str = "program") -> tuple[Action, ...]:
    """Read a list of actions, each a mapping such as `{kernel: {us: 80}}` or `{repeat: 3, do: […]}`."""
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise TraceAnalyzerError(f"{place} is not a list of actions", "scenario", "write each action as `- name: {…}`")
    return tuple(_parse_action(item, f"{place}[{index}]") for index, item in enumerate(items))


def _parse_action(item: object, place: str) -> Action:
    if not isinstance(item, Mapping) or not item:
        raise TraceAnalyzerError(f"{place}: {item!r} is not an action", "scenario", "such as `kernel: {us: 80}`")
    if "forward" in item:
        # Forward work is nothing but repeated work; the word keeps a program readable.
        item = {"repeat" if key == "forward" else key: value for key, value in item.items()}
    name = next((str(key) for key in item if key in ACTIONS), None)
    if name is None:
        raise unknown_name_error(f"action in {place}", next(iter(item)), ACTIONS)
    checks = ACTIONS[name]
    value = item[name]
    fields: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    if not isinstance(value, Mapping) and value is not None:
        fields = {next(iter(checks)): value}
    fields.update({key: inner for key, inner in item.items() if key != name})
    reject_unknown_keys(fields, checks, f"{place}.{name}")
    body = parse_program(fields.pop("do"), f"{place}.{name}.do") if "do" in fields else ()
    if name == "backward" and "kernel" in fields:
        body = (*body, _parse_action({"kernel": fields.pop("kernel")}, f"{place}.backward"))
    checked = {key: checks[key](inner, f"{place}.{name}.{key}") for key, inner in fields.items()}
    if "otherwise" in checked:
        checked["otherwise"] = _parse_action(checked["otherwise"], f"{place}.first.otherwise")
    return Action(name, checked, body)
