"""What a user says of hardware reaches peaks and reports, is said in both, and is refused where it is ambiguous."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from text_tables import connect

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import open_run
from traceanalyzer.settings.hardware import DevicePeaks, Hardware, with_device
from traceanalyzer.settings.settings import NO_SETTINGS, Settings, read_settings

PEAKS = "SELECT name, name_source, half_tflops, source FROM device_peaks"
H100 = "NVIDIA H100 80GB HBM3"
ONE_KERNEL = "op_id  kind    start_ns  dur_ns\n100    kernel  0         50"


def write_trace(file: Path, device: dict[str, object]) -> None:
    """Write a run of one kernel on a device with these properties."""
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 20, "dur": 5}
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 40}
    events = [
        call | {"args": {"correlation": 1}},
        kernel | {"args": {"device": 0, "stream": 7, "correlation": 1}},
    ]
    file.parent.mkdir(parents=True)
    properties = [{"id": 0, **device}] if device else []
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}))


@pytest.fixture(scope="module")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose trace does not name its device."""
    run = tmp_path_factory.mktemp("project") / "runs" / "nameless"
    write_trace(run / "rank0.json", {})
    return run


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose trace names a model that nobody knows."""
    run = tmp_path_factory.mktemp("project") / "runs" / "named"
    write_trace(run / "rank0.json", {"name": "Acme X1", "numSms": 10})
    return run


def peaks_of(run: Path, device: str | None) -> list[tuple[object, ...]]:
    with open_run(run, device=device) as opened:
        return opened.sql(PEAKS).fetchall()


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "sm_count", "fp32_tflops", "has_tensor_cores"),
    [
        ("NVIDIA GeForce RTX 4080 SUPER", 80, 52.2, True),
        ("NVIDIA GeForce RTX 4080 SUPER", None, 52.2, True),
        ("NVIDIA GeForce RTX 4080", 76, 48.7, True),
        ("NVIDIA GeForce RTX 4080 Laptop GPU", 58, 33.9, True),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 30, 13.1, True),
        ("NVIDIA GeForce RTX 3050 Ti Laptop GPU", 20, 8.7, True),
        ("NVIDIA GeForce RTX 5080 Laptop GPU", 60, None, None),
        ("NVIDIA GeForce GTX 1660 Ti", 24, 5.4, False),
        ("NVIDIA GeForce GTX 1080 Ti", 28, 11.3, False),
        ("NVIDIA A800-SXM4-80GB", 108, 19.5, True),
        ("NVIDIA H800 PCIe", 114, 51, True),
        ("NVIDIA H200", 132, 67, True),
        ("NVIDIA H20", 78, 44, True),
        ("NVIDIA GB200", 152, 80, True),
        ("Orin", 8, 2.4, True),
        ("Orin (nvgpu)", 16, 5.3, True),
        ("NVIDIA L40", 142, 90.5, True),
        ("NVIDIA L40S", 142, 91.6, True),
        ("AMD Instinct MI355X", 256, 157.3, True),
    ],
)
def test_a_model_is_told_from_those_with_similar_names(
    name: str, sm_count: int | None, fp32_tflops: float | None, has_tensor_cores: bool | None
) -> None:
    con = connect(gpu_ops=ONE_KERNEL, devices=[{"name": name, "sm_count": sm_count}])
    ((fp32, half),) = con.execute("SELECT fp32_tflops, half_tflops FROM device_peaks").fetchall()
    assert fp32 == fp32_tflops
    assert (half is not None) is bool(has_tensor_cores)


@pytest.mark.check
def test_a_device_without_a_name_has_the_peaks_of_the_model_that_the_user_names(nameless: Path) -> None:
    assert peaks_of(nameless, None) == [(None, None, None, None)]
    ((name, name_source, half_tflops, source),) = peaks_of(nameless, f"{H100}:132")
    assert (name, name_source, half_tflops) == (H100, "user", 989)
    assert str(source).startswith("https://")


@pytest.mark.check
def test_a_device_with_a_name_keeps_it(named: Path) -> None:
    assert peaks_of(named, f"{H100}:132") == [("Acme X1", "trace", None, None)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("device", "what", "hint"),
    [
        (H100, "fits models with different peaks", "add the number of SMs: 114, 132"),
        (f"{H100}:7", "with 7 SMs is known", "known with: 114, 132"),
        ("Acme X1", "no peaks are known for 'Acme X1'", "hardware_peaks"),
        (":132", "is not NAME or NAME:SMS", "for example"),
        ("H100:many", "is not NAME or NAME:SMS", "for example"),
        ("", "is not NAME or NAME:SMS", "for example"),
    ],
)
def test_a_name_that_is_not_one_model_is_an_error(
    device: str, what: str, hint: str, nameless: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(nameless), "--device", device]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: --device: ")
    assert what in err
    assert hint in err


@pytest.mark.check
def test_a_report_says_which_device_was_taken_and_who_said_so(
    nameless: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(nameless), "--device", "NVIDIA A100-SXM4-80GB", "--format", "json"]) in (0, 3)
    document = json.loads(capsys.readouterr().out)
    assert document["overrides"] == [
        {
            "kind": "device",
            "rule": None,
            "what": "devices that the traces do not name are taken for NVIDIA A100-SXM4-80GB",
            "reason": None,
            "until": None,
            "origin": "--device",
        }
    ]
    assert document["ledgers"][0]["peaks_known"]
    assert main(["diagnose", str(nameless), "--device", "NVIDIA A100-SXM4-80GB"]) in (0, 3)
    assert "Changed by --device" in capsys.readouterr().out


OWN = """
[devices.peaks."Acme X\\\\d"]
half_tflops = 123.5
memory_gb_per_s = 900
source = "measured: PERF-60"
"""


@pytest.mark.check
def test_peaks_in_the_settings_reach_every_command(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = named.parent.parent / "traceanalyzer.toml"
    file.write_text(OWN)
    try:
        assert peaks_of(named, None) == [("Acme X1", "trace", 123.5, "measured: PERF-60")]
        assert main(["metrics", "export", str(named), str(tmp_path), "device_peaks", "--format", "csv", "-q"]) == 0
        assert "123.5" in (tmp_path / "device_peaks.csv").read_text()
        assert main(["diagnose", str(named), "--format", "json"]) in (0, 3)
        document = json.loads(capsys.readouterr().out)
        assert [(item["kind"], item["origin"]) for item in document["overrides"]] == [("peaks", str(file))]
        assert main(["diagnose", str(named), "--format", "json", "--no-settings"]) in (0, 3)
        assert json.loads(capsys.readouterr().out)["overrides"] == []
        with open_run(named, with_settings=False) as run:  # what the page and exports read, too
            assert run.connection.sql(PEAKS).fetchall()[0][2:] == (None, None)
    finally:
        file.unlink()


@pytest.mark.check
def test_hardware_leaves_stored_tables_as_they_are(nameless: Path) -> None:
    with open_run(nameless) as without, open_run(nameless, device="A100") as with_device_:
        assert with_device_.derived == without.derived
        assert with_device_.reused


@pytest.mark.check
def test_own_peaks_win_over_built_in_ones(nameless: Path) -> None:
    own = Hardware(name="NVIDIA A100", peaks=(DevicePeaks("A100", (("half_tflops", 1.5), ("source", "us"))),))
    with open_run(nameless) as run:
        connection = run._connect(Settings(hardware=own))
        assert connection.sql(PEAKS).fetchall() == [("NVIDIA A100", "user", 1.5, "us")]
        connection.close()


DETAILS = "SELECT cache_bytes, link_gb_per_s, int8_tops FROM device_details"


@pytest.mark.check
def test_a_named_device_has_links_and_caches_of_its_model(nameless: Path) -> None:
    with open_run(nameless) as run:
        assert run.sql(DETAILS).fetchall() == [(None, None, None)]
    with open_run(nameless, device=f"{H100}:132") as run:
        assert run.sql(DETAILS).fetchall() == [(50 * 2**20, 450, 1979)]


def test_own_links_win_and_leave_the_other_details_as_they_are(nameless: Path) -> None:
    values = (("half_tflops", 900), ("link_gb_per_s", 225), ("source", "half of the links"))
    own = Hardware(name=H100, sm_count=132, peaks=(DevicePeaks("H100", values),))
    with open_run(nameless) as run:
        connection = run._connect(Settings(hardware=own))
        assert connection.sql(DETAILS).fetchall() == [(50 * 2**20, 225, 1979)]
        assert connection.sql(PEAKS).fetchall() == [(H100, "user", 900, "half of the links")]
        connection.close()


def test_text_from_settings_is_text_in_sql(nameless: Path) -> None:
    source = "it's '); DROP VIEW device_peaks; --"
    own = Hardware(name="X'1", peaks=(DevicePeaks("X'1", (("source", source),)),))
    with open_run(nameless) as run:
        connection = run._connect(Settings(hardware=own))
        assert connection.sql(PEAKS).fetchall() == [("X'1", "user", None, source)]
        connection.close()


def test_the_command_line_wins_over_the_settings() -> None:
    project = Hardware(name="NVIDIA A100")
    assert with_device(project, None) == project
    assert with_device(project, f"{H100}: 132") == Hardware(H100, 132, "--device")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[devices]\nmodel = 'x'", "unknown key: devices.model"),
        ("[devices]\nname = 7", "devices.name must be the product name"),
        ("[devices]\nsm_count = 7", "devices.sm_count needs devices.name"),
        ("[devices]\nname = 'x'\nsm_count = 0", "devices.sm_count must be"),
        ("devices = 3", "devices must be a table"),
        ("[devices.peaks.X]\nhalf_tflops = 3", "devices.peaks.X needs a source"),
        ("[devices.peaks.X]\nhalf_tflops = -3\nsource = 'a'", "devices.peaks.X.half_tflops must be a number above 0"),
        ("[devices.peaks.X]\nhalf_tflops = inf\nsource = 'a'", "devices.peaks.X.half_tflops must be a number above 0"),
        ("[devices.peaks.X]\ncache_bytes = 1.5\nsource = 'a'", "devices.peaks.X.cache_bytes must be a number above 0"),
        ("[devices.peaks.X]\nhalf_flops = 3\nsource = 'a'", "did you mean 'half_tflops'?"),
        ("[devices.peaks.'(']\nsource = 'a'", "is no regular expression"),
    ],
)
def test_mistakes_in_the_settings_are_named(text: str, mistake: str, tmp_path: Path) -> None:
    file = tmp_path / "traceanalyzer.toml"
    file.write_text(text)
    with pytest.raises(TraceAnalyzerError) as caught:
        read_settings(file)
    assert mistake in str(caught.value)


def test_without_settings_there_is_no_hardware() -> None:
    assert NO_SETTINGS.hardware.queries() == {}
