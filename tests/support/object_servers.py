"""Servers on loopback for tests of object stores: moto's S3 in a process of its own, and a proxy that makes faults."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tiers import needed

SECRET_KEY = "planted-secret-key-0123456789"
ACCESS_KEY = "AKIAPLANTEDPLANTED00"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_SESSION_TOKEN": "planted-session-token-0123456789",
    "AWS_REGION": "us-east-1",
}
PAGE_OBJECTS = 7
_HOP = ("connection", "transfer-encoding", "keep-alive", "date", "server")


@dataclass(frozen=True)
class Request:
    """One request that came to the proxy."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def is_listing(self) -> bool:
        return self.method == "GET" and "list-type" in self.path

    @property
    def is_body(self) -> bool:
        return self.method == "GET" and not self.is_listing


@dataclass
class Fault:
    """What is done to an answer: another status, only a share of its body, a pause ahead of it.

    With `is_late`, the request has its effect before its answer is replaced by that status.
    """

    status: int | None = None
    is_late: bool = False
    body_share: float | None = None
    pause_s: float = 0.0


@dataclass
class Proxy:
    """A server in front of another: `faults` says of each request, counted from 0, what goes wrong."""

    url: str
    requests: list[Request] = field(default_factory=list)
    faults: Callable[[Request, int], Fault | None] = lambda request, number: None
    relisted: dict[bytes, bytes] = field(default_factory=dict)  # parts of keys that listings show as others

    def bodies(self) -> list[Request]:
        return [request for request in self.requests if request.is_body]

    def listings(self) -> list[Request]:
        return [request for request in self.requests if request.is_listing]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def s3_server() -> Iterator[str]:
    """Start moto's server in a process of its own; gives its URL. Its listings have pages of a few objects."""
    port = _free_port()
    environment = {"MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE_OBJECTS), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _await(url, server)
            yield url
        finally:
            server.terminate()


def empty_bucket(server: str) -> Callable[[Mapping[str, bytes]], None]:
    """Empty the bucket called `bucket` of a server, and return a function that writes objects into it."""
    client = _boto_client(server)
    client.create_bucket(Bucket="bucket")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="bucket"):
        for item in page.get("Contents", ()):
            client.delete_object(Bucket="bucket", Key=item["Key"])

    def write(files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            client.put_object(Bucket="bucket", Key=name, Body=data)

    return write


def bucket_content(server: str) -> dict[str, bytes]:
    """Return the objects of the bucket called `bucket` by their keys."""
    client = _boto_client(server)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket")
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys}


def remove_objects(server: str, keys: Iterable[str]) -> None:
    """Remove objects of the bucket called `bucket`."""
    client = _boto_client(server)
    for key in keys:
        client.delete_object(Bucket="bucket", Key=key)


def _boto_client(server: str) -> Any:
    return needed("boto3").client(
        "s3",
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key="other",
    )


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise RuntimeError("the S3 server ended")
        try:
            urllib.request.urlopen(f"{url}/moto-api/", timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the S3 server does not answer")


@contextmanager
def proxy_of(upstream: str) -> Iterator[Proxy]:
    """Start a proxy in front of a server."""
    host = upstream.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            request = Request(self.command, self.path, dict(self.headers))
            number = len(proxy.requests)
            proxy.requests.append(request)
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.faults(request, number) or Fault()
            time.sleep(fault.pause_s)
            if fault.status is not None and not fault.is_late:
                self._refuse(fault.status)
                return
            upstream_connection = HTTPConnection(host, timeout=60)
            upstream_connection.request(self.command, self.path, body=sent or None, headers=dict(self.headers))
            answer = upstream_connection.getresponse()
            body = answer.read()
            if fault.status is not None:
                self._refuse(fault.status)
                return
            length = answer.getheader("Content-Length") or str(len(body))
            if request.is_listing and proxy.relisted:
                for was, now in proxy.relisted.items():
                    body = body.replace(was, now)
                length = str(len(body))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in (*_HOP, "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if fault.body_share is not None:
                body = body[: int(len(body) * fault.body_share)]
                self.close_connection = True
            self.wfile.write(body)
            upstream_connection.close()

        def _refuse(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        proxy = Proxy(url)
        yield proxy


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    """Serve a folder as `python -m http.server` does: without ranges, with pages for folders."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@contextmanager
def _serving(server: ThreadingHTTPServer) -> Iterator[str]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
