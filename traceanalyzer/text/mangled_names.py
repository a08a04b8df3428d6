"""Mangled names of kernels, such as `_ZN7ck_tile6kentryILi1E…`, as C++ writes them: as far as they go.

Profilers of AMD's devices keep kernels' mangled names and cut them, and newer types (`DF16b`) are unknown to older
libraries: libstdc++ reads none of those in our traces. What is read here is the part that tells kernels apart: the
function and its template arguments, without namespaces and parameters. The rest is `…`.

Source: the Itanium C++ ABI, chapter 5.1 (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling).
"""

from __future__ import annotations

import re

_BUILTINS = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
    "Dh": "half",
    "DF16_": "_Float16",
    "DF16b": "__bf16",
}
_BUILTIN = re.compile(r"DF16[b_]|Dh|[vbcahstijlmxyfd]")
_LENGTH = re.compile(r"\d{1,5}")
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]*_|[a-z])")
_VALUE = re.compile(r"(n?)(\d+)E")
_QUALIFIERS = {"P": "*", "R": "&", "O": "&&", "K": "", "V": ""}
_UNREAD = "…"
# Names that anybody reads nest less deeply than this.
_DEEPEST = 12


def demangled(name: str) -> str:
    """Return a mangled name as C++ writes it, without namespaces and parameters; the name itself where none is read."""
    reader = _MangledName(name)
    words = reader.name(0)
    return words if words and words != _UNREAD else name


class _MangledName:
    """Reads a mangled name from left to right; what it does not know ends it."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 2

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def _end(self) -> str:
        self.at = len(self.text)
        return _UNREAD

    def name(self, depth: int) -> str:
        """Read a name, nested in namespaces or not, and return its last part with its arguments."""
        if self._next() != "N":
            return self._part(depth)
        self.at += 1
        last = ""
        while self._next() not in ("", "E"):
            if self._next() == "I":
                last = (last or _UNREAD) + self._arguments(depth)
            elif self._next() in "rVKL":
                self.at += 1
            elif not self._take(_SUBSTITUTION):
                last = self._part(depth)
        self.at += 1
        return last or _UNREAD

    def _part(self, depth: int) -> str:
        length = self._take(_LENGTH)
        if not length:
            return self._end()
        begin = self.at
        self.at += int(length[0])
        part = self.text[begin : self.at] + (_UNREAD if self.at > len(self.text) else "")
        return part + self._arguments(depth) if self._next() == "I" else part

    def _arguments(self, depth: int) -> str:
        if depth >= _DEEPEST:
            return f"<{self._end()}>"
        return f"<{', '.join(self._listed(depth + 1))}>"

    def _listed(self, depth: int) -> list[str]:
        self.at += 1
        found: list[str] = []
        while self._next() not in ("", "E"):
            if self._next() == "J":
                found += self._listed(depth + 1) if depth < _DEEPEST else [self._end()]
            else:
                found.append(self._argument(depth))
        if not self._next() and not "".join(found[-1:]).rstrip(">").endswith(_UNREAD):
            found.append(_UNREAD)
        self.at += 1
        return found

    def _argument(self, depth: int) -> str:
        if self._next() != "L":
            return self._type(depth)
        self.at += 1
        kind = self._type(depth)
        value = self._take(_VALUE)
        if not value:
            return self._end()
        number = f"{'-' if value[1] else ''}{value[2]}"
        return {"0": "false", "1": "true"}.get(number, number) if kind == "bool" else number

    def _type(self, depth: int) -> str:
        marks = ""
        while self._next() and self._next() in _QUALIFIERS:
            marks = _QUALIFIERS[self._next()] + marks
            self.at += 1
        if self._next() == "N" or self._next().isdigit():
            return self.name(depth) + marks
        substitution = self._take(_SUBSTITUTION)
        if substitution:
            if self._next().isdigit():
                return self._part(depth) + marks
            return _UNREAD + (self._arguments(depth) if self._next() == "I" else "") + marks
        builtin = self._take(_BUILTIN)
        return _BUILTINS[builtin[0]] + marks if builtin else self._end()
