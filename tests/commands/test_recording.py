"""What `traceanalyzer record` prints can be pasted, and what it records is what every rule can look at."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import duckdb
import pytest
from click.testing import CliRunner
from report_diagnoses import sick
from tiers import needed

import traceanalyzer as ta
from traceanalyzer.cli import cli
from traceanalyzer.commands.record import PROFILERS, recipe
from traceanalyzer.diagnosis import Outcome
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.metrics import metrics
from traceanalyzer.report.diagnosis_blocks.trust import profiler_of, record_words

FOLDERS = ("runs/run42", "with a space", "it's; rm -rf $HOME", 'say "hello"\\')
# What a GPU alone can give, or several ranks.
ON_A_GPU = {"gpu_ops", "api_calls", "sync_edges"}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("profiler", PROFILERS)
def test_every_recipe_can_be_pasted_whatever_the_folder_is_called(profiler: str, folder: str) -> None:
    text = recipe(profiler, folder)
    assert "@FOLDER@" not in text
    if profiler in ("torch", "jax", "tensorflow", "torch_xla"):
        compile(text, profiler, "exec")
    else:
        checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("profiler", ["nsys", "ncu", "dynolog", "rocprof"])
def test_a_shell_makes_the_very_folder_that_was_named(profiler: str, tmp_path: Path) -> None:
    making = next(line for line in recipe(profiler, "it's; $HOME").splitlines() if line.startswith("mkdir"))
    subprocess.run(["bash", "-c", making], cwd=tmp_path, check=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["it's; $HOME"]


@pytest.mark.parametrize("profiler", ["jax", "tensorflow", "torch_xla"])
def test_a_recipe_of_xla_keeps_processes_apart_and_marks_steps(profiler: str) -> None:
    text = recipe(profiler)
    assert 'f"rank{' in text
    assert "step_num=step" in text


@pytest.mark.parametrize(
    ("profiler", "modules"), [("tensorflow", ""), ("torch_xla", ".debug .debug.profiler .runtime")]
)
def test_a_recipe_of_xla_records_the_ten_steps_that_it_promises(
    profiler: str, modules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = MagicMock()  # neither is installed where tests run
    for name in ("", *modules.split()):
        module = reduce(getattr, name.split(".")[1:], framework)
        monkeypatch.setitem(sys.modules, profiler + name, module)
    given = {"data": range(99), "batches": iter(range(99)), "train_step": MagicMock()}
    exec(compile(recipe(profiler, str(tmp_path)), profiler, "exec"), given)
    called = [name.rpartition(".")[2] for name, *_ in framework.mock_calls if "__" not in name]
    recorded = called[called.index("start_trace" if "start_trace" in called else "start") :]
    recorded = recorded[: recorded.index("stop_trace" if "stop_trace" in recorded else "stop")]
    assert recorded.count("StepTrace" if profiler == "torch_xla" else "Trace") == 10


def test_the_command_prints_the_recipe_and_nothing_else() -> None:
    answer = CliRunner().invoke(cli, ["record", "nsys", "--into", "a b"])
    assert (answer.exit_code, answer.stdout) == (0, recipe("nsys", "a b"))


def test_the_recipe_for_torch_asks_for_all_that_rules_ask_for() -> None:
    with duckdb.connect() as con:
        hints = con.execute(
            f"SELECT hint FROM ({metrics()['recording_hints'].sql}) WHERE recorder = 'kineto'"
        ).fetchall()
    asked = {word for (hint,) in hints for word in re.findall(r"\w+=True", hint)}
    assert asked == {"record_shapes=True", "with_stack=True", "profile_memory=True", "enable_cuda_sync_events=True"}
    assert {word for word in asked if word not in recipe("torch")} == set()


def test_the_last_line_names_the_recipe_of_what_recorded_the_trace() -> None:
    lacking = Outcome("memory-growth", "Memory grows", "abstained", reason="missing-capability:mem_events")
    model = Outcome("hw", "Peaks", "abstained", reason="missing-capability:hw_peaks")
    (trace, *_) = sick().traces
    own = [("kineto", "torch"), *((name, name) for name in ("nsys", "jax", "tensorflow", "torch_xla", "rocprof"))]
    for recorder, words in own:
        diagnosis = replace(sick(), traces=(replace(trace, recorder=recorder),), outcomes=(lacking,))
        assert record_words(diagnosis) == f" To record what is missing: traceanalyzer record {words}"
        # No recording makes a device known whose peaks are in no list.
        assert record_words(replace(diagnosis, outcomes=(model,))) == ""
    assert profiler_of([replace(trace, recorder="chrome")]) is None


def capabilities(folder: Path, store: Path) -> set[str]:
    with ta.open(folder, store=store) as run:
        return {name for (name,) in run.sql("SELECT DISTINCT capability FROM capabilities WHERE available").fetchall()}


def trained(torch: Any) -> Callable[[Any], object]:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters())

    def train_step(batch: Any) -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return train_step


@pytest.mark.check
def test_the_recipe_and_the_recommended_profile_record_the_same_on_a_real_profiler(tmp_path: Path) -> None:
    torch = needed("torch")
    from traceanalyzer.torch import recommended_profile

    loader = [torch.randn(4, 8) for _ in range(17)]
    exec(recipe("torch", str(tmp_path / "pasted")), {"loader": loader, "train_step": trained(torch)})
    train_step = trained(torch)
    with recommended_profile(tmp_path / "recommended") as profiler:
        for batch in loader:
            train_step(batch)
            profiler.step()
    pasted, recommended = (
        capabilities(tmp_path / name, tmp_path / f"store-{name}") for name in ("pasted", "recommended")
    )
    assert pasted == recommended
    assert {"cpu_ops", "shapes", "python_stack", "mem_events", "failed_allocations", "all_ranks"} <= recommended
    assert not recommended & ON_A_GPU
    with ta.open(tmp_path / "recommended", store=tmp_path / "store-recommended") as run:
        assert run.sql("SELECT DISTINCT rank FROM traces").fetchall() == [(0,)]
        steps = run.sql("SELECT count(*) FROM host_slices WHERE name LIKE 'ProfilerStep#%'").fetchall()
        assert steps == [(10,)]


WORKER = """
import os, sys
import torch, torch.distributed as dist
from traceanalyzer.torch import recommended_profile
dist.init_process_group("gloo")
total = torch.ones(4)
with recommended_profile(sys.argv[1], wait=1, warmup=1, active=3) as profiler:
    for _ in range(5):
        dist.all_reduce(total)
        profiler.step()
dist.destroy_process_group()
assert not any(name.split(".")[0] in ("duckdb", "pyarrow", "click") for name in sys.modules)
"""


@pytest.mark.check
def test_two_processes_with_gloo_make_one_run_with_two_ranks(tmp_path: Path) -> None:
    needed("torch")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, str(tmp_path / "run42")]
    workers = [subprocess.Popen(command, env={**os.environ, **job, "RANK": str(rank)}) for rank in range(2)]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    assert sorted(file.name for file in (tmp_path / "run42").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    with ta.open(tmp_path / "run42", store=tmp_path / "store") as run:
        ranks = [(trace.trace, trace.rank, trace.rank_source) for trace in run.traces]
        worlds = run.sql("SELECT DISTINCT world_size FROM canonical.traces").fetchall()
        reduced = run.sql(
            "SELECT count(*) FROM host_slices WHERE name = 'gloo:all_reduce' GROUP BY trace_id"
        ).fetchall()
    assert ranks == [("rank0.json.gz", 0, "metadata"), ("rank1.json.gz", 1, "metadata")]
    assert worlds == [(2,)]
    assert reduced == [(3,), (3,)]


@pytest.mark.check
def test_each_cycle_of_a_schedule_is_a_run_of_its_own(tmp_path: Path) -> None:
    torch = needed("torch")
    from traceanalyzer.torch import recommended_profile

    train_step = trained(torch)
    with recommended_profile(tmp_path / "run42", wait=1, warmup=1, active=2, repeat=2, rank=3) as profiler:
        for _ in range(8):
            train_step(torch.randn(4, 8))
            profiler.step()
    files = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file())
    assert files == ["run42-cycle2/rank3.json.gz", "run42/rank3.json.gz"]


@pytest.mark.check
def test_a_trace_that_cannot_be_written_is_a_warning_and_the_job_goes_on(tmp_path: Path) -> None:
    torch = needed("torch")
    from traceanalyzer.torch import recommended_profile

    folder, train_step = tmp_path / "run42", trained(torch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with recommended_profile(folder, wait=0, warmup=1, active=1) as profiler:
            folder.rmdir()
            folder.write_text("in the way")
            for _ in range(3):
                train_step(torch.randn(4, 8))
                profiler.step()
    ours = [str(warning.message) for warning in caught if "traceanalyzer" in str(warning.message)]
    assert len(ours) == 1 and str(folder) in ours[0] and "File exists" in ours[0]
    assert folder.read_text() == "in the way"


@pytest.mark.check
def test_a_folder_that_cannot_be_made_is_said_before_the_job_runs(tmp_path: Path) -> None:
    needed("torch")
    from traceanalyzer.torch import trace_handler

    (tmp_path / "file").write_text("")
    with pytest.raises(TraceAnalyzerError, match="cannot be written"):
        trace_handler(tmp_path / "file" / "run42")


SMALL_DISK = """
import resource, sys
import torch
from traceanalyzer.torch import recommended_profile
with recommended_profile(sys.argv[1], wait=0, warmup=1, active=1, rank=0) as profiler:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    for _ in range(3):
        torch.ones(4).sum()
        profiler.step()
print("the job went on")
"""


@pytest.mark.check
def test_a_trace_without_its_end_is_not_put_in_place(tmp_path: Path) -> None:
    needed("torch")
    command = [sys.executable, "-c", SMALL_DISK, str(tmp_path / "run42")]
    job = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (job.returncode, job.stdout) == (0, "the job went on\n")
    assert f"RuntimeWarning: traceanalyzer: no trace was written into {tmp_path / 'run42'}: PyTorch wrote" in job.stderr
    assert list((tmp_path / "run42").iterdir()) == []


@pytest.mark.check
def test_the_rank_is_what_the_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("torch")
    from traceanalyzer.torch import rank_of_process

    for variable in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(variable, raising=False)
    assert rank_of_process() == 0
    monkeypatch.setenv("SLURM_PROCID", "5")
    assert rank_of_process() == 5
    monkeypatch.setenv("RANK", "not a number")
    assert rank_of_process() == 5
    monkeypatch.setenv("RANK", "7")
    assert rank_of_process() == 7
