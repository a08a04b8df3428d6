"""Reads a YAML file into plain values and remembers the line of every key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from traceanalyzer.rules.model import Mistake

# libyaml's is eight times faster; the wheels of PyYAML have it.
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """A rule file as plain values; `lines` has the line of each value by its dotted path."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int]
    mistakes: tuple[Mistake, ...]
    folded: dict[str, str] = field(default_factory=dict)  # the lines of texts that YAML makes one of, by dotted path

    def line(self, key: str) -> int:
        """Return the line of a dotted path, or of the nearest one above it."""
        while key not in self.lines and "." in key:
            key = key.rpartition(".")[0]
        return self.lines.get(key, 1)


def read_document(path: Path, *, up_to: str | None = None) -> Document:
    """Return a file's values with lines; what is not YAML, or not a mapping, is a mistake.

    With `up_to`, the file is read up to the line that starts with this.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if up_to is not None:
            text = text.partition(f"\n{up_to}")[0]
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            reader = _Reader(path, loader, text.splitlines())
            values = reader.value(root, "") if root is not None else None
        finally:
            loader.dispose()
    except (OSError, UnicodeDecodeError) as error:
        return Document(path, {}, {}, (Mistake(path, 1, f"cannot be read: {error}"),))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        hint = "text that holds ': ' or ' #' needs quotes or a block ('|')"
        return Document(path, {}, {}, (Mistake(path, mark.line + 1 if mark else 1, f"not YAML: {what}", hint),))
    if not isinstance(values, dict):
        return Document(path, {}, {}, (Mistake(path, 1, "a rule file is a mapping of keys to values"),))
    return Document(path, values, reader.lines, tuple(reader.mistakes), reader.folded)


class _Reader:
    """Turns YAML nodes into values; refuses a key that is written twice, which YAML would drop in silence."""

    def __init__(self, path: Path, loader: yaml.SafeLoader, text: list[str]) -> None:
        self.path = path
        self.loader = loader
        self.text = text
        self.folded: dict[str, str] = {}
        self.lines: dict[str, int] = {}
        self.mistakes: list[Mistake] = []

    def value(self, node: yaml.Node, key: str) -> Any:
        # A block scalar's mark is on the line of its '|'; its text starts on the next one.
        is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        self.lines[key] = node.start_mark.line + (2 if is_block else 1)
        if isinstance(node, yaml.ScalarNode) and node.style != "|" and node.end_mark.line > node.start_mark.line:
            self.folded[key] = "\n".join(self.text[self.lines[key] - 1 : node.end_mark.line + (not is_block)])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, _join(key, str(i))) for i, item in enumerate(node.value)]
        return self.loader.construct_object(node, deep=True)

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = str(key_node.value)
            if name in values:
                self.mistakes.append(Mistake(self.path, key_node.start_mark.line + 1, f"key written twice: {name}"))
            values[name] = self.value(value_node, _join(key, name))
        return values


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
