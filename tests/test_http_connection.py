"""HTTP connections by the letter of RFC 9112: empty lines, requests sent ahead, clocks."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import h11
import pytest

import collector_process
from collector_process import RunningCollector, ask, readiness, wait_for_queue
from otelchain_collector.http_events import HttpEvents
from tls_files import Files

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
OK = b"HTTP/1.1 200 "
POST = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# Of a request: what a collector may have to wait for.
BEGUN = {
    "a byte": b"P",
    "half a head": POST,
    "no body": POST + b"Content-Length: 60000\r\n\r\n",
    "half a body": POST + b"Content-Length: 60000\r\n\r\n" + b"x" * 30_000,
    "half a chunked body": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
}


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20)


def ended(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes; one that does not is a timeout."""
    received = b""
    with suppress(ConnectionError):
        while piece := connection.recv(65_536):
            received += piece
    return received


def said(connection: socket.socket, answers: int) -> bytes:
    """Return what comes until there are so many answers, or the other side closes."""
    received = b""
    while received.count(OK) < answers or not received.endswith(b'{"status":"ok"}'):
        piece = connection.recv(65_536)
        if not piece:
            break
        received += piece
    return received


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("http")
    collector = collector_process.start(
        folder / "t.duckdb", folder / "log", "--request-seconds", "1"
    )
    yield collector
    collector.kill()


EMPTY_LINES = {
    "one": [b"\r\n"],
    "LF": [b"\n"],
    "byte by byte": [b"\r", b"\n", b"\r", b"\n"],
    "many": [b"\r\n" * 100_000],
    "many reads": [b"\r\n"] * 50,
}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_empty_lines_before_a_request_are_nothing_wherever_they_come(
    start_collector: Callable[..., RunningCollector], tmp_path: Path, tls: bool
) -> None:
    files = Files(tmp_path / "files")
    collector = start_collector(tmp_path / "t.duckdb", *(files.options() if tls else ()))

    def enter() -> socket.socket:
        connection = connect(collector.http)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            return files.context().wrap_socket(connection, server_hostname="localhost")
        return connection

    for pieces in EMPTY_LINES.values():
        with enter() as alone, enter() as connection:
            # Nothing else ever comes here; whoever is there besides has an answer.
            for piece in pieces:
                alone.sendall(piece)
                connection.sendall(piece)
                time.sleep(0.005)
            for _ in range(2):
                connection.sendall(LIVEZ)
                assert said(connection, 1).startswith(OK)
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(0.005)
            # Behind a request, in the same packet or while that is being answered.
            connection.sendall(LIVEZ + b"".join(pieces) + LIVEZ + b"".join(pieces))
            assert said(connection, 2).count(OK) == 2
            connection.sendall(LIVEZ)
            assert said(connection, 1).startswith(OK)

    with enter() as left:
        left.sendall(b"\r\n")
        assert collector.stop() == 0
    assert "Traceback" not in collector.log.read_text()


def test_empty_lines_do_not_hold_a_connection(collector: RunningCollector) -> None:
    def send_for_ten_seconds(connection: socket.socket) -> None:
        for _ in range(200):
            connection.sendall(b"\r\n")
            time.sleep(0.05)

    with connect(collector.http) as connection, pytest.raises(ConnectionError):
        send_for_ten_seconds(connection)
    assert ask(collector, "GET", "/livez", b"", {})[0] == 200


def test_no_bytes_are_not_the_end_of_a_connection() -> None:
    events = HttpEvents(h11.SERVER)
    for data in (b"", b"\r\n", b""):
        events.receive_data(data)
        assert events.next_event() is h11.NEED_DATA
    events.receive_data(LIVEZ)
    assert isinstance(events.next_event(), h11.Request)


def test_what_follows_the_last_request_of_a_connection_is_not_read(
    collector: RunningCollector,
) -> None:
    # RFC 9112, 9.6: the server MUST NOT process it. An answer that it is wrong would stand before
    # the one that is asked for.
    request = POST + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    for rest in (b"\r\n", b"nonsense\r\n\r\n", LIVEZ):
        for pieces in ([request + rest], [request, rest]):
            with connect(collector.http) as connection:
                for piece in pieces:
                    connection.sendall(piece)
                received = ended(connection)
            assert received.startswith(OK)
            assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("before", [1, 3])
def test_a_request_that_was_begun_behind_another_has_to_arrive_in_time_too(
    collector: RunningCollector, begun: str, before: int
) -> None:
    with connect(collector.http) as connection:
        connection.sendall(LIVEZ * before + BEGUN[begun])
        received = ended(connection)

    assert received.count(OK) == before
    wait_for_queue(collector, 0)


def test_a_request_behind_a_refused_one_has_to_arrive_in_time_too(
    collector: RunningCollector,
) -> None:
    refused = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    with connect(collector.http) as connection:
        connection.sendall(refused)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404 ")
        connection.sendall(b"hello")
        time.sleep(1.5)
        # It rests between two requests, which it may for longer.
        connection.sendall(LIVEZ)
        assert OK in said(connection, 1)
        connection.sendall(POST)
        assert ended(connection) == b""
    assert readiness(collector)["queue_bytes"] == 0


# Nobody waits 75 s in a test.
SHORT_REST = """
import sys
from otelchain_collector import http_server
http_server._KEEP_ALIVE_SECONDS = 1
from otelchain_collector.__main__ import main
main(sys.argv[1:])
"""


def test_a_connection_rests_no_longer_than_it_may_whatever_came_before(tmp_path: Path) -> None:
    refused = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    collector = collector_process.start(
        tmp_path / "t.duckdb", tmp_path / "log", program=("-c", SHORT_REST)
    )
    try:
        for pieces in (
            [LIVEZ],
            [LIVEZ, b"\r\n"],
            [LIVEZ + b"\r\n"],
            [LIVEZ + LIVEZ + b"\r\n", b"\r\n"],
            # The body comes when the refusal has been sent.
            [refused, b"hello"],
            [refused, b"hel", b"lo\r\n", b"\r\n"],
        ):
            with connect(collector.http) as connection:
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(0.2)
                assert ended(connection).startswith(b"HTTP/1.1 ")
    finally:
        collector.kill()
