"""Run every benchmark and print its tables; `make bench` keeps them in tests/benchmarks/RESULTS.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("bench_*.py")):
    print(f"\n## {script.stem}\n", flush=True)
    subprocess.run([sys.executable, str(script)], check=True)
