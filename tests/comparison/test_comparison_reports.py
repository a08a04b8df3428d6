"""The reports of a comparison: screens, Markdown, JSON, JUnit and SARIF."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from drawn_summaries import FINGERPRINT, capture, finding
from report_diagnoses import loader_finding, sick
from report_schemas import junit_root, sarif_results

from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.gate import GateResult, check_diff
from traceanalyzer.comparison.summary import CompareOptions
from traceanalyzer.diagnosis import Diagnosis, Evidence
from traceanalyzer.report import formats
from traceanalyzer.settings.budgets import Budget

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = '</script>|`@team`\n<img onerror=x> \x00\x1b[31m\u202e "]]>'

SLOW = [
    capture(
        (ms, ms + 1, ms - 1, ms + 0.5),
        label=f"slow {number}",
        waits_ms={"host.dataloader": 20.0, "host.op": 4.0},
        kernels={"sgemm_128x64": (160, 280.0), "softmax": (40, 12.0), "volta_old": (8, 1.0)},
        findings=[finding(title="The GPU waits for the data loader"), finding("launch-bound", 0.1)],
    )
    for number, ms in enumerate((100.0, 101.0, 99.5), 1)
]
FAST = [
    capture(
        (ms, ms + 1, ms - 1, ms + 0.5),
        label=f"fast {number}",
        waits_ms={"host.dataloader": 0.5, "host.op": 5.0},
        kernels={"sgemm_128x64": (160, 284.0), "softmax": (44, 13.2), "ampere_new": (8, 0.8)},
        findings=[finding("launch-bound", 0.12)],
        outcomes={"dataloader-bound": "clear", "launch-bound": "fired"},
    )
    for number, ms in enumerate((81.0, 81.5, 80.8), 1)
]
ONE = [replace(SLOW[0], label="one")]
WINDOW = [capture((300.0,), label="window", has_steps=False, kernels={"flash": (100, 120), "gemm": (50, 150)})]
SHORT = [capture((300.0,), label="less work", has_steps=False, kernels={"flash": (80, 96), "gemm": (40, 120)})]
BLOCKED = [capture(label="thinned", blocked="Most events were removed from the file (tq-thinned)")]
OTHER = [replace(item, fingerprint={**FINGERPRINT, "cuda_driver": "13000"}) for item in FAST]
BUDGETS = [
    Budget("step", "slower", 0.03),
    Budget("step", "max_ms", 80.0, "longer sequences: PERF-88, until 2027-01-31"),
]

SCREENS = {
    "faster": (SLOW, OTHER),
    "slower": (FAST, SLOW),
    "same": (SLOW, SLOW),
    "unsure": (SLOW[:2], [FAST[0], replace(SLOW[2], label="fast 2")]),
    "these_captures_differ": (SLOW[:1], FAST[:1]),
    "not_comparable": (SLOW[:1], BLOCKED),
    "by_work": (WINDOW, SHORT),
}


def written(diff: Diff, layout: str, gate: GateResult | None = None, **options: Any) -> str:
    stream = io.StringIO()
    formats.write_diff(diff, gate, layout, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", SCREENS)
def test_screen_reads_as_approved(name: str, golden: bool) -> None:
    diff = compare(*SCREENS[name])
    gate = check_diff(diff, BUDGETS, ["any"]) if name == "slower" else None
    text = written(diff, "terminal", gate)
    path = GOLDEN / f"diff_{name}.txt"
    if golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert all(len(line) <= 100 for line in text.splitlines())
    assert f": {name.replace('_', ' ')}." in " ".join(text.split()) or name == "by_work"


def test_rows_on_the_screen_add_up() -> None:
    text = written(compare(SLOW, FAST), "terminal", verbose=True).replace("−", "-")
    table = text[text.index("where the time goes") : text.index("Captures")]
    units = {"ms": 1.0, "µs": 0.001}
    *rows, whole = [float(size) * units[unit] for size, unit in re.findall(r"([-+][\d.]+) (ms|µs)", table)]
    assert len(rows) == 3
    assert sum(rows) == pytest.approx(whole, abs=0.02)


def hostile() -> Diff:
    kernels = {HOSTILE: (10, 100.0), "k" * 10_000: (10, 100.0), **{f"kernel_{at}": (1, 1.0) for at in range(400)}}
    more = {name: (count, ms * 2) for name, (count, ms) in kernels.items()}
    base = capture(label=HOSTILE, kernels=kernels, findings=[finding(title=HOSTILE)])
    new = capture((200.0,) * 4, label=HOSTILE, kernels=more, outcomes={"dataloader-bound": "clear"})
    return compare([base], [new])


def test_markdown_is_marked_small_and_escaped() -> None:
    text = written(hostile(), "markdown", verbose=True)
    assert text.startswith("<!-- traceanalyzer -->\n\n# ")
    assert len(text.encode()) <= 60_000
    assert "<img" not in text and "</script>" not in text and "\x1b" not in text and "\u202e" not in text
    assert not re.search(r"@\w", text)
    assert text.count("<details>") == text.count("</details>") >= 1
    for table in re.findall(r"(?:^\|[^\n]*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1


@pytest.mark.parametrize("name", SCREENS)
def test_json_is_as_its_schema_says(name: str, root: Path) -> None:
    schema = json.loads((root / "docs" / "diff.schema.json").read_text(encoding="utf-8"))
    diff = compare(*SCREENS[name])
    document = json.loads(written(diff, "json", check_diff(diff, BUDGETS, ["any"])))
    jsonschema.validate(document, schema)
    assert sum(row["delta_ns"] for row in document["ledger"]) == document["delta_ns"]


def test_captures_in_another_order_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traceanalyzer.cli import main
    from traceanalyzer.comparison.summary import text_of

    for item in (*SLOW, *FAST):
        (tmp_path / f"{item.label}.json").write_text(text_of([item]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    texts = []
    for order in ((1, 2, 3), (3, 1, 2)):
        base, new = ([f"{side} {number}.json" for number in order] for side in ("slow", "fast"))
        more = [word for name in base[1:] for word in ("--base", name)] + [w for n in new[1:] for w in ("--new", n)]
        also = ["--also", "json=d.json", "--also", "junit=d.xml", "--also", "sarif=d.sarif", "-o", "d.md"]
        assert main(["diff", base[0], new[0], *more, "--format", "markdown", *also]) == 0
        texts.append([(tmp_path / f"d.{end}").read_bytes() for end in ("md", "json", "xml", "sarif")])
    assert texts[0] == texts[1]


def test_junit_has_a_case_for_each_check() -> None:
    diff = compare(FAST, SLOW)
    root = junit_root(written(diff, "junit", check_diff(diff, BUDGETS, ["any"])))
    failed = {case.attrib["name"]: case for case in root.iter("testcase") if case.find("failure") is not None}
    assert failed.keys() == {"step time", "new findings", "step.slower", "step.max_ms"}
    failure = failed["step time"].find("failure")
    assert failure is not None and failure.attrib["type"] == "slower"
    assert "waiting for the data loader" in (failure.text or "")
    (step,) = root.iter("property")
    assert float(step.attrib["value"]) == pytest.approx(diff.new_ns / 1e9)
    # A step is no test: what servers add up is none of its time.
    assert {element.attrib["time"] for element in root.iter() if "time" in element.attrib} == {"0"}


@pytest.mark.parametrize(("unsure", "tag"), [(None, "skipped"), ("fail", "failure"), ("pass", None)])
def test_junit_shows_unsure_as_the_gate_takes_it(unsure: str | None, tag: str | None) -> None:
    diff = compare(SLOW[:1], FAST[:1])
    root = junit_root(written(diff, "junit", check_diff(diff, (), ["slower"]), unsure=unsure))
    (case,) = root.iter("testcase")
    assert [child.tag for child in case] == ([tag] if tag else [])


def test_junit_of_a_diagnosis_fails_for_findings_and_skips_what_could_not_look() -> None:
    stream = io.StringIO()
    formats.write_diagnosis(sick(), "junit", stream)
    states = {
        case.attrib["name"]: [child.tag for child in case] for case in junit_root(stream.getvalue()).iter("testcase")
    }
    assert states["dataloader-bound"] == ["failure"]
    assert states["launch-bound"] == []
    assert states["comm-exposed"] == ["skipped"]


def test_names_that_xml_cannot_hold_are_replaced() -> None:
    junit_root(written(hostile(), "junit"))


def sarif_of(diagnosis: Diagnosis, source_root: Path | None = None) -> list[dict[str, Any]]:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "sarif", stream, source_root=source_root)
    return sarif_results(stream.getvalue())


def test_sarif_of_a_comparison_says_what_is_new_and_what_is_gone() -> None:
    states = {
        result["ruleId"]: result["baselineState"] for result in sarif_results(written(compare(SLOW, FAST), "sarif"))
    }
    assert states == {"dataloader-bound": "absent", "launch-bound": "unchanged"}
    states = {
        result["ruleId"]: result["baselineState"] for result in sarif_results(written(compare(FAST, SLOW), "sarif"))
    }
    assert states == {"dataloader-bound": "new", "launch-bound": "unchanged"}
    sarif_results(written(hostile(), "sarif"))


def test_sarif_names_the_line_of_code_where_its_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "dataset.py").write_text("", encoding="utf-8")
    rows = ((1.0, "/home/me/job/my data/dataset.py(27): __getitem__"), (2.0, "torch/nn/module.py(9): call"))
    found = loader_finding(evidence=(Evidence("Longest stretches", ("ms", "during"), rows),))
    (result,) = sarif_of(replace(sick(), findings=(found,)), tmp_path)
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "my%20data/dataset.py", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": 27}
    moved = loader_finding(evidence=(Evidence("", ("during",), ((rows[0][1].replace("27", "31"),),)),))
    (later,) = sarif_of(replace(sick(), findings=(replace(moved, saving_share=0.1),)), tmp_path)
    assert later["partialFingerprints"] == result["partialFingerprints"]


def test_sarif_names_the_settings_where_no_line_is_known(tmp_path: Path) -> None:
    levels = {result["ruleId"]: result["level"] for result in sarif_of(sick(), tmp_path)}
    assert levels == {"tq-warmup-in-window": "warning", "dataloader-bound": "error", "tensor-cores-unused": "warning"}
    for result in sarif_of(sick(), tmp_path):
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "traceanalyzer.toml"


def test_a_silenced_finding_is_a_suppressed_result(tmp_path: Path) -> None:
    (result,) = sarif_of(replace(sick(), findings=(), suppressed=(loader_finding(),)), tmp_path)
    assert result["suppressions"] == [{"kind": "external"}]


def test_an_accepted_difference_that_is_none_is_said() -> None:
    base, new = capture((100.0,) * 4), capture((100.0,) * 4)
    text = written(compare([base], [new], CompareOptions(accepted=("mode", "foo"))), "terminal")
    assert "Accepted, but no difference here: mode and foo." in text
    assert "Accepted:" not in text
