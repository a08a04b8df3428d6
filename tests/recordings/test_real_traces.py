"""Real traces that are damaged as recordings really are: the properties of `test_properties`, where they fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import rewritten_trace as rewritten
from test_properties import Found, diagnosis_of, fired, same

pytestmark = pytest.mark.check


def shares(found: Found) -> list[dict[str, float]]:
    """Return the shares of the buckets of each ledger."""
    return [{part["bucket"]: part["share"] for part in ledger["buckets"]} for ledger in found["ledgers"]]


@pytest.mark.parametrize(
    "name", ["kineto/h100_vit", "kineto/h100_bert_small", "kineto/mi300_normalization", "more/h100_small_transformer"]
)
def test_frames_left_open_move_nothing(name: str, corpus: Path, tmp_path: Path) -> None:
    document = rewritten.read(corpus / f"{name}.json.gz")
    opened = rewritten.with_frames_open(document)
    assert opened != document
    found, expected = diagnosis_of(opened, tmp_path / "open"), diagnosis_of(document, tmp_path / "as_it_is")
    assert fired(found) == fired(expected)
    for here, there in zip(shares(found), shares(expected), strict=True):
        assert here == pytest.approx(there, abs=0.002)  # when an open frame ended before its caller, nobody knows


def test_a_recorded_case_of_open_frames_is_diagnosed_as_its_control(corpus: Path, tmp_path: Path) -> None:
    cases = corpus.parent / "recordings" / "cases"
    if not cases.is_dir():
        pytest.skip("no recorded cases beside the corpus")
    opened, control = (
        rewritten.read(cases / name / "input" / "rank0.json.gz")
        for name in ("13r_h100_vit_open_frames", "13s_h100_vit_control")
    )
    same(diagnosis_of(opened, tmp_path / "open"), diagnosis_of(control, tmp_path / "control"))
