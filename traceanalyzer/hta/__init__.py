"""The critical path by the definition of Holistic Trace Analysis (HTA), and the time that it leaves out."""

from __future__ import annotations

from traceanalyzer.hta.path import KINDS, CriticalPath, PathPart, critical_path

__all__ = ["KINDS", "CriticalPath", "PathPart", "critical_path"]
