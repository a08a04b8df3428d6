"""The colours of charts and pages, light and dark, and the style sheet that names them.

Blue works, orange waits for the host, purple and teal wait for the device, grey is not known. Families also differ by
hatch, so a chart reads in black and white.
"""

from __future__ import annotations

from collections.abc import Mapping

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
_TOKENS = {
    "compute": "compute",
    "host.dataloader": "host-loader",
    "host.tokenize": "host-loader",
    "host.preprocess": "host-loader",
    "host.op": "host-op",
    "host.python": "host-python",
    "host.launch_api": "host-launch",
    "host.sync": "host-sync",
    "host.memcpy_block": "host-copy",
    "dev.comm_transfer": "dev-comm",
    "dev.comm_p2p": "dev-comm",
    "dev.straggler_wait": "dev-late",
    "dev.h2d": "dev-h2d",
    "dev.d2h": "dev-d2h",
    "dev.d2d": "dev-d2d",
    "dev.memset": "dev-d2d",
    "dev.dispatch": "dev-dispatch",
    "dev.graph_gap": "dev-dispatch",
}
_FAMILY_TOKENS = {"host": "host-other", "dev": "dev-unknown"}
# Of black and white, one always reaches 4.5 to 1.
_DARK_WORDS = "#000000"
_LIGHT_WORDS = "#ffffff"


def token_of(bucket: str) -> str:
    """Return the name of the fill of a bucket of the time ledger."""
    return _TOKENS.get(bucket) or _FAMILY_TOKENS.get(bucket.partition(".")[0], "edge")


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
