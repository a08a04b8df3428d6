"""Each pattern of secrets masks what it is there for, to its end and no further."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from traceanalyzer.text.visible import MASK, masked, redacted

SHOWN = "swordfish-4711"


# How each form begins, what follows, and how much of it at least.
MIXED, DASHED, CAPITALS, HEX = "a1B2", "a1-B2_", "A1B2", "a1b2"
FORMS = [
    *(
        (start, MIXED, 16)
        for start in ("hf_", "api_org_", "sk_" + "live_", "sk_" + "test_", "pk_" + "live_", "rk_" + "live_")
    ),
    *((start, CAPITALS, 12) for start in ("A3T", "AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ABIA", "ACCA")),
    *((start, MIXED, 20) for start in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "gsk_", "r8_")),
    *((start, DASHED, 16) for start in ("glpat-", "sk-", "dckr_pat_")),
    *((start, DASHED, 10) for start in (*(f"xox{kind}-" for kind in "abcdeoprs"), "xapp-")),
    *((start, DASHED, 20) for start in ("ya29.", "nvapi-", "SG.a1-B2_a1-B2_a1-B.")),
    ("dop_v1_", HEX, 32),
    ("dapi", HEX, 32),
    ("AIza", DASHED, 30),
    ("npm_", MIXED, 30),
    ("pypi-", DASHED, 40),
    *((start, DASHED, 20) for start in ("hvs.", "hvb.", "hvr.")),
    *((start, HEX, 32) for start in ("shpat_", "shpca_", "shppa_", "shpss_", "SK")),
    *((f"gl{kind}-", DASHED, 16) for kind in ("rt", "dt", "cbt", "ptt", "ft", "imt", "agent", "oas")),
    ("glsa_", MIXED, 20),
    *(
        (f"{start}_", DASHED, 20)
        for start in (
            *("dckr_oat", "figd", "lin_api", "lsv2_pt", "lsv2_sk", "ntn"),
            *("rubygems", "sntrys", "sntryu", "tgp_v1", "whsec"),
        )
    ),
    *((f"{start}-", MIXED, 40) for start in ("csk", "pplx", "xai")),
    *((f"{start}-", DASHED, 20) for start in ("xkeysib", "sq0csp", "sq0atp")),
    ("pul-", HEX, 40),
    *((f"dp.{kind}.", MIXED, 30) for kind in ("ct", "pt", "st")),
    *((start, DASHED, 50) for start in ("ATATT3", "ATCTT3")),
    ("ABSK", MIXED, 60),
    ("AGE-SECRET-KEY-1", CAPITALS, 40),
    ("eyJa1-B2_a1.", DASHED, 8),
]


@pytest.mark.parametrize(("start", "follows", "least"), FORMS)
def test_value_that_looks_like_a_secret_is_masked_whatever_its_name(start: str, follows: str, least: int) -> None:
    secret = start + (follows * least)[:least] + (".c2-_" if start.startswith("eyJ") else "")
    shown = redacted("note", json.dumps({"text": f"before {secret} after"}))
    assert shown == json.dumps({"text": f"before {MASK} after"})


@pytest.mark.parametrize("secret", ["a1.b~c+d/e-f_g==", "a.b~c+d/e-f_g1", "abcdefg1"])
def test_what_follows_bearer_is_masked_to_its_end(secret: str) -> None:
    assert masked(f"sent Bearer {secret} to a server") == f"sent Bearer {MASK} to a server"


@pytest.mark.parametrize("between", ["-", ".", " ", ""])
@pytest.mark.parametrize("words", ["private key 1", "access key id 1", "session id 1", "connection string 1"])
def test_a_secret_name_is_known_however_its_words_are_joined(between: str, words: str) -> None:
    name = between.join(words.split())
    assert redacted("environment", json.dumps({name: "swordfish"})) == json.dumps({name: MASK})


@pytest.mark.parametrize("end", ["-----END RSA PRIVATE KEY-----", ""])
def test_a_private_key_is_masked_to_its_end(end: str) -> None:
    shown = masked(f"before -----BEGIN RSA PRIVATE KEY-----\nswordfish\nswordfish\n{end} after")
    assert shown == (f"before {MASK} after" if end else f"before {MASK}")


SERVICES = """
    aws azure gcp google wandb hf huggingface openai anthropic cohere mistral github gitlab slack comet neptune mlflow
    clearml ngc nvidia datadog dd sentry stripe twilio sendgrid ssh gpg rsa db s3 minio redis kaggle license licence
"""
KEYS = ("access", "secret", "private", "signing", "encryption", "account", "storage", "auth")
NAMES = """
    passwd passphrase credential credentials pwd pat dsn jwt connection_string authorization cookie webhook webhook_url
    session_id apitoken appsecret dbpassword api_key api.key apikey -pass --db-pass --my_db-pass --db_pass --key
    --cluster-key --my_own-key --cluster_key
"""
PARTS = """
    token_1 secret_1 passwd_1 password_1 passphrase_1 credential_1 bearer_1 cookie_1 signature_1 auth_1 authorization_1
    pwd_1 pat_1 sas_1 dsn_1 jwt_1 webhook_1 session_id_1 connection_string_1 api_keys_1
"""


SECRET_NAMES = [
    *NAMES.split(),
    *(f"{service}_key" for service in SERVICES.split()),
    *(f"my{kind}_key{end}" for kind in KEYS for end in ("", "_id")),
]


@pytest.mark.parametrize("name", [*SECRET_NAMES, *(name.replace("_", "-") for name in SECRET_NAMES if "_" in name)])
def test_each_name_that_ends_as_a_secret_hides_its_value(name: str) -> None:
    assert masked(f"{name}={SHOWN}") == f"{name}={MASK}"


@pytest.mark.parametrize("spell", [str.lower, str.upper])
@pytest.mark.parametrize("name", [*PARTS.split(), *(f"my{kind}_keys_1" for kind in KEYS)])
def test_each_name_that_holds_a_secret_hides_its_metadata(name: str, spell: Callable[[str], str]) -> None:
    shown = redacted("environment", json.dumps({spell(name): "swordfish"}))
    assert shown == json.dumps({spell(name): MASK})


@pytest.mark.parametrize("user", ["db", "user", "root", "admin", "smtp", "mail", "ftp", "my", "mysql", "pg", "redis"])
def test_what_looks_like_a_password_is_masked_under_the_pass_of_a_user(user: str) -> None:
    assert masked(f"{user}_pass={SHOWN} {user}_pass=forward") == f"{user}_pass={MASK} {user}_pass=forward"


@pytest.mark.parametrize(
    "program", ["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump", "sshpass"]
)
def test_a_password_glued_to_p_is_masked_behind_each_program_that_takes_one(program: str) -> None:
    assert masked(f"{program} -p{SHOWN} x") == f"{program} -p{MASK} x"
    arguments = redacted("argv", json.dumps([f"/usr/bin/{program}", f"-p{SHOWN}", "x"]))
    assert arguments == json.dumps([f"/usr/bin/{program}", f"-p{MASK}", "x"])


@pytest.mark.parametrize(
    "text",
    ["redis-cli -h host -a {}", "redis-cli -a {}", "machine host login me password {}"],
    ids=lambda text: text[:12],
)
def test_a_password_behind_its_word_is_masked(text: str) -> None:
    assert masked(f"{text.format(SHOWN)} x") == f"{text.format(MASK)} x"
    assert masked(f"{text.format(MASK)} x") == f"{text.format(MASK)} x"


@pytest.mark.parametrize("end", ['"', "'", ")", " "])
@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.slack.com/{}",
        "https://x.webhook.office.com/{}",
        "https://api.telegram.org/bot{}",
        "https://example.org/hooks/{}",
        *(
            f"https://example.org/a{sign}{name}={{}}{more}"
            for name in ("sig", "Signature", "key", "code", "X-Amz-Signature", "X-Goog-Signature")
            for sign, more in (("?", ""), ("?b=1&", "&c=1"))
        ),
    ],
)
def test_a_secret_in_a_url_is_masked_and_what_follows_is_not(url: str, end: str) -> None:
    assert masked(f"({url.format(SHOWN)}{end} x") == f"({url.format(MASK)}{end} x"


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("url", ["https://me:{}@host/path", "https://{}-and-more@host/path"])
def test_a_user_in_a_url_is_masked_and_nothing_else(url: str, quote: str) -> None:
    assert masked(f"a {quote}{url.format(SHOWN)}{quote} b") == f"a {quote}https://{MASK}@host/path{quote} b"


@pytest.mark.parametrize(
    "text",
    [
        "curl -u '{}' https://host",
        'curl -u "{}" https://host',
        "curl --user={} https://host",
        "curl -u {} x:y",
        "https://api.telegram.org/bot{}/sendMessage",
    ],
)
def test_a_user_and_a_password_are_masked_and_what_follows_is_not(text: str) -> None:
    assert masked(text.format(f"42:{SHOWN}")) == text.format(MASK)


@pytest.mark.parametrize("end", [*",;&\"')]}>", " ", "\n"])
def test_a_value_without_quotes_ends_where_its_place_does(end: str) -> None:
    assert masked(f"HF_TOKEN={SHOWN}{end}x") == f"HF_TOKEN={MASK}{end}x"


@pytest.mark.parametrize("value", ["true", "False", "none", "NULL", "5", "+5", "-0.5", "0.25", "--other"])
def test_a_plain_value_is_shown(value: str) -> None:
    assert masked(f"HF_TOKEN={value} x") == f"HF_TOKEN={value} x"


@pytest.mark.parametrize("value", ["true", "False", "none", "NULL", "--other"])
def test_what_is_no_value_of_a_password_is_shown(value: str) -> None:
    assert masked(f"DB_PASSWORD={value} x") == f"DB_PASSWORD={value} x"


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("between", [", ", " "])
def test_a_list_of_arguments_inside_a_text_is_masked(quote: str, between: str) -> None:
    text = f"[{quote}--hf_token{quote}{between}{quote}@{quote}]"
    assert SHOWN not in masked(text.replace("@", SHOWN)) and MASK in masked(text.replace("@", SHOWN))


@pytest.mark.parametrize("name", ["HF2_TOKEN", "MY_S3_KEY", "A_2_PASS"])
def test_a_variable_with_digits_is_one(name: str) -> None:
    assert masked(f"env {name} {SHOWN} x") == f"env {name} {MASK} x"
