"""The queries of evaluation and diagnosis: one file each, named after what its rows are."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def read_query(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def read_all_queries() -> list[str]:
    return [file.read_text(encoding="utf-8") for file in sorted(_FOLDER.glob("*.sql"))]
