"""export replay: a script that runs one operator as it was recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from text_tables import connect

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.exports.replay import replay_of


def _replay(operator: str, row: int = 1, shapes: Any = None, args: Any = None) -> str:
    slices = [
        {
            "slice_id": 1,
            "category": "cpu_op",
            "name": operator,
            "start_ns": 0,
            "dur_ns": 5000,
            "input_shapes": json.dumps(shapes) if shapes is not None else None,
        }
    ]
    events = [{"event_id": 1, "args": json.dumps(args or {})}]
    ops = [{"op_id": 9, "kind": "kernel", "start_ns": 0, "dur_ns": 2000, "cpu_op_id": 1, "launch_id": None}]
    script = replay_of(
        connect("FROM gpu_ops", host_slices=slices, event_args=events, gpu_ops=ops), operator, row, "run"
    )
    compile(script, "replay.py", "exec")
    return script


def test_a_script_has_shapes_types_strides_and_the_recorded_time() -> None:
    script = _replay(
        "aten::addmm",
        shapes=[[64], [32, 16], [16, 64], [], []],
        args={
            "Input type": ["float", "c10::Half", "c10::Half", "Scalar", "Scalar"],
            "Input Strides": [[1], [16, 1], [1, 16], [], []],
            "Concrete Inputs": ["", "", "", "1", "0.5"],
        },
    )
    assert "tensor((64,), torch.float32, (1,)),\n" in script
    assert "tensor((16, 64), torch.float16, (1, 16)),\n        1,\n        0.5,\n    ]" in script
    assert "RECORDED_US = 2.000" in script
    assert "DEVICE = 'cuda'" in script


def test_types_of_pytorch_for_windows_are_those_of_linux() -> None:
    types = ["struct c10::Half", "__int64"]
    script = _replay("aten::take", shapes=[[64], [8]], args={"Input type": types, "Input Strides": [[1], [1]]})
    assert "tensor((64,), torch.float16, (1,)),\n" in script
    assert "tensor((8,), torch.int64, (1,)),\n" in script


def test_what_the_trace_does_not_hold_is_assigned_at_the_top() -> None:
    script = _replay(
        "aten::embedding",
        shapes=[[1000, 8], [4, 16], [], [], []],
        args={"Input type": ["float", "long int", "Scalar", "Scalar", "Scalar"]},
    )
    assert "\nINDICES = 1000  # the trace holds no values" in script
    assert "\nARGUMENT_2 = DEFAULT  # not recorded: the default of the operator" in script


def test_names_and_values_of_a_trace_are_no_code() -> None:
    script = _replay(
        "aten::relu", shapes=[[2]], args={"Input type": ["float"], "Concrete Inputs": ['__import__("os")']}
    )
    assert "__import__" not in script
    script = _replay("a::b", shapes=[[]], args={"Input type": [""], "Concrete Inputs": ['x"; import os #\n__title__']})
    assert ascii('x"; import os #\n__title__') in script


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("operator", "row", "shapes", "words"),
    [
        ("aten::mm", 2, [[2, 2], [2, 2]], "has 1 row of different arguments"),
        ("aten::mm", 1, None, "its input shapes were not recorded"),
        ("MmBackward0; x", 1, [[2]], "is no name of an operator"),
    ],
)
def test_what_cannot_be_replayed_is_an_error(operator: str, row: int, shapes: Any, words: str) -> None:
    with pytest.raises(TraceAnalyzerError, match=words):
        _replay(operator, row, shapes=shapes)


@pytest.mark.check
def test_a_script_says_that_its_device_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = _replay("aten::relu", shapes=[[2]], args={"Input type": ["float"]}).replace("'cuda'", "'nosuch'")
    file = tmp_path / "replay.py"
    file.write_text(script, encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("this PyTorch has no device 'nosuch' (")
    assert done.stderr.count("nosuch") <= 2 and "set DEVICE above" in done.stderr and "Traceback" not in done.stderr


RECORDED = """
import sys, torch, torch.nn.functional as F
from torch.profiler import profile, ProfilerActivity
x, w = torch.randn(32, 16), torch.randn(16, 64)
indices = torch.randint(0, 100, (4, 16))
image, kernel = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3)
q = torch.randn(2, 4, 32, 16)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
    torch.mm(x, w.t().contiguous().t())
    torch.addmm(torch.randn(64), x, w, beta=0.5)
    F.conv2d(image, kernel, stride=2, padding=1)
    F.layer_norm(x, (16,), torch.ones(16), torch.zeros(16))
    F.batch_norm(image, torch.zeros(3), torch.ones(3), training=True)
    torch.softmax(x, -1)
    F.embedding(indices, torch.randn(100, 8))
    F.scaled_dot_product_attention(q, q, q, is_causal=True)
    torch.index_select(x, 0, torch.randint(0, 32, (5,)))
    torch.gather(x, 1, torch.randint(0, 16, (32, 2)))
    x[torch.randint(0, 32, (7,))]
    torch.cat([x, x], 1)
    x.sum(1, keepdim=True)
    torch.add(x, x, alpha=2)
    x.clone()
    x.to(torch.bfloat16)
    F.cross_entropy(x, torch.randint(0, 16, (32,)))
    F.gelu(x)
    x.expand(32, 16).mul_(2)
    F.max_pool2d(image, 2)
    torch.bmm(q[0], q[0].transpose(1, 2))
    torch.where(x > 0, x, x)
    F.dropout(x, 0.5)
    torch.topk(x, 3)
    torch.masked_fill(x, x > 0, 1.0)
p.export_chrome_trace(sys.argv[1])
"""
OPERATORS = [
    *["mm", "addmm", "conv2d", "convolution", "layer_norm", "native_layer_norm", "batch_norm", "softmax"],
    *["_softmax", "embedding", "scaled_dot_product_attention", "index_select", "gather", "cat", "sum", "add"],
    *["clone", "to", "_to_copy", "copy_", "cross_entropy_loss", "nll_loss_forward", "gelu", "mul_"],
    *["max_pool2d", "bmm", "where", "gt", "dropout", "bernoulli_", "topk", "masked_fill"],
    *["transpose", "expand"],
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of real PyTorch on the CPU."""
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("replay") / "trace.json"
    subprocess.run([sys.executable, "-c", RECORDED, path], check=True, capture_output=True, timeout=300)
    return path


@pytest.mark.check
def test_scripts_of_real_operators_run(recorded: Path, tmp_path: Path) -> None:
    """All in one process: importing PyTorch takes longer than all of them."""
    scripts = []
    for operator in OPERATORS:
        script = tmp_path / f"{operator}.py"
        assert main(["export", "replay", operator, str(recorded), "-o", str(script), "-q"]) == 0
        scripts.append(str(script))
    program = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program, *scripts], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-2000:]
    assert done.stdout.count("median") == len(OPERATORS)


@pytest.mark.check
def test_a_script_says_which_argument_must_be_set(recorded: Path, tmp_path: Path) -> None:
    """PyTorch writes nothing of lists that may hold no tensor, as the indices of x[rows]."""
    script = tmp_path / "index.py"
    assert main(["export", "replay", "aten::index", str(recorded), "-o", str(script), "-q"]) == 0
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "ARGUMENT_1 must be set: indices of type List[Optional[Tensor]]" in done.stderr
    text = script.read_text().replace("ARGUMENT_1 = DEFAULT", "ARGUMENT_1 = [torch.arange(7)]")
    script.write_text(text)
    assert "median" in subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300).stdout
