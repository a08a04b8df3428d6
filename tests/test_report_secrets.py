"""Secrets in metadata are masked; what only sounds like one is not."""

from __future__ import annotations

import json

import pytest

from traceanalyzer.report.secrets import MASK, redacted


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "HF_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "WANDB_API_KEY",
        "PGPASSWORD",
        "task_secret",
        "GITHUB_PAT",
        "Authorization",
        "privateKey",
        "session_id",
    ],
)
def test_value_under_a_secret_name_is_masked(name: str) -> None:
    assert redacted(name, "swordfish") == MASK
    assert redacted("environment", json.dumps({"deep": [{name: "swordfish"}]})) == json.dumps({"deep": [{name: MASK}]})
    assert "swordfish" not in str(redacted("command", f"run --x 1 {name}=swordfish --y 2"))


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "num_tokens", "MAX_TOKENS", "author", "PATH", "passes", "keys", "pattern"]
)
def test_value_under_an_innocent_name_is_shown(name: str) -> None:
    assert redacted(name, '"value"') == '"value"'


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "a1B2" * 8,
        "AKIA" + "ABCD1234" * 2,
        "ghp_" + "a1B2" * 9,
        "sk-" + "a1B2" * 8,
        "xoxb-1234567890-abcdef",
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_value_that_looks_like_a_secret_is_masked_whatever_its_name(secret: str) -> None:
    assert secret not in str(redacted("note", json.dumps({"text": f"before {secret} after"})))


def test_password_in_a_url_is_masked() -> None:
    assert redacted("url", '"https://me:swordfish@host/path"') == f'"https://{MASK}@host/path"'


@pytest.mark.parametrize("text", ["--api-key swordfish", "Authorization: Bearer swordfish", "token = 'swordfish'"])
def test_secret_in_a_command_line_is_masked(text: str) -> None:
    assert "swordfish" not in str(redacted("command", json.dumps(text)))


def test_assignment_as_an_object_is_masked() -> None:
    value = json.dumps([{"name": "HF_TOKEN", "value": "swordfish"}, {"name": "RANK", "value": "3"}])
    assert redacted("env", value) == json.dumps([{"name": "HF_TOKEN", "value": MASK}, {"name": "RANK", "value": "3"}])


def test_ordinary_metadata_is_unchanged() -> None:
    value = json.dumps({"backend": "nccl", "rank": 3, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]})
    assert redacted("distributedInfo", value) == value
    assert redacted("absent", None) is None
