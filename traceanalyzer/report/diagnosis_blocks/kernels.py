"""What the GPU computes: the classes of its kernels, and those that take most time."""

from __future__ import annotations

from traceanalyzer.diagnosis import DeviceLedger
from traceanalyzer.report.blocks import Block, Paragraph, Table, Text
from traceanalyzer.text.words import duration, name_words, percent

MOST_CLASSES = 4
LEAST_CLASS_SHARE = 0.01
MOSTLY_SHARE = 0.5
MOST_KERNELS = 3
MOST_KERNELS_VERBOSE = 5
# With many findings each line counts, and these say less.
MOST_KERNELS_BESIDE_FINDINGS = 2
MANY_FINDINGS = 4
CLASS_WORDS = {"graph": "graphs recorded whole"}


def kernel_blocks(ledger: DeviceLedger, *, most: int, place: str = "") -> tuple[Block, ...]:
    """Return the largest classes as one line, and a table of the top kernels; nothing where no kernel computes."""
    if not ledger.top_kernels:
        return ()
    label = Text("What the GPU computes", "strong")
    classes = classes_words(ledger)
    other = next((item.share for item in ledger.kernel_classes if item.name == "other"), 0.0)
    if MOSTLY_SHARE <= other < 1:
        # The kernels themselves say more than such a class.
        classes, most = f"mostly kernels of no known class ({percent(other)} of kernel time)", max(most, MOST_KERNELS)
    words = f"{f'{place}: ' if place else ''}{classes}"
    rows = tuple(
        (name_words(kernel.name), percent(kernel.share), f"{kernel.call_count:,}", duration(kernel.mean_ns))
        for kernel in ledger.top_kernels[:most]
    )
    share = "of the step" if ledger.step_count else "of the time"
    return (
        Paragraph(words, label=label),
        Table(("top kernels", share, "calls", "mean"), rows, right=frozenset({1, 2, 3})),
    )


def classes_words(ledger: DeviceLedger) -> str:
    """Say what the largest classes of kernels are and how much of the kernel time they take."""
    largest = [item for item in ledger.kernel_classes[:MOST_CLASSES] if item.share >= LEAST_CLASS_SHARE]
    if [item.name for item in largest] == ["other"]:
        return "kernels of no known class, such as a program's own"
    classes = ", ".join(
        f"{CLASS_WORDS.get(item.name, item.name)} {item.share:.0%}".replace("%", " %") for item in largest
    )
    return f"{classes} of kernel time" if classes else ""


def kernels_shown(finding_count: int, *, verbose: bool) -> int:
    """Return how many top kernels a report with this many findings shows of a device."""
    if verbose:
        return MOST_KERNELS_VERBOSE
    return MOST_KERNELS if finding_count < MANY_FINDINGS else MOST_KERNELS_BESIDE_FINDINGS
