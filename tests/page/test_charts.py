"""Charts: what they draw adds up, they say it in words, and their colours can be told apart."""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.report.blocks import Bar, BarPart
from traceanalyzer.report.charts import svg
from traceanalyzer.report.charts.ledger_charts import MOST_COLUMNS, StepTime, ledger_bar, step_columns, waterfall
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg, fitted, round_scale, words_px
from traceanalyzer.report.diagnosis_blocks import PlanRow
from traceanalyzer.report.html.diff_page import CaptureSteps, DifferenceRow, capture_dots, difference_waterfall
from traceanalyzer.report.html.sections.memory import MemoryPoint, memory_curve
from traceanalyzer.report.html.sections.ranks import heat_map, rank_bars
from traceanalyzer.report.html.sections.roofline import Roof, RooflinePoint, roofline

MS = 1_000_000
_NS = "{http://www.w3.org/2000/svg}"
PARTS = Bar(
    ("time", "share"),
    (
        BarPart("compute", "GPU busy with compute", 60 * MS, ("60.00 ms", "60.0 %")),
        BarPart("host.dataloader", "waiting for the data loader", 30 * MS, ("30.00 ms", "30.0 %")),
        BarPart("dev.h2d", "waiting for a <copy>", 10 * MS, ("10.00 ms", "10.0 %")),
    ),
)


def boxes(svg: Svg, name: str) -> list[ElementTree.Element]:
    """Return the boxes of a chart with this class."""
    return [box for box in ElementTree.fromstring(svg).iter(f"{_NS}rect") if box.get("class") == name]


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_words_and_marks_stand_out_from_what_they_are_on(side: int) -> None:
    ground = {name: pair[side] for name, pair in svg.GROUND.items()}
    for tone in ("text", "dim", "accent", "bad", "caution", "good"):
        for below in ("ground", "panel"):
            assert svg.contrast(ground[tone], ground[below]) >= 4.5, (tone, below)
    for family, pair in svg.OUTLINES.items():
        assert svg.contrast(pair[side], ground["ground"]) >= 3, family
    for token, pair in {**svg.FILLS, **svg.SLICES}.items():
        assert svg.contrast(svg.words_on(pair[side]), pair[side]) >= 4.5, token


def test_ledger_bar_is_as_wide_as_its_parts() -> None:
    svg = ledger_bar(PARTS)
    wide = {
        name: sum(float(box.get("width", 0)) for box in boxes(svg, name)[:1]) for name in ("f-compute", "f-host-loader")
    }
    assert wide["f-compute"] == pytest.approx(WIDE * 0.6, abs=2)
    assert wide["f-host-loader"] == pytest.approx(WIDE * 0.3, abs=2)
    assert "waiting for a &lt;copy&gt;" in svg
    assert 'aria-label="GPU busy with compute 60.0 %; waiting' in svg


def test_a_shorter_bar_fills_less_of_the_width() -> None:
    (compute, *_) = boxes(ledger_bar(PARTS, thin=True, fill=0.5), "f-compute")
    assert float(compute.get("width", 0)) == pytest.approx(WIDE * 0.3, abs=2)


def test_label_stands_in_a_part_only_where_it_has_room() -> None:
    assert "GPU busy with compute 60.0 %" in "".join(ElementTree.fromstring(ledger_bar(PARTS)).itertext())
    narrow = [text.text or "" for text in ElementTree.fromstring(ledger_bar(PARTS, width=NARROW)).iter(f"{_NS}text")]
    assert narrow == ["GPU busy with compute 60.0 %", "30.0 %"] or narrow == ["60.0 %", "30.0 %"]


def test_waterfall_goes_on_where_the_last_fix_ended() -> None:
    drops = [
        PlanRow("dataloader-bound", 40 * MS, 60 * MS, "40 ms", "−60.0 %", "high confidence"),
        PlanRow("sync-in-step", 30 * MS, 10 * MS, "30 ms", "−10.0 %", ""),
    ]
    svg = waterfall(PlanRow("now", 100 * MS, 0, "100 ms", "", ""), drops, "")
    left, saved = boxes(svg, "f-left"), boxes(svg, "f-saved")
    assert len(left) == 3 and len(saved) == 2
    whole = float(left[0].get("width", 0))
    for kept, gone, drop in zip(left[1:], saved, drops, strict=True):
        assert float(kept.get("width", 0)) == pytest.approx(whole * drop.left_ns / (100 * MS), abs=0.1)
        assert float(gone.get("x", 0)) == pytest.approx(float(kept.get("x", 0)) + float(kept.get("width", 0)), abs=0.1)
    assert re.findall(r'data-ns="(\d+)"', svg) == [str(60 * MS), str(10 * MS)]


def test_words_of_a_waterfall_stay_inside_it() -> None:
    drops = [PlanRow("communication-on-compute", 40 * MS, 60 * MS, "473.70 ms", "−60.0 %", "medium confidence")]
    svg = waterfall(PlanRow("now", 100 * MS, 0, "1,997.50 ms", "", ""), drops, "")
    for text in ElementTree.fromstring(svg).iter(f"{_NS}text"):
        room = words_px(text.text or "", float(text.get("font-size", 0)), bold=bool(text.get("font-weight")))
        x = float(text.get("x", 0)) - (room if text.get("text-anchor") == "end" else 0)
        assert x >= 0 and x + room <= WIDE + 0.01, text.text


def test_a_text_is_cut_to_its_room() -> None:
    assert fitted("matmul", 60) == "matmul"
    cut = fitted("MMMMMMMMMM", 60)
    assert cut.endswith("…") and words_px(cut, 13) <= 60 < words_px("M" + cut, 13)
    assert fitted("matmul", 0) == "…"


def test_a_fix_that_costs_time_is_drawn_as_slower() -> None:
    svg = waterfall(PlanRow("now", 100, 0, "", "", ""), [PlanRow("a", 110, -10, "", "+10.0 %", "")], "")
    assert len(boxes(svg, "f-slower")) == 1 and not boxes(svg, "f-saved")


def test_steps_are_columns_with_compute_at_the_bottom() -> None:
    steps = [
        StepTime(at, 50 * MS, {"host.op": 30 * MS, "compute": 20 * MS}, "warm-up" if at == 0 else "") for at in range(3)
    ]
    svg = step_columns(steps, "")
    compute, host = boxes(svg, "f-compute"), boxes(svg, "f-host-op")
    assert len(compute) == len(host) == 3
    assert float(host[0].get("y", 0)) + float(host[0].get("height", 0)) == pytest.approx(
        float(compute[0].get("y", 0)), abs=0.1
    )
    assert ">0*<" in svg and ">1<" in svg and "not counted: warm-up" in svg


@pytest.mark.parametrize("count", [2, 34, 100, 150])
def test_the_name_of_the_last_step_is_inside_the_drawing(count: int) -> None:
    svg = step_columns([StepTime(900 + at, MS, {"compute": MS}) for at in range(count)], "", width=NARROW)
    names = [(float(x), name) for x, name in re.findall(r'<text[^>]* x="([^"]+)"[^>]*middle[^>]*>(\d+)<', svg)]
    assert names and all(x + words_px(name, 12) / 2 <= NARROW + 0.1 for x, name in names)


def test_many_steps_are_a_line_that_keeps_the_slowest() -> None:
    steps = [StepTime(at, 100 * MS if at == 700 else 50 * MS, {}) for at in range(10 * MOST_COLUMNS)]
    svg = step_columns(steps, "")
    assert len(svg) < 60_000
    assert ">700<" in svg
    tops = [float(point.split(",")[1]) for point in re.findall(r'<polyline[^>]*points="([^"]+)"', svg)[0].split()]
    assert min(tops) == 8.0


def test_names_of_slow_steps_do_not_run_into_each_other() -> None:
    slow = {2, 5, 8, 11, 1_000}
    steps = [StepTime(at, 100 * MS if at in slow else 50 * MS, {}) for at in range(10 * MOST_COLUMNS)]
    svg = step_columns(steps, "")
    assert [at for at in sorted(slow) if f">{at}<" in svg] == [2, 1_000]


def test_heat_map_has_a_pixel_a_cell_and_the_slowest_is_darkest() -> None:
    times: list[list[float | None]] = [[1.0, 1.0], [1.0, 2.0], [None, 1.5]]
    svg = heat_map([0, 1, 7], [4, 5], times, [1.0, 1.5, 1.5], "", slowest=7)
    picture = b64decode(re.findall(r"base64,([^\"]+)", svg)[0])
    assert struct.unpack(">II", picture[16:24]) == (2, 3)
    size = struct.unpack(">I", picture[33:37])[0]
    pixels = zlib.decompress(picture[41 : 41 + size])
    rows = [[pixels[y * 7 + 1 + x * 3 : y * 7 + 4 + x * 3] for x in range(2)] for y in range(3)]
    assert rows[1][1] == bytes.fromhex("1f4f86") and rows[0][0] == rows[0][1] == bytes.fromhex("eaf1f9")
    assert rows[2][0] == bytes((200, 204, 210))
    assert "rank 7" in svg


def test_ranks_of_a_single_step_are_bars() -> None:
    svg = rank_bars([0, 1], [1_000_000.0, 2_000_000.0], "", slowest=1)
    (short,), (long,) = boxes(svg, "f-compute"), boxes(svg, "f-slower")
    assert float(long.get("width", 0)) == pytest.approx(2 * float(short.get("width", 0)), abs=0.1)
    assert "rank 0" in svg and "2.00 ms" in svg and "<image" not in svg


@pytest.mark.check
def test_a_thousand_ranks_are_a_small_picture() -> None:
    times: list[list[float | None]] = [[float((rank * step) % 97) for step in range(100)] for rank in range(1024)]
    means = [1.0] * 1024
    assert len(heat_map(list(range(1024)), list(range(100)), times, means, "")) < 400_000


def test_memory_curve_keeps_peak_and_labels_apart() -> None:
    points = [MemoryPoint(at, 100, 4_300 * 2**20 if at == 5 else 2**30, 4_400 * 2**20) for at in range(10)]
    svg = memory_curve(points, 10, 80 * 2**30, "peak 4.2 GiB")
    assert "peak in use 4.2 GiB" in svg and "reserved 4.3 GiB" in svg
    assert "all of the device" not in svg  # far above: it would flatten the curve
    near = memory_curve(points, 10, 5 * 2**30, "")
    assert "all of the device 5.0 GiB" in near
    labels = [text for text in ElementTree.fromstring(near).iter(f"{_NS}text") if float(text.get("font-size", 0)) == 12]
    named = [
        (float(t.get("x", 0)), len("".join(t.itertext())) * 6.5, float(t.get("y", 0)))
        for t in labels
        if t.get("text-anchor") == "start"
    ]
    for (x1, width, y1), (x2, _, y2) in itertools.combinations(sorted(named), 2):
        assert x1 + width <= x2 or abs(y1 - y2) >= 11


@given(st.floats(1e-3, 1e15))
def test_a_scale_is_a_few_round_values_below_the_most(most: float) -> None:
    values = round_scale(most)
    assert values[0] == 0 and 2 <= len(values) <= 5
    assert values[-1] <= most * 1.01
    assert values[-1] >= most / 3


def test_chart_that_stands_alone_is_whole_and_can_be_saved(tmp_path: Path) -> None:
    svg = ledger_bar(PARTS, alone=True)
    assert svg._repr_svg_() == svg and 'id="hatch-host"' in svg
    assert ElementTree.fromstring(svg.save(tmp_path / "x.svg").read_text(encoding="utf-8")).get("width") == str(WIDE)


def _point(name: str, flops_per_byte: float, tflops: float, roof: str, share: float = 0.1) -> RooflinePoint:
    return RooflinePoint(name, flops_per_byte, tflops, share, roof, f"{name}: {tflops} TFLOP/s")


def test_an_operator_at_its_roof_lies_on_the_line_of_the_roof() -> None:
    # 1,000 GB/s: 10 operations for each byte reach 10 TFLOP/s at most, and 100 TFLOP/s need 100.
    points = [_point("aten::mm", 1000, 100, "compute", 0.8), _point("aten::bmm", 10, 10, "memory", 0.2)]
    tree = ElementTree.fromstring(roofline(points, [Roof("FP16", 100)], 1000, "says"))
    (circle,) = tree.iter(f"{_NS}circle")
    square = next(box for box in tree.iter(f"{_NS}rect"))
    lines = {item.get("class"): item for item in tree.iter(f"{_NS}line")}
    compute, memory = lines["l-bad"], lines["l-text"]
    assert float(circle.get("cy", 0)) == pytest.approx(float(compute.get("y1", 0)), abs=0.1)
    middle = [
        float(square.get(key, 0)) + float(square.get(side, 0)) / 2 for key, side in (("x", "width"), ("y", "height"))
    ]
    x1, y1, x2, y2 = (float(memory.get(key, 0)) for key in ("x1", "y1", "x2", "y2"))
    assert middle[1] == pytest.approx(y1 + (middle[0] - x1) / (x2 - x1) * (y2 - y1), abs=0.2)
    assert (x2, y2) == pytest.approx((float(compute.get("x1", 0)), float(compute.get("y1", 0))), abs=0.1)
    area = float(circle.get("r", 0)) ** 2 * 3.14159
    assert area > float(square.get("width", 0)) * float(square.get("height", 0))


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e5), st.floats(1e-4, 5e3), st.sampled_from(["compute", "memory"])),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([NARROW, WIDE]),
)
def test_every_operator_lies_inside_the_roofline_and_names_never_meet(
    items: list[tuple[float, float, str]], width: int
) -> None:
    points = [_point(f"aten::op{at}", *item) for at, item in enumerate(items)]
    tree = ElementTree.fromstring(roofline(points, [Roof("FP16", 989), Roof("FP32", 67)], 3350, "says", width=width))
    for mark in tree.iter(f"{_NS}circle"):
        assert 0 <= float(mark.get("cx", 0)) <= width and 0 <= float(mark.get("cy", 0)) <= 340
    names = [
        (float(w.get("x", 0)), float(w.get("y", 0))) for w in tree.iter(f"{_NS}text") if "aten::" in (w.text or "")
    ]
    for (x1, y1), (x2, y2) in itertools.combinations(names, 2):
        assert abs(y1 - y2) >= 12 or abs(x1 - x2) >= len("aten::op0") * 6


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_difference_goes_from_the_base_to_the_new_time(width: int) -> None:
    base, new = (DifferenceRow(side, side, ns * MS, "", "", "x") for side, ns in (("base", 100), ("new", 70)))
    changes = [
        DifferenceRow("host.dataloader", "<loader>", -40 * MS, "45 ms", "5 ms", "−40 ms"),
        DifferenceRow("", "2 smaller ones", 10 * MS, "1 ms", "11 ms", "+10 ms"),
    ]
    svg = difference_waterfall(base, changes, new, "says", width=width)
    (whole, rest), (saved,), (slower,) = (boxes(svg, name) for name in ("f-left", "f-saved", "f-slower"))

    def ends(box: ElementTree.Element) -> tuple[float, float]:
        return float(box.get("x", 0)), float(box.get("x", 0)) + float(box.get("width", 0))

    assert ends(saved)[1] == pytest.approx(ends(whole)[1], abs=0.02)
    assert ends(slower)[0] == pytest.approx(ends(saved)[0], abs=0.02)
    assert ends(slower)[1] == pytest.approx(ends(rest)[1], abs=0.02)
    assert (ends(rest)[1] - ends(rest)[0]) / (ends(whole)[1] - ends(whole)[0]) == pytest.approx(0.7, abs=1e-3)
    assert svg.count("url(#hatch-host)") == 1  # a bucket of the host, and none where several are put together
    assert "&lt;loader&gt;" in svg
    assert re.findall(r'data-delta-ns="(-?\d+)"', svg) == [str(-40 * MS), str(10 * MS)]


def test_each_step_of_a_capture_is_a_dot_and_their_mean_a_line_between_them() -> None:
    captures = [
        CaptureSteps("base: a", True, (100 * MS, 110 * MS), 105 * MS),
        CaptureSteps("new: b", False, (80 * MS,), 80 * MS),
    ]
    root = ElementTree.fromstring(capture_dots(captures, "says"))
    first, second, other = (float(dot.get("cx", 0)) for dot in root.iter(f"{_NS}circle"))
    means = [float(mark.get("x1", 0)) for mark in root.iter(f"{_NS}line") if mark.get("class") == "l-text"]
    assert means == pytest.approx([(first + second) / 2, other], abs=0.1)
    assert other < first < second
    words = [text.text for text in root.iter(f"{_NS}text")]
    assert [word for word in words if word and word.endswith(" ms")] == ["80 ms", "90 ms", "100 ms", "110 ms"]


def test_captures_with_long_names_that_begin_alike_stay_apart_on_a_phone() -> None:
    labels = [f"base: worker0.{at}" for at in (1623143089861, 1623143566756)]
    captures = [CaptureSteps(label, True, (100 * MS,), 100 * MS) for label in labels]
    root = ElementTree.fromstring(capture_dots(captures, "says", width=NARROW))
    words = [text.text or "" for text in root.iter(f"{_NS}text")]
    assert len({word for word in words if word.startswith("base")}) == 2


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_key_of_a_heat_map_has_room(width: int) -> None:
    drawn = heat_map([0, 1], [1, 2], [[1e6, 2e6], [2e6, 3e6]], [1.5e6, 2.5e6], "says", width=width)
    assert "darker is slower" in drawn and "…" not in drawn


def test_an_operator_above_its_roof_says_so_without_a_share() -> None:
    from traceanalyzer.report.html.sections.roofline import _point, _roof_words

    row = {"operator": "aten::conv", "tflops": 26.4, "flops_per_byte": 40.0, "dur_ns": 5, "roof": "fp32"}
    above = {**row, "floor_share": 1.681, "headroom_ns": -4, "status": "suspect"}
    assert _point(above, 10).tooltip == "aten::conv: 26.4 TFLOP/s, over the roof, 5 ns"
    assert _roof_words(above) == {"note": "over the roof", "floor_share": None, "headroom_ns": None}
    assert _roof_words({**above, "status": "cache"})["note"] == "in cache"
    below = {**row, "floor_share": 0.5, "headroom_ns": 4, "status": "suspect"}
    assert _point(below, 10).tooltip == "aten::conv: 26.4 TFLOP/s, 50.0 % of the roof, 5 ns"
    assert _roof_words(below) == {"note": "some over the roof"}
    assert _roof_words({**below, "status": "plausible"}) == {"note": None}
