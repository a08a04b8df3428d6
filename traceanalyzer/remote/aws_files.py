"""What the files of the AWS tools say; the environment and roles of machines obstore reads by itself."""

from __future__ import annotations

from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location

# Where one of these is set, obstore finds credentials by itself.
_BY_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_NO_KEYS = '`eval "$(aws configure export-credentials --profile {} --format env)"` puts its credentials there'


def s3_configuration(environment: Mapping[str, str], location: Location) -> dict[str, str]:
    """Return the region, the address and the keys of the user's profile, as far as the environment has none.

    Raises TraceAnalyzerError for a profile without keys, where nothing else can give some.
    """
    name = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    config = _read(environment.get("AWS_CONFIG_FILE"), "config")
    profile = dict(config[section]) if (section := _section(name)) in config else {}
    found: dict[str, str] = {}
    endpoint = (
        environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or profile.get("endpoint_url")
    )
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or profile.get("region")
    found |= {"endpoint": endpoint} if endpoint else {}
    found |= {"region": region} if region else {}
    is_named = "AWS_PROFILE" in environment or "AWS_DEFAULT_PROFILE" in environment
    if any(environment.get(variable) for variable in _BY_ENVIRONMENT):
        return found
    shared = _read(environment.get("AWS_SHARED_CREDENTIALS_FILE"), "credentials")
    keys = {**profile, **(dict(shared[name]) if name in shared else {})}
    found |= {ours: keys[theirs] for theirs, ours in _KEYS.items() if keys.get(theirs)}
    if "access_key_id" in found:
        return found
    if is_named or environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        what = f"the AWS profile {name!r} has no keys" if is_named else "no AWS credentials are set"
        raise TraceAnalyzerError(what, str(location), _NO_KEYS.format(name))
    return found


def _section(name: str) -> str:
    return name if name == "default" else f"profile {name}"


def _read(named: str | None, usual: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    file = Path(named) if named else Path.home() / ".aws" / usual
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except (OSError, Error, ValueError):
        return ConfigParser(interpolation=None)
    return parser
