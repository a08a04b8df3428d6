"""The sample traces are what their scripts make of them."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

SIMULATED = ("slow_loader", "healthy", "launch_bound")
CAPTURED = ("torch_cpu_slow_loader", "torch_cpu_fixed_loader")
PAIRS = [f"torch_cpu_pairs/{side}_{number}" for side in ("slow", "fixed") for number in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def samples(root: Path) -> Path:
    return root / "sample_traces"


@pytest.fixture(scope="module")
def script(samples: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_simulated", samples / "make_simulated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.check
@pytest.mark.parametrize("name", SIMULATED)
def test_simulating_a_sample_again_gives_the_same_trace(
    name: str, samples: Path, script: ModuleType, tmp_path: Path
) -> None:
    again = script.sample(name).write_kineto(tmp_path / "rank0.json.gz")
    # The text is compared, since the packed bytes depend on the version of zlib.
    assert gzip.decompress(again.read_bytes()) == gzip.decompress((samples / name / "rank0.json.gz").read_bytes())


def test_every_simulated_sample_is_committed(samples: Path, script: ModuleType) -> None:
    assert set(script.SCENARIOS) == set(SIMULATED)


@pytest.mark.parametrize("name", [*CAPTURED, *PAIRS])
def test_a_captured_sample_names_no_machine_and_no_home(name: str, samples: Path) -> None:
    text = gzip.decompress((samples / name / "trace.json.gz").read_bytes()).decode()
    assert json.loads(text)["host_name"] == "sample"
    assert not re.search(r'"(/home|/root|/Users|/tmp|/work|[A-Z]:)[/\\]', text)


@pytest.mark.parametrize("name", [*SIMULATED, *CAPTURED, *PAIRS])
def test_a_sample_is_small_and_described(name: str, samples: Path) -> None:
    assert sum(path.stat().st_size for path in (samples / name).iterdir()) < 300 * 1024
    assert f"| `{name.split('/')[0]}` |" in (samples / "README.md").read_text()
