"""Azurite, which Microsoft makes and which answers as Azure Blob Storage does: a server on loopback for tests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

ACCOUNT = "devstoreaccount1"
# The key of every Azurite, which its documentation prints.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-12-02"


@contextmanager
def azurite() -> Iterator[str]:
    """Start a server with an empty container called `bucket`; gives its URL. A test without Azurite is skipped."""
    installed = Path(sys.executable).parents[1] / "azurite" / "node_modules" / ".bin"
    command = shutil.which("azurite-blob", path=os.pathsep.join((str(installed), os.environ["PATH"])))
    if command is None:
        pytest.skip("azurite is not installed: npm install --prefix .venv/azurite azurite")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    options = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
    with subprocess.Popen(
        [command, *options, "--blobPort", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                try:
                    _make_container(url)
                    break
                except urllib.error.HTTPError:
                    raise
                except (urllib.error.URLError, ConnectionError, TimeoutError):
                    assert server.poll() is None, "the server ended"
                    time.sleep(0.1)
            yield url
        finally:
            server.terminate()


def _make_container(url: str) -> None:
    """Make the container, which obstore cannot: a request signed with the account's key ("Shared Key")."""
    date = formatdate(usegmt=True)
    resource = f"/{ACCOUNT}/{ACCOUNT}/bucket\nrestype:container"
    empty = "\n" * 12  # of the twelve lines after the verb each is a header that is not sent
    text = f"PUT{empty}x-ms-date:{date}\nx-ms-version:{_VERSION}\n{resource}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": _VERSION,
        "Content-Length": "0",
        "Authorization": f"SharedKey {ACCOUNT}:{signature}",
    }
    request = urllib.request.Request(f"{url}/{ACCOUNT}/bucket?restype=container", method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=5).close()
