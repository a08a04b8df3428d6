"""Rewrites the table of docs/attribution.md: the ledger of every real trace of the corpus, and what stays unresolved.

    python docs/corpus_ledgers.py [CORPUS]

CORPUS is the folder of real traces (TRACEANALYZER_CORPUS, or ../shared/corpus).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.run import open_run

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "attribution.md"
# Where more of the time without compute than this has no reason, the table says why.
MOST_UNRESOLVED_SHARE = 0.05
MOST_BUCKETS = 4
_PART = re.compile(r"(?P<begin><!-- begin corpus ledgers -->\n).*?(?P<end><!-- end -->)", re.DOTALL)

# Looked at one by one; by beginning of the trace's name.
EXPLANATIONS = {
    "kineto/two_ranks_2023": (
        "thinned after it was recorded: 1.4 % of the operators' ids and 0.5 % of the numbers of CUDA calls are left, "
        "so that kernels which follow each other in the file did not on the device; the longest waits (56 to 64 ms) "
        "are of All2All_Pooled_ReqBackward for the all-to-all of All2All_Pooled_WaitBackward, whose kernel is not in "
        "the file"
    ),
}

_LEDGER = """
SELECT trace, device, bucket, sum(dur_ns)::BIGINT AS dur_ns
FROM time_ledger
WHERE step IS NULL
GROUP BY trace, device, bucket
ORDER BY trace, device, dur_ns DESC, bucket
"""


@dataclass(frozen=True)
class SpanLedger:
    """The buckets of one device over the span of its GPU work."""

    trace: str
    device: int
    buckets: dict[str, int]  # largest first

    @property
    def absent_ns(self) -> int:
        """Return the time without compute."""
        return sum(dur_ns for bucket, dur_ns in self.buckets.items() if bucket != "compute")

    @property
    def unresolved_share(self) -> float:
        """Return the share of the time without compute that has no reason."""
        return self.buckets.get("dev.unresolved", 0) / self.absent_ns if self.absent_ns else 0.0

    @property
    def explanation(self) -> str | None:
        """Return why that is; None: nobody looked."""
        return next((text for name, text in EXPLANATIONS.items() if self.trace.startswith(name)), None)


def ledgers(corpus: Path, store_of: Callable[[Path], Path]) -> list[SpanLedger]:
    """Return the ledger of every device of every trace of the corpus, whose folders have these stores."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for folder in ("kineto", "nsys"):
        with open_run(corpus / folder, store=store_of(corpus / folder)) as run:
            for trace, device, bucket, dur_ns in run.sql(_LEDGER).fetchall():
                found.setdefault((f"{folder}/{trace}", device), {})[bucket] = dur_ns
    return [SpanLedger(trace, device, buckets) for (trace, device), buckets in found.items()]


def table(found: list[SpanLedger]) -> str:
    """Return the table, and below it why the larger unresolved shares are what they are."""
    lines = [
        "| trace | device | span | computes | of the rest | unresolved of the rest |",
        "| --- | ---: | ---: | ---: | --- | ---: |",
    ]
    notes: dict[str, int] = {}
    for ledger in found:
        span_ns = sum(ledger.buckets.values())
        rest = [(bucket, dur_ns) for bucket, dur_ns in ledger.buckets.items() if bucket != "compute" and dur_ns]
        words = ", ".join(
            f"{bucket} {100 * dur_ns / ledger.absent_ns:.1f} %"
            for bucket, dur_ns in rest[:MOST_BUCKETS]
            if dur_ns >= 0.0005 * ledger.absent_ns
        )
        mark = ""
        if ledger.unresolved_share >= MOST_UNRESOLVED_SHARE:
            text = ledger.explanation or "not explained yet"
            mark = f" [{notes.setdefault(text, len(notes) + 1)}]"
        name = re.sub(r"(\.pt\.trace)?\.(json|sqlite)(\.gz)?", "", ledger.trace)
        lines.append(
            f"| {name} | {ledger.device} | {span_ns / 1e6:,.2f} ms "
            f"| {100 * ledger.buckets.get('compute', 0) / span_ns if span_ns else 0:.1f} % | {words} "
            f"| {100 * ledger.unresolved_share:.1f} %{mark} |"
        )
    return "\n".join([*lines, "", *(f"{number}. {text[:1].upper()}{text[1:]}." for text, number in notes.items()), ""])


def main() -> int:
    """Rewrite the table."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TRACEANALYZER_CORPUS")
    corpus = Path(folder) if folder else ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        print(f"error: no corpus at {corpus}; set TRACEANALYZER_CORPUS", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as stores:
        new = table(ledgers(corpus, lambda folder: Path(stores) / folder.name))
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(_PART.sub(lambda part: part["begin"] + new + part["end"], text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
