"""The recipe of `record jax`, run as it is printed on the CPU, records what a diagnosis asks for."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from xla_profiles import diagnose

from traceanalyzer.commands.record import recipe
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.discovery import discover

pytestmark = pytest.mark.check
_PROGRAM = """
import time
import jax
import jax.numpy as jnp

advance = jax.jit(lambda state, batch: state + (batch @ batch).sum())

def train_step(state, batch):
    return advance(state, batch)

def loaded():
    while True:
        time.sleep(0.02)
        yield jnp.ones((64, 64))

batches, state = loaded(), jnp.zeros(())
"""


def python_with_jax() -> str:
    """Return this Python, or the one that TRACEANALYZER_JAX_PYTHON names; skip where neither has jax."""
    other = os.environ.get("TRACEANALYZER_JAX_PYTHON")
    if other:
        return other
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed: pip install 'gpu-traceanalyzer[check]'")
    return sys.executable


def recorded(folder: Path) -> Path:
    program = folder / "program.py"
    program.write_text(_PROGRAM + recipe("jax", str(folder / "runs")), encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python_with_jax(), str(program)],
        env=environment | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "runs"


def test_the_recipe_records_ten_steps_whose_wait_for_data_is_named(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    (source,) = discover(run).sources
    assert source[0].name.endswith(".xplane.pb")
    assert source[0].parent.name.startswith("rank0_")
    diagnosis = diagnose(run, tmp_path)
    (trace,) = diagnosis.traces
    assert (trace.recorder, trace.framework, trace.rank) == ("jax", "jax", 0)
    (ledger,) = diagnosis.host_ledgers
    assert ledger.step_count == 9
    assert "cpu-loader-bound" in {finding.rule for finding in diagnosis.findings}
    assert "waits for its data loader" in judge(diagnosis).sentence
