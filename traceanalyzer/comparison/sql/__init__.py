"""The queries that a summary is made from: one file each, named after what its rows are."""

from functools import cache
from pathlib import Path

NAMES = ("device_steps", "facts", "host_buckets", "host_steps", "kernels", "operators")


@cache
def read_query(name: str) -> str:
    """Return the text of one of NAMES."""
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
