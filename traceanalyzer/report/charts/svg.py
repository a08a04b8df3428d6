"""SVG as text: shapes, words that are escaped, and a drawing that says in words what it shows.

Every shape has its light colour as an attribute and the name of its colour as a class, so a drawing looks right by
itself, and a page with the style sheet of `palette` can show it dark.
"""

from __future__ import annotations

import html
from pathlib import Path

from traceanalyzer.report.charts.palette import FILLS, GROUND, OUTLINES, family_of, words_on
from traceanalyzer.text.visible import one_line

# Both drawings of a chart: for a desk, and for a phone, where a scaled-down one could not be read.
WIDE = 1072
NARROW = 400
# How wide letters are, in shares of the size, in the widest of the fonts below; others are as wide as a digit.
_LETTER_EM = {
    **dict.fromkeys("ijl|'!", 0.30),
    **dict.fromkeys(" .,:;", 0.34),
    **dict.fromkeys('frt()[]-/"', 0.41),
    **dict.fromkeys("csz_", 0.54),
    **dict.fromkeys("ABCDEFGHIJKLNOPQRSTUVXYZ", 0.72),
    **dict.fromkeys("w<>+−=×#~", 0.84),
    **dict.fromkeys("mMW@%…", 0.98),
}
_DIGIT_EM = 0.64
# Bold letters are this much wider.
_BOLD = 1.12
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
_HATCHES = {
    "host": '<path d="M0 7L7 0M-1 1L1 -1M6 8L8 6" stroke="#fff" stroke-opacity=".45" stroke-width="1.3"/>',
    "dev": '<circle cx="2" cy="2" r="1" fill="#fff" fill-opacity=".5"/>',
    "edge": '<path d="M1 1L5 5M5 1L1 5" stroke="#fff" stroke-opacity=".5"/>',
}
_HATCH_PX = {"host": 7, "dev": 5, "edge": 8}


class Svg(str):
    """A chart as SVG text; notebooks show it as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def __html__(self) -> str:
        return str(self)

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file and return its path."""
        file = Path(path)
        file.write_text(self, encoding="utf-8")
        return file


def drawing(width: float, height: float, says: str, shapes: list[str], *, alone: bool = False) -> Svg:
    """Return a drawing of this size; `says` is what it shows in words. One that stands alone brings its ground."""
    ground = f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>' if alone else ""
    defs = hatch_patterns() if alone else ""
    size = f' width="{width:g}" height="{height:g}"' if alone else ""
    return Svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"{size} role="img" '
        f'aria-label="{escaped(says)}" font-family="{FONT}">{defs}{ground}{"".join(shapes)}</svg>'
    )


def hatch_patterns() -> str:
    """Return the definitions of the families' hatches; a page needs them once."""
    patterns = "".join(
        f'<pattern id="hatch-{family}" width="{_HATCH_PX[family]}" height="{_HATCH_PX[family]}" '
        f'patternUnits="userSpaceOnUse">{marks}</pattern>'
        for family, marks in _HATCHES.items()
    )
    return f"<defs>{patterns}</defs>"


def part(
    token: str,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    title: str = "",
    faint: bool = False,
    data: str = "",
    hatch: str = "",
) -> str:
    """Return a box in the fill, outline and hatch of a token of the palette; `title` shows where it is pointed at.

    `hatch` is the family whose hatch it gets instead of its own.
    """
    family = family_of(token)
    marks = hatch or family
    box = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0))}" height="{_n(height)}"'
    opacity = ' opacity=".4"' if faint else ""
    stroke = f'stroke="{OUTLINES[family][0]}" stroke-width=".8"' if width >= 3 else 'stroke-width="0"'
    shape = f'<rect class="f-{token}" {box} fill="{FILLS[token][0]}" {stroke} rx="1.5"/>'
    hatched = f'<rect {box} fill="url(#hatch-{marks})"/>' if marks in _HATCHES and width >= 4 else ""
    tooltip = f"<title>{escaped(title)}</title>" if title else ""
    return f"<g{opacity}{f' {data}' if data else ''}>{tooltip}{shape}{hatched}</g>"


def label_on(token: str, x: float, y: float, words: str) -> str:
    """Return words on a box of this token, on a strip of its own colour so that the hatch does not run through them."""
    width, light = words_px(words, 13, bold=True) + 8, FILLS[token][0]
    strip = f'<rect class="f-{token}" x="{_n(x - 4)}" y="{_n(y - 13)}" width="{_n(width)}" height="18" fill="{light}" '
    return (
        f'{strip}style="stroke:none"/><text class="w-{token}" x="{_n(x)}" y="{_n(y)}" font-size="13" '
        f'font-weight="600" fill="{words_on(light)}">{escaped(words)}</text>'
    )


def words(
    x: float, y: float, text: str, *, tone: str = "text", anchor: str = "start", size: float = 13, bold: bool = False
) -> str:
    """Return words in a colour of the ground."""
    weight = ' font-weight="650"' if bold else ""
    return (
        f'<text class="t-{tone}" x="{_n(x)}" y="{_n(y)}" font-size="{size:g}" text-anchor="{anchor}"{weight} '
        f'fill="{GROUND[tone][0]}">{escaped(text)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, tone: str = "line", dashed: bool = False) -> str:
    """Return a hairline in a colour of the ground."""
    dashes = ' stroke-dasharray="2 3"' if dashed else ""
    return (
        f'<line class="l-{tone}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" '
        f'stroke="{GROUND[tone][0]}"{dashes}/>'
    )


def escaped(text: str) -> str:
    """Return a text as markup that shows it as it is."""
    return html.escape(one_line(text))


def words_px(text: str, size: float, *, bold: bool = False) -> float:
    """Return the room that words of this size take at most."""
    return sum(_LETTER_EM.get(letter, _DIGIT_EM) for letter in text) * size * (_BOLD if bold else 1)


def fitted(text: str, room_px: float, size: float = 13, *, bold: bool = False) -> str:
    """Return a text cut to the letters of this size that have room."""
    if words_px(text, size, bold=bold) <= room_px:
        return text
    most = len(text) - 1
    while most > 0 and words_px(text[:most] + "…", size, bold=bold) > room_px:
        most -= 1
    return text[:most].rstrip() + "…"


def round_scale(most: float, lines: int = 3) -> list[float]:
    """Return about so many round values from 0 that reach up to `most`."""
    if most <= 0:
        return [0.0]
    step = 1.0
    while step * lines < most:
        step *= 10
    while step * lines >= most * 10:
        step /= 10
    for factor in (0.1, 0.2, 0.25, 0.5, 1.0):
        if step * factor * lines >= most * 0.75:
            step *= factor
            break
    return [step * i for i in range(lines + 1) if step * i <= most * 1.001]


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
