"""Hands a trace to the Perfetto UI in the user's browser: one file, once, over this machine's loopback."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.text.visible import visible

ORIGIN = "https://ui.perfetto.dev"
# The only port of this machine that the UI's content-security policy lets it read from.
PORT = 9001
HOST = "127.0.0.1"
PATIENCE_S = 60.0
_PINNED_TRACKS = "^(steps|ledger)"


def perfetto_url(port: int, name: str, visible_ns: tuple[int, int] | None) -> str:
    """Return the address that makes the UI fetch the trace, show a part of it, and keep our tracks on top."""
    pins = [{"id": "dev.perfetto.PinTracksByRegex", "args": [_PINNED_TRACKS]}]
    query = f"url=http://127.0.0.1:{port}/{name}&referrer=open_trace_in_ui"
    if visible_ns is not None:
        query += f"&visStart={visible_ns[0]}&visEnd={visible_ns[1]}"
    return f"{ORIGIN}/#!/?{query}&startupCommands={quote(json.dumps(pins))}"


def hand_over(
    file: Path,
    say: Callable[[str], None],
    *,
    visible_ns: tuple[int, int] | None = None,
    open_browser: bool = True,
    port: int = PORT,
    patience_s: float = PATIENCE_S,
) -> bool:
    """Serve a file once to the Perfetto UI and open the UI; return whether the file went out within `patience_s`.

    The server listens on 127.0.0.1 only, and answers a single address that cannot be guessed. Raises TraceAnalyzerError
    where the port is taken.
    """
    name = f"{secrets.token_urlsafe(16)}.json.gz"
    try:
        server = _OneFile((HOST, port), file, name)
    except OSError as error:
        raise TraceAnalyzerError(
            "another program (perhaps trace_processor) holds the port", f"127.0.0.1:{port}", "end it, and try again"
        ) from error
    with server:
        url = perfetto_url(server.server_port, name, visible_ns)
        say(url)
        say(_what_to_do(url, server.server_port, open_browser=open_browser))
        ends_s = time.monotonic() + patience_s
        while not server.is_done and (left_s := ends_s - time.monotonic()) > 0:
            server.timeout = left_s
            server.handle_request()
    return server.is_done


def _what_to_do(url: str, port: int, *, open_browser: bool) -> str:
    """Open the address where a user would see it, and say how it gets to the trace."""
    if not has_display():
        forward = f"ssh -L {port}:{HOST}:{port} {socket.gethostname()}"
        return f"no display here; from your machine: {visible(forward)}, and open the address within a minute"
    if open_browser and webbrowser.open(url):
        return "waiting for the browser to fetch the trace"
    return "open the address in a browser on this machine within a minute"


def has_display() -> bool:
    """Return whether the user would see a browser that is opened here."""
    return not os.environ.get("SSH_CONNECTION") and (
        os.name == "nt" or os.uname().sysname == "Darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    )


class _OneFile(HTTPServer):
    """A server that is done when its one file has gone out."""

    # Without it a second command would find the port taken for a minute after the first one.
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], file: Path, name: str) -> None:
        self.file = file
        self.path = f"/{name}"
        self.is_done = False
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _OneFile
    timeout = 10.0  # a caller that says nothing must not keep the one that fetches the trace out

    def handle(self) -> None:
        """Answer one request that is asked within `timeout`, however slowly its bytes come."""
        self._too_slow = threading.Timer(self.timeout, self._hang_up)
        self._too_slow.start()
        try:
            with suppress(ConnectionError):
                super().handle()
        finally:
            self._too_slow.cancel()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _is_asked_for(self) -> bool:
        """Return whether a request knows the address, and names this machine by its number.

        A page of a stranger whose name was made to lead to this machine sends its own name.
        """
        host = self.headers.get("Host", "")
        return self.path == self.server.path and host in (f"{HOST}:{self.server.server_port}", HOST)

    def do_GET(self) -> None:
        """Send the file to the client that knows its address."""
        if not self._is_asked_for() or self.server.is_done:
            self.send_error(404)
            return
        self._too_slow.cancel()
        with self.server.file.open("rb") as content:
            self.send_response(200)
            self._allow()
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(os.fstat(content.fileno()).st_size))
            self.end_headers()
            with suppress(ConnectionError):
                shutil.copyfileobj(content, self.wfile)
                self.server.is_done = True

    def do_OPTIONS(self) -> None:
        """Answer what browsers ask ahead of a request to this machine."""
        if not self._is_asked_for():
            self.send_error(404)
            return
        self.send_response(204)
        self._allow()
        self.send_header("Access-Control-Allow-Methods", "GET")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.end_headers()

    def _allow(self) -> None:
        self.send_header("Access-Control-Allow-Origin", ORIGIN)
        self.send_header("Cache-Control", "no-store")

    def log_message(self, *_: object) -> None:
        """Print nothing."""
