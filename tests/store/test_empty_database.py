"""The database that connections begin as: kept in the user's cache, made again where it is damaged, done without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from traceanalyzer.query import engine
from traceanalyzer.query.empty import connect_empty

LISTED = "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY ALL"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's cache, empty and of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "traceanalyzer"


def kept(cache: Path) -> list[Path]:
    return sorted(cache.glob("empty-*.duckdb"))


@pytest.mark.check
def test_it_is_made_once_and_has_all_that_a_connection_defines(cache: Path) -> None:
    with connect_empty() as connection:
        first = connection.execute(LISTED).fetchall()
    (database,) = kept(cache)
    written_ns = database.stat().st_mtime_ns
    with connect_empty() as connection:
        assert connection.execute(LISTED).fetchall() == first
        assert connection.execute("SELECT count(*) FROM time_ledger").fetchall() == [(0,)]
    assert {name for schema, name, _ in first if schema == "main"} >= engine.metrics().keys()
    assert [path.stat().st_mtime_ns for path in kept(cache)] == [written_ns]
    assert [path.name for path in cache.iterdir()] == [database.name]


@pytest.mark.check
def test_a_damaged_one_is_done_without_and_made_again(cache: Path) -> None:
    connect_empty().close()
    (database,) = kept(cache)
    database.write_bytes(b"no database")
    for _ in range(2):
        with connect_empty() as connection:
            assert connection.execute("SELECT count(*) FROM time_ledger").fetchall() == [(0,)]
    assert database.stat().st_size > 100_000


@pytest.mark.check
@pytest.mark.parametrize("spoil", ["link", "others may write", "read-only"])
def test_what_others_could_have_put_there_is_not_used(cache: Path, tmp_path: Path, spoil: str) -> None:
    connect_empty().close()
    (database,) = kept(cache)
    if spoil == "link":
        elsewhere = database.rename(tmp_path / "elsewhere.duckdb")
        database.symlink_to(elsewhere)
    elif spoil == "others may write":
        cache.chmod(0o777)
    else:
        database.unlink()
        cache.chmod(0o500)
    program = f"from traceanalyzer.query.empty import connect_empty; print(connect_empty().sql({LISTED!r}).shape[0])"
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=False)
    cache.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > len(engine.metrics())
    assert spoil != "link" or not database.is_symlink()


@pytest.mark.check
def test_one_that_no_version_has_used_for_long_is_removed(cache: Path) -> None:
    cache.mkdir()
    old, new = cache / "empty-0123456789abcdef.duckdb", cache / "empty-0123456789abcdee.duckdb"
    for file in (old, new):
        file.touch()
    os.utime(old, (0, 0))
    connect_empty().close()
    assert not old.exists()
    assert new.exists()
