"""A run in a bucket with a store of many machines beside it: the bucket is that of a real S3 server on loopback.

A machine is a cache and a key of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from object_servers import bucket_content

from traceanalyzer.pipeline import attributing, ingesting
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run

RANKS = 4
RUN = "s3://bucket/run/"
STORE = "s3://bucket/team/ta/"
Put = Callable[[Mapping[str, bytes]], None]


def diagnosed(place: str | Path = RUN) -> dict[str, Any]:
    with open_run(place, store=STORE) as opened:
        return document(opened.diagnose()) | {"run": ""}


def published(server: str) -> dict[str, bytes]:
    """Return what lies in the store, by the names in it."""
    return {key.removeprefix("team/ta/"): data for key, data in bucket_content(server).items() if key[:3] != "run"}


def attempts(server: str) -> Counter[str]:
    """Return how many attempts each folder of the store has."""
    found = re.findall(r"^((?:traces|derived|ranks/\w+)/[^/]+)/(\w+)/", "\n".join(published(server)), re.MULTILINE)
    return Counter(folder for folder, _ in set(found))


def nothing_is_read(patch: pytest.MonkeyPatch) -> None:
    """Have every trace that is read, and each rank that is attributed, be an error."""
    for module, name in ((ingesting, "ingest"), (attributing, "attribute")):
        patch.setattr(module, name, None)
