"""URLs of runs: what they mean, which are refused, and that no secret is ever printed or kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from object_servers import ACCESS_KEY, ENVIRONMENT, SECRET_KEY, Fault, proxy_of, s3_server
from tiers import needed

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location, parse_url, reason_of, run_input
from traceanalyzer.remote.obstore_client import s3_configuration

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("text", "scheme", "host", "key", "is_folder", "shown"),
    [
        ("s3://bucket/run42/", "s3", "bucket", "run42", True, "s3://bucket/run42/"),
        ("s3://bucket/run42", "s3", "bucket", "run42", False, "s3://bucket/run42"),
        ("S3A://bucket", "s3", "bucket", "", True, "s3://bucket/"),
        ("s3://bucket/a%20b#c.json", "s3", "bucket", "a%20b#c.json", False, "s3://bucket/a%20b#c.json"),
        ("gcs://bucket/a/b", "gs", "bucket", "a/b", False, "gs://bucket/a/b"),
        ("az://box/a", "az", "box", "a", False, "az://box/a"),
        ("abfss://box@me.dfs.core.windows.net/a", "abfss", "box@me.dfs.core.windows.net", "a", False, None),
        ("https://server:8443/a%20b/", "https", "server:8443", "a b", True, "https://server:8443/a%20b/"),
        ("http://[::1]:80/a", "http", "[::1]:80", "a", False, "http://[::1]:80/a"),
        ("hdfs:///user/run", "hdfs", "", "user/run", False, "hdfs:///user/run"),
    ],
)
def test_a_url_is_a_place(text: str, scheme: str, host: str, key: str, is_folder: bool, shown: str | None) -> None:
    place = parse_url(text)
    assert (place.scheme, place.host, place.key, place.is_folder) == (scheme, host, key, is_folder)
    assert str(place) == (shown or text)


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@server/run42/",
        f"https://me:a/{SECRET}@server/run42/",
        f"https://{SECRET}@server/run42/",
        f"https://me:{SECRET}?x@server/run42/",
        f"s3://AKIAEXAMPLE:{SECRET}@bucket/run42/",
        f"abfss://box:{SECRET}@me.dfs.core.windows.net/run42",
        f"https://server/a.json?X-Amz-Signature={SECRET}",
        f"https://server/a.json?sv=2024&sig={SECRET}",
        f"https://server/a.json#token={SECRET}",
        f"s3://bucket/a.json?token={SECRET}",
        f"sftp://me:{SECRET}@server/run42",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", url]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "is not read" in said.err and "(redacted)" in said.err
    assert len(said.err.splitlines()) == 2


@pytest.mark.parametrize(
    "url", ["s3:///run42", "foo://bucket/run42", "s3://bucket/../run42", "https://server/a/%2e%2e/b"]
)
def test_a_url_that_means_no_place_is_one_sentence(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", url]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_path_is_no_url_and_a_url_in_a_path_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_input("run42") == Path("run42")
    assert run_input("file:///tmp/run%2042") == Path("/tmp/run 42")
    assert run_input(Path("s3://bucket/run42")) == Location("s3", "bucket", "run42", False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    assert run_input(Path("s3://bucket")) == Path("s3:/bucket")


def test_a_store_on_a_web_server_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, root: Path) -> None:
    run = root / "sample_traces" / "slow_loader"
    assert main(["ingest", str(run), "--store", "https://server/store"]) == 2
    assert capsys.readouterr().err.startswith("error: https://server/store: no store can lie behind https://")
    assert not Path("s3:").exists()
    assert main(["ingest", str(run), "--store", f"s3://me:{SECRET}@bucket/store"]) == 2
    assert SECRET not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [
        ("s3://b/r", "obstore", "s3"),
        ("gs://b/r", "obstore", "gcs"),
        ("az://b/r", "obstore", "azure"),
        ("https://s/r", "obstore", "http"),
        ("hdfs://n/r", "fsspec.core", "hdfs"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_line_to_run(
    url: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["diagnose", url]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {url}: reading {url.partition(':')[0]}:// needs {library.partition('.')[0]}, which is not installed",
        f"hint: pip install 'gpu-traceanalyzer[{extra}]'",
    ]


PLACE = Location("s3", "bucket", "run42", False)
CONFIG = """
[default]
region = eu-north-1
[profile team]
region = eu-west-1
endpoint_url = https://minio.local
[profile sso]
sso_session = work
"""
SHARED = f"""
[default]
aws_access_key_id = ID0
aws_secret_access_key = {SECRET}
[team]
aws_access_key_id = ID1
aws_secret_access_key = {SECRET}1
aws_session_token = TOKEN%1
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"region": "eu-north-1", "access_key_id": "ID0", "secret_access_key": SECRET}),
        (
            {"AWS_PROFILE": "team"},
            {
                "endpoint": "https://minio.local",
                "region": "eu-west-1",
                "access_key_id": "ID1",
                "secret_access_key": f"{SECRET}1",
                "session_token": "TOKEN%1",
            },
        ),
        ({"AWS_ACCESS_KEY_ID": "ID2"}, {"region": "eu-north-1"}),
        ({"AWS_ACCESS_KEY_ID": "ID2", "AWS_REGION": "us-east-2"}, {"region": "us-east-2"}),
        ({"AWS_PROFILE": "sso", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, {}),
    ],
)
def test_credentials_come_from_the_files_of_the_provider(
    more: Mapping[str, str], expected: Mapping[str, str], tmp_path: Path
) -> None:
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "credentials").write_text(SHARED)
    assert s3_configuration({**files, **more}, PLACE) == expected


def test_a_profile_without_keys_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    with pytest.raises(TraceAnalyzerError, match="the AWS profile 'sso' has no keys") as caught:
        s3_configuration({**files, "AWS_PROFILE": "sso"}, PLACE)
    assert "aws configure export-credentials --profile sso" in (caught.value.hint or "")
    with pytest.raises(TraceAnalyzerError, match="no AWS credentials are set"):
        s3_configuration({**files, "AWS_EC2_METADATA_DISABLED": "true"}, PLACE)


def test_reasons_hold_neither_addresses_nor_queries() -> None:
    signed = (
        f"Error performing GET https://a.blob.core.windows.net/b/c?sv=1&sig={SECRET} in 3ms - error sending request"
    )
    assert reason_of(ValueError(signed)) == "error sending request"
    assert SECRET not in reason_of(ValueError(f"broken: https://server/a?sig={SECRET} and more"))
    status = "Error performing GET http://s/b in 1ms - status code: 404 Not Found: <Code>NoSuchBucket</Code>"
    assert reason_of(ValueError(status)) == "404 Not Found (NoSuchBucket)"


@pytest.mark.check
def test_no_secret_is_printed_or_kept(root: Path, tmp_path: Path) -> None:
    homes = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    said = b""
    with s3_server() as server, proxy_of(server) as proxy:
        client = needed("boto3").client(
            "s3", endpoint_url=server, region_name="x", aws_access_key_id="a", aws_secret_access_key="b"
        )
        client.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "x"})
        trace = root / "sample_traces" / "slow_loader" / "rank0.json.gz"
        client.upload_file(str(trace), "bucket", "run42/rank0.json.gz")
        environment = {**os.environ, **ENVIRONMENT, **homes, "AWS_ENDPOINT_URL": proxy.url}
        for fault, verbose in ((None, True), (Fault(status=500), False), (Fault(status=403), False)):
            proxy.faults = lambda request, number, fault=fault: fault  # type: ignore[misc]
            command = [sys.executable, "-m", "traceanalyzer", "diagnose", "s3://bucket/run42/", *["-v"][:verbose]]
            answer = subprocess.run(command, env=environment, capture_output=True)
            assert answer.returncode == (2 if fault else 0), answer.stderr
            said += answer.stdout + answer.stderr
        assert any("AWS4-HMAC" in request.headers.get("authorization", "") for request in proxy.requests)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"s3://bucket/run42" in said and b"run42" in kept
    for secret in (SECRET_KEY, ACCESS_KEY, ENVIRONMENT["AWS_SESSION_TOKEN"]):
        assert secret.encode() not in said + kept
