"""Lets `python -m traceanalyzer` do what `traceanalyzer` does."""

from __future__ import annotations

import sys

from traceanalyzer.cli import main

sys.exit(main())
