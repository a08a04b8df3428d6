"""Captures the worked example of docs/comparison.md: a slow loader and its fixed twin, four captures of each.

Each capture is a process of its own, as two captures of one program differ by more than the steps of one capture.
Run it inside this folder: python capture_torch_pairs.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CAPTURES = 4
SKIPPED_STEPS, RECORDED_STEPS = 24, 6
DECODE_S = 0.002
WORKERS = {"slow": 0, "fixed": 8}


def main() -> None:
    """Capture both programs in turns, so that a busy machine slows both."""
    if len(sys.argv) == 4:
        from capture_torch_cpu import capture

        steps = {"skipped": SKIPPED_STEPS, "recorded": RECORDED_STEPS}
        capture(Path(sys.argv[1]), int(sys.argv[2]), **steps, detailed=False, decode_s=DECODE_S)
        return
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("torch_cpu_pairs")
    for number in range(1, CAPTURES + 1):
        for name, workers in WORKERS.items():
            path = target / f"{name}_{number}" / "trace.json.gz"
            subprocess.run([sys.executable, __file__, str(path), str(workers), "one"], check=True)


if __name__ == "__main__":
    main()
