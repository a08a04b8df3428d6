"""The trace goes to the Perfetto UI once, over this machine's loopback, to who knows the address."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.exports.perfetto_ui import ORIGIN, hand_over, perfetto_url


def asked(port: int, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), data


class Serving:
    """A hand-over in a thread of its own, at a port of the system's choice."""

    def __init__(self, file: Path, patience_s: float = 60.0) -> None:
        self._said = threading.Event()
        self._went_out = False
        self._urls: list[str] = []
        self._thread = threading.Thread(target=self._serve, args=(file, patience_s))
        self._thread.start()
        assert self._said.wait(30)
        match = re.search(r"url=http://127\.0\.0\.1:(\d+)(/[\w-]+\.json\.gz)&", self._urls[0])
        assert match is not None
        self.port, self.path = int(match[1]), match[2]

    def _serve(self, file: Path, patience_s: float) -> None:
        def say(url: str) -> None:
            self._urls.append(url)
            self._said.set()

        self._went_out = hand_over(file, say, open_browser=False, port=0, patience_s=patience_s)

    def end(self) -> bool:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._went_out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.json.gz"
    path.write_bytes(b"a trace" * 100_000)
    return path


def test_the_file_goes_out_once_and_only_from_its_address(file: Path) -> None:
    serving = Serving(file)
    assert asked(serving.port, "GET", "/")[0] == 404
    assert asked(serving.port, "GET", "/../../etc/passwd")[0] == 404
    assert asked(serving.port, "OPTIONS", "/other")[0] == 404
    status, headers, _ = asked(serving.port, "OPTIONS", serving.path)
    assert (status, headers["Access-Control-Allow-Origin"]) == (204, ORIGIN)
    status, headers, data = asked(serving.port, "GET", serving.path)
    assert (status, headers["Access-Control-Allow-Origin"], data) == (200, ORIGIN, file.read_bytes())
    assert serving.end()
    with pytest.raises(ConnectionRefusedError):
        asked(serving.port, "GET", serving.path)


@pytest.mark.parametrize(
    "host", ["rebound.example.org:{port}", "127.0.0.1:1", "localhost", "", "127.0.0.1.example.org"]
)
def test_a_request_under_another_name_gets_nothing(file: Path, host: str) -> None:
    serving = Serving(file)
    for method in ("GET", "OPTIONS", "HEAD", "POST"):
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=20)
        connection.request(method, serving.path, headers={"Host": host.format(port=serving.port)})
        answer = connection.getresponse()
        assert answer.status >= 400
        assert b"a trace" not in answer.read()
        assert answer.getheader("Access-Control-Allow-Origin") is None
        connection.close()
    assert asked(serving.port, "GET", serving.path)[0] == 200
    assert serving.end()


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET http://127.0.0.1/../../etc/passwd HTTP/1.1\r\n\r\n",
        b"GET /..%2f..%2fetc%2fpasswd HTTP/1.0\r\n\r\n",
        b"GET //etc/passwd\r\n\r\n",
        b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\xff\x1b]0;owned\x07\r\n\r\n",
        b"GET / HTTP/999999999999999999999.1\r\n\r\n",
        b"\r\n",
    ],
    ids=["absolute", "escaped", "slashes", "long", "headers", "TLS", "version", "blank"],
)
def test_odd_requests_get_nothing_and_are_no_end(
    file: Path, request_line: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    serving = Serving(file)
    with socket.create_connection(("127.0.0.1", serving.port), timeout=20) as connection:
        connection.sendall(request_line)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            assert b"a trace" not in connection.recv(2**20)
    assert asked(serving.port, "GET", serving.path)[0] == 200
    assert serving.end()
    assert capfd.readouterr().err == ""


def test_a_caller_that_drips_does_not_keep_others_out(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.exports.perfetto_ui._Handler.timeout", 0.5)
    serving = Serving(file)
    ended = threading.Event()

    def drip() -> None:
        with socket.create_connection(("127.0.0.1", serving.port)) as connection, suppress(ConnectionError):
            while not ended.wait(0.1):
                connection.sendall(b"G")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert asked(serving.port, "GET", serving.path)[0] == 200
    finally:
        ended.set()
        dripping.join()
    assert serving.end()


def test_it_ends_where_nobody_asks(file: Path) -> None:
    assert Serving(file, patience_s=0.2).end() is False


def test_only_the_loopback_is_listened_on(file: Path) -> None:
    serving = Serving(file)
    with socket.socket() as other:
        other.settimeout(5)
        # 127.0.0.2 is this machine, too, and a server on all its addresses would answer there.
        assert other.connect_ex(("127.0.0.2", serving.port)) != 0
    asked(serving.port, "GET", serving.path)
    assert serving.end()


def test_a_port_that_is_taken_is_an_error(file: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(TraceAnalyzerError, match="another program"):
            hand_over(file, lambda _: None, open_browser=False, port=holder.getsockname()[1])


def test_the_address_shows_the_first_finding() -> None:
    url = perfetto_url(9001, "x.json.gz", (5, 9))
    assert url.startswith(
        f"{ORIGIN}/#!/?url=http://127.0.0.1:9001/x.json.gz&referrer=open_trace_in_ui&visStart=5&visEnd=9"
    )


@pytest.mark.parametrize(
    ("is_seen", "words"), [(False, "ssh -L "), (True, "in a browser on this machine within a minute")]
)
def test_it_says_how_a_browser_gets_to_the_trace(
    file: Path, monkeypatch: pytest.MonkeyPatch, is_seen: bool, words: str
) -> None:
    monkeypatch.setattr("traceanalyzer.exports.perfetto_ui.has_display", lambda: is_seen)
    said: list[str] = []
    hand_over(file, said.append, open_browser=False, port=0, patience_s=0.05)
    assert words in said[1]
