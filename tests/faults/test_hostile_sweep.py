"""Texts that steer, forge or hold a secret, in every place of a trace and its name: no command shows them raw."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from nsys_export import STRINGS, launched, nvtx, write_sqlite

from traceanalyzer.cli import main
from traceanalyzer.ingest.ncu.report_rows import COLUMNS

SECRET = "swordfish4711swordfish"
STEERING = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202eevil\u2066\u2028\u2029\u200f\rforged"
NAME = f"{STEERING}\nerror: forged\nhint: forged <script>alert(1)</script>]]>&|`x` HF_TOKEN={SECRET} https://hooks.slack.com/services/{SECRET}"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069]")
ARGUMENTS = '"device": 0, "stream": 7, "correlation": 1'


def quoted(text: str) -> str:
    return json.dumps(text)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / f"run {STEERING.replace('/', '')}\nerror: forged"
    folder.mkdir()
    name = quoted(NAME)
    both = f'"name": {name}, "cat": {name}'
    texts = [
        f'{{"ph": "X", "cat": "cpu_op", "name": {name}, "pid": {name}, "tid": {name}, "ts": 1, "dur": 100}}',
        f'{{"ph": "X", "cat": "python_function", "name": {name}, "pid": {name}, "tid": {name}, "ts": 2, "dur": 90}}',
        f'{{"ph": "X", "cat": "kernel", "name": {name}, "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": '
        f'{{{ARGUMENTS}, "cmd": {name}}}}}',
        f'{{"ph": "X", "cat": "kernel", "name": {name}, "pid": 0, "tid": 7, "ts": 60, "dur": 5, "args": '
        f"{{{ARGUMENTS}}}}}",
        f'{{"ph": "C", {both}, "pid": 1, "ts": 5, "args": {{{name}: 5}}}}',
        f'{{"ph": "i", {both}, "pid": 1, "tid": 1, "ts": 5}}',
        f'{{"ph": {name}, {both}, "pid": 1, "ts": 5}}',
        f'{{"ph": "M", "name": "process_name", "pid": 0, "args": {{"name": {name}}}}}',
        f'{{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {{"name": {name}}}}}',
        *(
            f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": {50 * i}, '
            f'"dur": 45}}'
            for i in range(2)
        ),
        *(
            f'{{"ph": "X", "cat": "user_annotation", "name": {name}, "pid": 1, "tid": 2, "ts": {50 * i}, "dur": 45}}'
            for i in range(5)
        ),
    ]
    properties = f'[{{"id": 0, "name": {name}, "totalGlobalMem": 1, "numSms": 2}}]'
    document = (
        f'{{"schemaVersion": 1, {name}: {name}, "hostname": {name}, "argv": ["x", "--wandb_key", {quoted(SECRET)}], '
        f'"deviceProperties": {properties}, "traceEvents": [{",".join(texts)}]}}'
    )
    (folder / f"rank0 {STEERING}\nerror: forged.json").write_text(document)
    (folder / f"rank2 {STEERING}.json").write_text(f"no JSON but {NAME}")
    tables = {
        **launched(2),
        "StringIds": [*STRINGS, {"id": 99, "value": NAME}],
        "NVTX_EVENTS": [nvtx(0, 5000, NAME)],
        "PROCESSES": [{"globalPid": 1 << 48 | 10 << 24, "pid": 10, "name": f"train.py --password {SECRET} {NAME}"}],
        "META_DATA_CAPTURE": [
            {"name": f"ARGUMENT_{i}", "value": text} for i, text in enumerate(("train.py", "--wandb_key", SECRET, NAME))
        ],
        "DIAGNOSTIC_EVENT": [{"timestamp": 1, "source": 1, "severity": 3, "text": NAME, "globalPid": 0}],
    }
    write_sqlite(folder / "rank1.sqlite", tables)
    with (folder / f"counters {STEERING}.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS, restval=NAME, quoting=csv.QUOTE_ALL)
        rows.writeheader()
        rows.writerows([{"ID": "0"}, {"ID": "0", "Metric Name": ""}])
    return folder


COMMANDS = {
    "info": ["info", "RUN", "-v"],
    "info as JSON": ["info", "RUN", "--format", "json"],
    "diagnose": ["diagnose", "RUN", "-v"],
    "diagnose as Markdown": ["diagnose", "RUN", "-v", "--format", "markdown"],
    "diagnose as JSON": ["diagnose", "RUN", "--format", "json"],
    "whatif": ["whatif", "RUN", "--remove", "host.python"],
    "ingest": ["ingest", "RUN", "-v"],
    "slices": ["sql", "RUN", "SELECT name, raw_category FROM host_slices"],
    "slices as JSON": ["sql", "RUN", "FROM host_slices", "--format", "json"],
    "threads": ["sql", "RUN", "FROM threads"],
    "arguments": ["sql", "RUN", "SELECT args FROM event_args"],
    "metadata": ["sql", "RUN", "FROM metadata"],
    "launches of Nsight Compute": ["sql", "RUN", "FROM ncu_launches"],
    "values of Nsight Compute": ["sql", "RUN", "FROM ncu_metrics"],
    "rules of Nsight Compute": ["sql", "RUN", "FROM ncu_rules"],
    "no such step": ["diagnose", "RUN", "--step-pattern", "absent"],
    "a text that is no number": ["sql", "RUN", "SELECT name::INT FROM host_slices"],
    "an error of SQL": ["sql", "RUN", f'SELECT "{STEERING}" FROM gpu_ops'],
    "metrics": ["metrics", "show", "kernel_summary", "RUN"],
    "no such run": ["info", f"RUN/absent {NAME}"],
    "no such option": ["info", f"--{STEERING}"],
    "no such argument": ["info", "RUN", NAME],
    "no such rule": ["rules", "explain", NAME, "RUN"],
}


@pytest.mark.check
@pytest.mark.parametrize("command", COMMANDS)
def test_no_text_comes_out_raw(run_folder: Path, tmp_path_factory: pytest.TempPathFactory, command: str) -> None:
    arguments = [word.replace("RUN", str(run_folder)) for word in COMMANDS[command]]
    out, said = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        code = main(arguments)
    assert code in (0, 2, 3), said.getvalue()
    shown = out.getvalue() + said.getvalue()
    assert shown
    assert "internal error" not in shown
    assert RAW.search(shown) is None, repr(shown[max(0, RAW.search(shown).start() - 200) :][:400])  # type: ignore[union-attr]
    assert SECRET not in shown, shown[max(0, shown.index(SECRET) - 200) :][:400]
    assert not any(line.startswith(("error: forged", "hint: forged")) for line in shown.splitlines())


@pytest.mark.check
@pytest.mark.parametrize("kind", ["host", "device"])
def test_folded_stacks_hold_no_text_raw(run_folder: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "stacks.folded"
    assert main(["flame", str(run_folder), "--of", kind, "-o", str(target)]) == 0
    text = target.read_text()
    assert "HF_TOKEN=" in text
    assert RAW.search(text) is None
    assert SECRET not in text


def test_an_error_about_a_rule_file_shows_none_of_its_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "credentials.yaml"
    file.write_text(f"aws_secret_access_key: {SECRET}\npassword: {SECRET}\nhosts:\n  github.com: {SECRET}\n")
    assert main(["rules", "lint", str(file)]) != 0
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
