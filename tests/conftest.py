"""What every test may ask for: the corpus of real traces, and whether golden files are being rewritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def corpus_path() -> Path:
    """Return where the corpus of real traces lies, whether or not it is there."""
    return Path(os.environ.get("TRACEANALYZER_CORPUS", ROOT.parent / "shared" / "corpus"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite golden files instead of comparing with them")


def pytest_configure() -> None:
    """Give every test the screen of a plain pipe, whatever terminal (or xdist, which sets COLUMNS) the tests run in."""
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TRACEANALYZER_TRACEBACK"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus of real traces; tests that ask for it skip where it is absent."""
    path = corpus_path()
    if not path.is_dir():
        pytest.skip(f"no corpus at {path}; set TRACEANALYZER_CORPUS")
    return path


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are rewritten instead of compared."""
    return bool(request.config.getoption("--golden"))
