"""Reads a YAML file into plain values and remembers the line of every key.

A rule file may come from a stranger, so that what it costs to read is limited: the file's size, how deep its values
nest, how many there are once aliases are written out, and how long one text is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from traceanalyzer.rules.rule_file.model import Mistake, line_of

# libyaml's is eight times faster; the wheels of PyYAML have it.
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The largest rule that ships has 12 kB, 19 levels, 600 values, and no text of more than 3,500 characters.
MAX_FILE_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_VALUES = 10_000
MAX_TEXT_LENGTH = 50_000


class YamlDocument(Struct, frozen=True):
    """A rule file as plain values; `lines` has the line of each value by its dotted path."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int]
    mistakes: tuple[Mistake, ...]
    folded: dict[str, str] = field(default_factory=dict)  # the lines of texts that YAML makes one of, by dotted path
    cut: dict[str, str] = field(default_factory=dict)  # what YAML takes for a comment behind a text, by dotted path

    def line(self, key: str) -> int:
        """Return the line of a dotted path, or of the nearest one above it."""
        return line_of(self.lines, key)


def read_document(path: Path, *, up_to: str | None = None) -> YamlDocument:
    """Return a file's values with lines; a file that is not YAML, no mapping or over a limit is a mistake.

    With `up_to`, the file is read up to the line that starts with this.
    """
    try:
        text = _read_text(path)
        if up_to is not None:
            text = text.partition(f"\n{up_to}")[0]
        _check_depth(text)
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            reader = _Reader(path, loader, text.splitlines())
            values = reader.value(root, "") if root is not None else None
        finally:
            loader.dispose()
    except _LimitReachedError as error:
        return _unreadable(path, error.line, str(error), error.hint)
    except OSError as error:
        return _unreadable(path, 1, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return _unreadable(path, 1, f"cannot be read: {error}")
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        hint = "text that holds ': ' or ' #' needs quotes or a block ('|')"
        return _unreadable(path, mark.line + 1 if mark else 1, f"not YAML: {what}", hint)
    if not isinstance(values, dict):
        return _unreadable(path, 1, "a rule file is a mapping of keys to values")
    return YamlDocument(path, values, reader.lines, tuple(reader.mistakes), reader.folded, reader.cut)


class _LimitReachedError(Exception):
    """A file costs more to read than any rule needs."""

    def __init__(self, line: int, what: str, hint: str | None = None) -> None:
        super().__init__(f"limit reached: {what}")
        self.line = line
        self.hint = hint


def _unreadable(path: Path, line: int, what: str, hint: str | None = None) -> YamlDocument:
    return YamlDocument(path, {}, {}, (Mistake(path, line, what, hint),))


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        what = f"the file is larger than {MAX_FILE_BYTES:,} bytes"
        raise _LimitReachedError(1, what, "a rule file holds one rule with its tests")
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _check_depth(text: str) -> None:
    """Raise where values nest too deep: libyaml builds nodes by recursion and takes the process down with it."""
    what = f"values nest more than {MAX_DEPTH} levels deep"
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise _LimitReachedError(event.start_mark.line + 1 if event.start_mark else 1, what)
    except yaml.MarkedYAMLError as error:
        # libyaml reads ahead and has a limit of its own, which it may reach first.
        if "nesting" not in (error.problem or ""):
            raise
        raise _LimitReachedError(error.problem_mark.line + 1 if error.problem_mark else 1, what) from error


class _Reader:
    """Turns YAML nodes into values; refuses a key that is written twice, which YAML would drop in silence."""

    def __init__(self, path: Path, loader: yaml.SafeLoader, text: list[str]) -> None:
        self.path = path
        self.loader = loader
        self.text = text
        self.folded: dict[str, str] = {}
        self.cut: dict[str, str] = {}
        self.lines: dict[str, int] = {}
        self.mistakes: list[Mistake] = []
        self._value_count = 0

    def value(self, node: yaml.Node, key: str, depth: int = 0) -> Any:
        """Return the value of a node; an alias is written out at each place."""
        self._check_limits(node, depth)
        # A block scalar's mark is on the line of its '|'; its text starts on the next one.
        is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        self.lines[key] = node.start_mark.line + (2 if is_block else 1)
        if isinstance(node, yaml.ScalarNode) and node.style != "|" and node.end_mark.line > node.start_mark.line:
            self.folded[key] = "\n".join(self.text[self.lines[key] - 1 : node.end_mark.line + (not is_block)])
        if isinstance(node, yaml.ScalarNode) and not node.style:
            behind = self.text[node.end_mark.line][node.end_mark.column :].strip() if self.text else ""
            if behind.startswith("#"):
                self.cut[key] = behind
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, _join(key, str(i)), depth + 1) for i, item in enumerate(node.value)]
        return self.loader.construct_object(node, deep=True)

    def _mapping(self, node: yaml.MappingNode, key: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.append(Mistake(self.path, key_node.start_mark.line + 1, "a key is one word"))
                continue
            name = str(key_node.value)
            if name in values:
                self.mistakes.append(Mistake(self.path, key_node.start_mark.line + 1, f"key written twice: {name}"))
            values[name] = self.value(value_node, _join(key, name), depth + 1)
        return values

    def _check_limits(self, node: yaml.Node, depth: int) -> None:
        line = node.start_mark.line + 1
        self._value_count += 1
        if self._value_count > MAX_VALUES or depth > MAX_DEPTH:
            what = f"more than {MAX_VALUES:,} values, aliases written out"
            raise _LimitReachedError(line, what, "write less by aliases (*name)")
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_TEXT_LENGTH:
            raise _LimitReachedError(line, f"a text of more than {MAX_TEXT_LENGTH:,} characters")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
