"""SVG as text: shapes, words that are escaped, and a drawing that says in words what it shows; the colours of buckets.

Every shape has its light colour as an attribute and the name of its colour as a class, so a drawing looks right by
itself, and a page with the style sheet can show it dark.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

from traceanalyzer.text.visible import one_line
from traceanalyzer.text.words import BY_NAME

# token: (light, dark)
GROUND = {
    "ground": ("#ffffff", "#12151a"),
    "panel": ("#f6f7f9", "#191d24"),
    "text": ("#14171c", "#e8ebf0"),
    "dim": ("#5a6371", "#9aa4b2"),
    "line": ("#e1e5ea", "#2b313b"),
    "frame": ("#7d8694", "#767f8d"),
    "accent": ("#1f5fae", "#7db4f0"),
    "bad": ("#b42318", "#ff8a6e"),
    "caution": ("#8a5200", "#f0b354"),
    "good": ("#1f7446", "#5cc48d"),
}
FILLS = {
    "compute": ("#2f6fb7", "#5f9fe0"),
    "host-loader": ("#e08a2c", "#eea04d"),
    "host-op": ("#eeb04f", "#f2bd6b"),
    "host-python": ("#f3cb84", "#d9b26a"),
    "host-launch": ("#c77a1e", "#cf8c3b"),
    "host-sync": ("#a9601a", "#b97636"),
    "host-copy": ("#8f4f1b", "#a5683a"),
    "host-other": ("#d9a066", "#c99555"),
    "dev-comm": ("#7b52ab", "#a17fd0"),
    "dev-late": ("#a586cf", "#8466ab"),
    "dev-h2d": ("#1f8a84", "#3fb3ac"),
    "dev-d2h": ("#4aa8a2", "#67c7c0"),
    "dev-d2d": ("#7cc4bf", "#4d938e"),
    "dev-dispatch": ("#9eb0c4", "#6f8197"),
    "dev-unknown": ("#8b94a1", "#6d7683"),
    "edge": ("#c3c8d0", "#565d68"),
    "left": ("#aeb9c7", "#4b5564"),
    "saved": ("#2c8a57", "#4fb883"),
    "slower": ("#c4472f", "#ff8a6e"),
}
# Boxes of timelines and flame graphs.
SLICES = {
    "slice-kernel-0": ("#5b86d6", "#5c84cf"),
    "slice-kernel-1": ("#6f9be0", "#6d96db"),
    "slice-kernel-2": ("#4f79c4", "#4d74ba"),
    "slice-comm": ("#9a7cc4", "#8d70b8"),
    "slice-copy": ("#4aa8a2", "#3f9690"),
    "slice-annotation": ("#c3b3d6", "#57506a"),
    "slice-python": ("#dfc9a3", "#6a5b42"),
    "slice-op": ("#acd3bd", "#3f6150"),
    "slice-call": ("#e9aa9f", "#7d4a42"),
    "slice-os": ("#c9ced6", "#4b525d"),
    "slice-other": ("#d5d9e0", "#434a55"),
    "frame-0": ("#f0c7a0", "#7a5a3c"),
    "frame-1": ("#e9b49a", "#80523f"),
    "frame-2": ("#e6cf96", "#6e6236"),
    "frame-3": ("#eabfae", "#75503f"),
}
KERNEL_BLUES = ("slice-kernel-0", "slice-kernel-1", "slice-kernel-2")
# The outline of a family's parts: it sets them off from the ground where their fill is pale.
OUTLINES = {
    "compute": ("#1f4f86", "#8dbdf0"),
    "host": ("#8a4a10", "#f0b766"),
    "dev": ("#4c4a86", "#a9b3d6"),
    "edge": ("#6b7480", "#8a93a0"),
    "plain": ("#6b7480", "#8a93a0"),
}
# Scripts name a fill by its number.
TOKENS = (*FILLS, *SLICES)
_FAMILY_TOKENS = {"host": "host-other", "dev": "dev-unknown"}
# Of black and white, one always reaches 4.5 to 1.
_DARK_WORDS = "#000000"
_LIGHT_WORDS = "#ffffff"


def token_of(bucket: str) -> str:
    """Return the name of the fill of a bucket of the time ledger."""
    return BY_NAME[bucket].fill if bucket in BY_NAME else _FAMILY_TOKENS.get(bucket.partition(".")[0], "edge")


def family_of(token: str) -> str:
    """Return the family of a fill: compute, host, dev or edge."""
    family = token.partition("-")[0]
    return "plain" if token in ("left", "saved", "slower") else family if family in OUTLINES else "edge"


def words_on(color: str) -> str:
    """Return the colour, dark or light, in which words stand out more on a colour."""
    return max((_DARK_WORDS, _LIGHT_WORDS), key=lambda words: contrast(words, color))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it: 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def style_sheet() -> str:
    """Return the colours as CSS variables, light by default, dark where the reader or the system asks for it."""
    light, dark = (_variables({**GROUND, **FILLS, **SLICES}, OUTLINES, side) for side in (0, 1))
    classes = "".join(
        f".f-{token}{{fill:var(--c-{token});stroke:var(--o-{family_of(token)})}}.w-{token}{{fill:var(--w-{token})}}"
        f".b-{token}{{background-color:var(--c-{token});border-color:var(--o-{family_of(token)})}}"
        for token in FILLS
    )
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n{classes}\n"
    )


def _variables(colors: Mapping[str, tuple[str, str]], outlines: Mapping[str, tuple[str, str]], side: int) -> str:
    named = [f"--c-{token}:{pair[side]}" for token, pair in colors.items()]
    named += [f"--w-{token}:{words_on(pair[side])}" for token, pair in {**FILLS, **SLICES}.items()]
    named += [f"--o-{family}:{pair[side]}" for family, pair in outlines.items()]
    return ";".join(named)


def _luminance(color: str) -> float:
    def linear(part: str) -> float:
        value = int(part, 16) / 255
        return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)

    red, green, blue = linear(color[1:3]), linear(color[3:5]), linear(color[5:7])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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


def fitted(text: str, room_px: float, size: float = 13) -> str:
    """Return a text cut to the letters of this size that have room."""
    if words_px(text, size) <= room_px:
        return text
    most = len(text) - 1
    while most > 0 and words_px(text[:most] + "…", size) > room_px:
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
