"""What every test may ask for: the corpus of real traces, and whether golden files are being rewritten."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiers  # chooses how many examples properties get before any test module is read
from simulated_tables import remembered

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS
from tracesim import rule_tests

ROOT = Path(__file__).resolve().parent.parent
STARTED_S = pytest.StashKey[float]()
NEED_CORPUS = pytest.StashKey[int]()


def corpus_path() -> Path:
    """Return where the corpus of real traces lies, whether or not it is there."""
    return Path(os.environ.get("TRACEANALYZER_CORPUS", ROOT.parent / "shared" / "corpus"))


def corpus_runs() -> Iterator[Path]:
    """Return every trace and folder of traces of the corpus; none where it is absent."""
    for folder in (corpus_path() / "kineto", corpus_path() / "nsys", corpus_path() / "more"):
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if path.suffix != ".md" and path.name[0] != ".")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite golden files instead of comparing with them")
    tier = parser.getgroup("tiers")
    tier.addoption(
        "--tier", choices=("quick", "check", "all"), default="all", help="what make test, check, nightly run"
    )
    tier.addoption("--shard", default="1/1", metavar="K/N", help="only this share of the tests")


def pytest_configure(config: pytest.Config) -> None:
    """Give every test the screen of a plain pipe, whatever terminal (or xdist, which sets COLUMNS) the tests run in."""
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TRACEANALYZER_TRACEBACK"):
        os.environ.pop(name, None)
    if hasattr(config, "cache"):
        rule_tests.simulated_tables = remembered(rule_tests.simulated_tables, config.cache.mkdir("simulated"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to each tier its tests, and with --golden all that has no golden file; begin with the longest tests.

    Where one of these came last, the other processes would have nothing left to do beside it.
    """
    begun: set[str] = set()
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        is_sampled = item.get_closest_marker("sampled") is not None
        if "corpus" in getattr(item, "fixturenames", ()) or (is_sampled and tiers.is_further(item.nodeid, begun)):
            item.add_marker("check")
    if config.getoption("--golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    tier, (shard, shards) = config.getoption("--tier"), tiers.shard(config.getoption("--shard"))
    of_commit = tiers.share_of_commit(ROOT) if tier == "check" else 0
    chosen = [
        item for item in items if _in_tier(item, tier, of_commit) and tiers.share(_counted_as(item), shards) == shard
    ]
    if not corpus_path().is_dir():
        needing = [item for item in chosen if "corpus" in getattr(item, "fixturenames", ())]
        config.stash[NEED_CORPUS] = len(needing)
        if hasattr(config, "workeroutput"):
            config.workeroutput["need_corpus"] = len(needing)
        chosen = [item for item in chosen if item not in set(needing)]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _in_tier(item: pytest.Item, tier: str, of_commit: int) -> bool:
    marked, gate = (item.get_closest_marker(name) is not None for name in ("check", "gate"))
    return tiers.selected(_counted_as(item), marked=marked, gate=gate, tier=tier, chosen=of_commit)


def _counted_as(item: pytest.Item) -> str:
    """Return by what a share has a test: all tests of a real trace come together, so that it is diagnosed once."""
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec else ():
        if isinstance(value, (str, Path)) and (trace := corpus_path() / value) in _corpus_traces():
            return "/".join(trace.parts[-2:])
    return item.nodeid


@cache
def _corpus_traces() -> frozenset[Path]:
    return frozenset(corpus_runs())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist collected; all of them collect the same."""
    node.config.stash[NEED_CORPUS] = getattr(node, "workeroutput", {}).get("need_corpus", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what each suite cost, where a tier was chosen, and in one line how many tests the corpus would add."""
    if config.getoption("--tier") != "all" or config.getoption("--shard") != "1/1":
        reports = (report for reports in terminalreporter.stats.values() for report in reports)
        done = (report for report in reports if isinstance(report, pytest.TestReport) and report.when == "teardown")
        noted = [(report.nodeid, float(str(dict(report.user_properties).get("cpu_s", 0)))) for report in done]
        for line in tiers.cost_table(noted):
            terminalreporter.line(line)
    if count := config.stash.get(NEED_CORPUS, 0):
        terminalreporter.line(
            f"{count} tests of this tier need a corpus of real traces, which is not at {corpus_path()}"
            " (TRACEANALYZER_CORPUS)"
        )


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lasts as long as the tests, and come more rarely: it took a sixth."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[STARTED_S] = _cpu_s()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note what a test cost: the user's and the system's seconds, in the tests' process and in those it waited for."""
    if call.when == "teardown" and STARTED_S in item.stash:
        item.user_properties.append(("cpu_s", round(_cpu_s() - item.stash[STARTED_S], 3)))


@pytest.fixture(scope="session", autouse=True)
def _no_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key and the cache of the user who runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(_shared(tmp_path_factory, "state")))  # a store is its key's
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


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


def _shared(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that all processes of a test run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def store_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """A function that returns the store of a trace: one for all tests, so that a real trace is read once."""
    folder = _shared(tmp_path_factory, "stores")
    return lambda path: folder / "_".join(path.absolute().parts[-3:])


@pytest.fixture(scope="session")
def diagnosis_of(
    tmp_path_factory: pytest.TempPathFactory, store_of: Callable[[Path], Path]
) -> Callable[[Path], Diagnosis]:
    """A function that returns what the rules that ship say of a trace: computed once for all tests."""
    folder = _shared(tmp_path_factory, "diagnoses")

    def diagnosed(path: Path) -> Diagnosis:
        kept = folder / store_of(path).name
        if not kept.exists():
            with open_run(path, store=store_of(path)) as run:
                diagnosis = run.diagnose(settings=NO_SETTINGS)
            partial = kept.with_name(f"{kept.name}-{os.getpid()}")
            partial.write_bytes(pickle.dumps(diagnosis))
            partial.replace(kept)
        diagnosis = pickle.loads(kept.read_bytes())
        assert isinstance(diagnosis, Diagnosis)
        return diagnosis

    return diagnosed


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are rewritten instead of compared."""
    return bool(request.config.getoption("--golden"))
