"""Secrets in metadata are masked; what only sounds like one is not."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.text.visible import MASK, masked, redacted, visible

SHOWN = "swordfish-4711"


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
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "TOKENISER",
        "num_tokens",
        "MAX_TOKENS",
        "author",
        "PATH",
        "passes",
        "keys",
        "pattern",
        "compat",
        "access_keyboard",
    ],
)
def test_value_under_an_innocent_name_is_shown(name: str) -> None:
    assert redacted(name, '"value"') == '"value"'


def test_password_in_a_url_is_masked() -> None:
    assert redacted("url", '"https://me:swordfish@host/path"') == f'"https://{MASK}@host/path"'


@pytest.mark.parametrize("text", ["--api-key swordfish", "Authorization: Bearer swordfish", "token = 'swordfish'"])
def test_secret_in_a_command_line_is_masked(text: str) -> None:
    assert "swordfish" not in str(redacted("command", json.dumps(text)))


def test_assignment_as_an_object_is_masked() -> None:
    value = json.dumps([{"name": "HF_TOKEN", "value": "swordfish"}, {"name": "RANK", "value": "3"}])
    assert redacted("env", value) == json.dumps([{"name": "HF_TOKEN", "value": MASK}, {"name": "RANK", "value": "3"}])


@pytest.mark.parametrize(
    "value",
    [
        {"HF_TOKEN": {"deep": ["swordfish"]}},
        {"variable": "HF_TOKEN", "value": "swordfish"},
        {"Name": "HF_TOKEN", "Value": "swordfish"},
        {"environment": [["HF_TOKEN", "swordfish"]]},
        {"HF_TOKEN=swordfish": 1},
        ["train.py", "--password", 12345],
        ["--password", ["swordfish"]],
    ],
)
def test_what_belongs_to_a_secret_name_is_masked(value: object) -> None:
    shown = redacted("environment", json.dumps(value))
    assert shown is not None and MASK in shown
    assert "swordfish" not in shown and "12345" not in shown


@pytest.mark.parametrize("value", ["A1B2C3", "a1b2c3", "'a1\nb2c3'"])
def test_what_looks_random_behind_a_variable_is_masked(value: str) -> None:
    assert masked(f"HF_TOKEN {value} x") == f"HF_TOKEN {MASK} x"


@pytest.mark.parametrize("secret", ["12345678", "123456"])
def test_a_password_is_masked_however_plain(secret: str) -> None:
    assert secret not in masked(f"DB_PASSWORD={secret} password: {secret} --passwd {secret}")
    assert masked("password: none") == "password: none"


@pytest.mark.parametrize(
    "text",
    [
        "user=me pass=swordfish",
        "username=me pass=swordfish",
        "User: me, pass: swordfish",
        "login me, pass=swordfish",
        "-u me pass=swordfish",
    ],
)
def test_a_password_of_letters_is_masked_behind_a_user(text: str) -> None:
    assert "swordfish" not in masked(text)


def test_a_password_behind_a_user_is_masked_among_arguments() -> None:
    value = json.dumps(["curl", "-u", f"me:{SHOWN}", "--user", f"me:{SHOWN}", "h"])
    assert redacted("argv", value) == json.dumps(["curl", "-u", MASK, "--user", MASK, "h"])
    assert redacted("argv", '["docker", "--user", "1000:1000"]') == '["docker", "--user", "1000:1000"]'


def test_a_key_to_log_in_with_is_masked() -> None:
    assert masked(f"wandb login {'a1b2' * 10} && x") == f"wandb login {MASK} && x"
    assert masked("wandb login --relogin") == "wandb login --relogin"


def test_a_password_behind_p_is_masked_among_arguments() -> None:
    value = json.dumps(["/usr/bin/mysql", "-uroot", f"-p{SHOWN}", "jobs"])
    assert redacted("argv", value) == json.dumps(["/usr/bin/mysql", "-uroot", f"-p{MASK}", "jobs"])
    assert redacted("argv", '["ssh", "-p22", "host"]') == '["ssh", "-p22", "host"]'


LONGEST_S = 20  # 60,000 characters take a part of a second, and those that a pattern visits for each other minutes


@pytest.mark.check
@pytest.mark.parametrize(
    "part",
    [
        *(
            "a",
            "1",
            "_",
            "-",
            "a.",
            "-eyJ",
            "eyJaaaaaaaa-",
            "a ",
            'a="',
            "a='\"",
            "--a ",
            "token",
            "_token",
            '"token":',
        ),
        *(
            "://",
            "://a:",
            "https://x",
            "token=",
            "/hooks/",
            "private_",
            "A_",
            "-a",
            "Bearer 1",
            " -u a:",
            "\\",
            "mysql ",
            "mysql -",
            "A_ ",
            "user pass=a ",
        ),
    ],
)
def test_masking_takes_time_as_its_text_is_long(part: str) -> None:
    text = (part * 60_000)[:60_000]
    started_s = time.process_time()
    masked(text + "_")
    redacted(text, json.dumps(text + " x"))
    assert time.process_time() - started_s < LONGEST_S


def test_ordinary_metadata_is_unchanged() -> None:
    value = json.dumps({"backend": "nccl", "rank": 3, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]})
    assert redacted("distributedInfo", value) == value
    assert redacted("absent", None) is None


@pytest.mark.parametrize(
    "text",
    [
        "MY_PASS={}",
        "DB_PASSWORD={}",
        "AWS_KEY={}",
        "WANDB_KEY={}",
        "wandb_key={}",
        "MY_SERVICE_KEY={}",
        "HF_TOKEN={}",
        "access_token={}",
        "client_secret: {}",
        "Authorization: Bearer {}",
        "MY_WEBHOOK={}",
        "python train.py -p {}",
        "python train.py --wandb_key {} --lr 1",
        "python train.py --wandb-key={}",
        "python train.py --password '{}'",
        "export OPENAI_KEY={}; run",
        'load(token="{}")',
        "https://hooks.slack.com/services/T0/B0/{}",
        "https://discord.com/api/webhooks/12/{}",
        "https://x.webhook.office.com/webhookb2/{}",
        "https://example.org/hooks/{}",
        "https://example.org/a?token={}&b=1",
        "https://example.org/a?b=1&sig={}",
        "https://bucket/x?X-Amz-Signature={}",
        "https://bucket/x?X-Amz-Credential={}&y=1",
        "https://bucket/x?X-Amz-Security-Token={}&y=1",
        "https://bucket/x?X-Goog-Signature={}&y=1",
        "https://me:{}@example.org/",
        "https://{}-and-more@example.org/repository.git",
        "postgres://me:{}@db/jobs",
        "redis://:{}@host:6379",
        "https://api.telegram.org/bot42:{}/sendMessage",
        "https://example.org/a?Signature={}&b=1",
        "curl -u me:{} https://example.org",
        "curl --user me:{} https://example.org",
        "docker run -e HF_TOKEN={} image",
        "python train.py -v --password {}",
        "python train.py +a=b=c --x y token={}",
        "SLURM_JWT={}",
        "AZURE_STORAGE_CONNECTION_STRING={}",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==;x",
        "Authorization: Token {}",
        "Authorization: Basic {}",
        "sent Bearer {} to a server",
        "logger.wandb.key={}",
        "os.environ['HF_TOKEN'] = '{}'",
        'environ["HF_TOKEN"]="{}"',
        '{{"token": "{}"}}',
        '{{\\"token\\": \\"{}\\"}}',
        'HF_TOKEN="{}',
        "HF_TOKEN {}",
        "env AWS_SECRET_ACCESS_KEY {} train.py",
        "upload --key {} file",
        "upload --key={}",
        "mysql -p{}",
        "mysqldump -u root --host=db -p{} jobs",
        "sshpass -p{} ssh host",
        "host=db pass={}",
        "pass: {}",
        "db_pass={}",
        "db-pass={}",
        "db.pass={}",
        "Db_Pass={}",
        "PASS={}",
        "MY2_PASS={}",
        "curl --user=me:{} https://example.org",
        "curl -u 'me:{}' https://example.org",
        'curl --user "me:{}" https://example.org',
        "curl --user='me:{}' https://example.org",
        "python train.py --logger.api_key {}",
        "spark.hadoop.fs.s3a.secret.key={}",
        "https://example.org/webhook/{}",
        "https://example.org/a?key={}",
        "https://example.org/a?b=1&code={}",
    ],
)
def test_secret_in_any_text_is_masked(text: str) -> None:
    assert SHOWN not in masked(text.format(SHOWN))
    assert MASK in masked(text.format(SHOWN))
    assert SHOWN not in visible(text.format(SHOWN))
    assert SHOWN not in str(redacted("command", json.dumps({"cmd": [text.format(SHOWN)]})))


@pytest.mark.parametrize(
    "text",
    [
        "void moe::TokenDispatcher::run<float>(int)",
        "token_embedding: forward",
        "void access_token::refresh(int)",
        "stage--key sharding1",
        "token://host/path",
        "nn.Module: TokenEmbedding_0",
        "num_token=512",
        "token: 5",
        "dispatch_key=CUDA",
        "backward_pass=first",
        "ssh -p 8080 host",
        "cache_key=abcdefgh",
        "std::pair<Key, Value>",
        "ProfilerStep#5",
        "http://localhost:8080/path",
        "run42/rank0.json: the file is empty",
        "Memcpy HtoD (Pageable -> Device)",
        "diffusers/hooks/hooks.py(268): _set_context",
        "/etc/passwd: is no trace",
        "docker run --user 1000:1000 image",
        "secret.py(12): check",
        "HF_TOKEN is not set",
        "HF_TOKEN required",
        "CUDA_DEVICE_KEY required",
        "CUDA_LAUNCH_BLOCKING 1",
        "pass: forward",
        "pass=simplifycfg",
        "backward_pass=stage12",
        "pass: 2",
        "ssh -p22 host",
        "mysql.py(12): -print",
        "mysqlx -p22 host",
        "mysql jobs; ssh -p22 host",
        "mysql jobs | nc -p22 host",
        "mysql jobs && ssh -p22 host",
        "mysql jobs\nssh -p22 host",
        "gcc -pthread -pipe",
        "sort --key 2",
        "compat=hard4711",
        "indb_key=abcdefgh",
        "--pass-through=abcdefgh",
        "--keyframe=abcdefgh",
        "backward-pass=abcdefgh",
        "cache--key=abcdefgh",
        "aws_keyring=abcdefgh",
        "models/hooks/my-own.v1/hook.py(268): call",
        "pass: 20261125",
        "users: 3 pass=first",
        "superuser pass=first",
        "loginform pass=first",
        "sublogin pass=first",
        "-unroll pass=first",
        "the Bearer authentication failed",
        "step:forward@rank0",
        "someone.with.a.long.name@example.org",
        "https://a-long-host-name.example.org/path",
        "https://example.org/v1:run@2",
        "http://localhost is up: me@example.org",
    ],
)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("option", ["--wandb_key", "--password", "-p", "--api-key", "--hf-token"])
def test_argument_after_a_secret_option_is_masked(option: str) -> None:
    value = json.dumps(["train.py", option, SHOWN, "--lr", "1"])
    assert redacted("argv", value) == json.dumps(["train.py", option, MASK, "--lr", "1"])


@given(st.text(alphabet="aA_-=:/@?& \"'pkeytokn.1{}()[]", max_size=60))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert masked(masked(text)) == masked(text)
