"""What is refused over HTTP is refused in the encoding of the request, whoever refuses it."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status

import collector_process
from collector_process import RunningCollector, hold

TOKEN = "a-token-of-the-tests-0123456789"
READ_ONLY = "another-token-of-the-tests-0123"
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
# What a refusal is encoded in, by the Content-Type headers of the request (OTLP 1.11, "Failures":
# the response MUST have the Content-Type of the request); JSON where they name none of OTLP's.
NAMED = {
    (PROTOBUF,): PROTOBUF,
    ("Application/X-Protobuf; charset=utf-8",): PROTOBUF,
    (PROTOBUF, PROTOBUF): PROTOBUF,
    (JSON,): JSON,
    ("application/JSON;charset=utf-8",): JSON,
}
UNNAMED: dict[tuple[str, ...], str] = {(JSON, PROTOBUF): JSON, ("text/plain",): JSON, (): JSON}


class Refused(NamedTuple):
    """A request, without its Content-Type, and what it gets.

    Attributes:
        needs_type: Whether 415 comes first where the type is not one of OTLP's.
    """

    line: str
    headers: tuple[str, ...]
    data: bytes
    http_status: int
    code: int
    token: str | None = TOKEN
    needs_type: bool = False


POST = "POST /v1/{signal} HTTP/1.1"
NO_BODY = ("Content-Length: 0",)
INVALID = code_pb2.INVALID_ARGUMENT
REFUSED = {
    "large header": Refused(POST, (*NO_BODY, "X: " + "x" * 70_000), b"", 431, INVALID),
    "large target": Refused(
        "POST /v1/{signal}?" + "x" * 70_000 + " HTTP/1.1", NO_BODY, b"", 431, INVALID
    ),
    "large target, absolute": Refused(
        "POST http://localhost/v1/{signal}?" + "x" * 70_000 + " HTTP/1.1",
        NO_BODY,
        b"",
        431,
        INVALID,
    ),
    "two lengths": Refused(
        POST, ("Transfer-Encoding: chunked", "Content-Length: 5"), b"0\r\n\r\n", 400, INVALID
    ),
    "version": Refused("POST /v1/{signal} HTTP/2.0", NO_BODY, b"", 505, INVALID),
    "no token": Refused(POST, NO_BODY, b"", 401, code_pb2.UNAUTHENTICATED, None),
    "two tokens": Refused(
        POST, (*NO_BODY, "Authorization: Bearer x"), b"", 401, code_pb2.UNAUTHENTICATED
    ),
    "another's token": Refused(POST, NO_BODY, b"", 403, code_pb2.PERMISSION_DENIED, READ_ONLY),
    "method": Refused("PUT /v1/{signal} HTTP/1.1", NO_BODY, b"", 405, code_pb2.UNIMPLEMENTED),
    "path": Refused("POST /v1/{signal}/x HTTP/1.1", NO_BODY, b"", 404, code_pb2.NOT_FOUND),
    "content encoding": Refused(POST, (*NO_BODY, "Content-Encoding: br"), b"", 415, INVALID),
    "not compressed": Refused(
        POST, ("Content-Length: 1", "Content-Encoding: gzip"), b"x", 400, INVALID, needs_type=True
    ),
    "malformed": Refused(POST, ("Content-Length: 1",), b"\xff", 400, INVALID, needs_type=True),
    "too large": Refused(
        POST,
        ("Content-Length: 3000000",),
        bytes(3_000_000),
        413,
        code_pb2.RESOURCE_EXHAUSTED,
        needs_type=True,
    ),
    # The head is HTTP, the body is not: the request is known, and half of it is there.
    "chunks": Refused(POST, ("Transfer-Encoding: chunked",), b"zz\r\n", 400, INVALID),
}


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("refusals")
    tokens = folder / "tokens"
    tokens.write_text(f"{TOKEN}\n{READ_ONLY} read\n")
    limits = ("--max-request-bytes", "2MB", "--queue-bytes", "4MB")
    collector = collector_process.start(
        folder / "t.duckdb", folder / "log", "--token-file", str(tokens), *limits
    )
    yield collector
    collector.kill()


def answer(collector: RunningCollector, sent: bytes) -> tuple[int, str, bytes]:
    """Send bytes; return status, media type and body."""
    host, port = collector.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.headers["content-type"], response.read()


def status(media_type: str, content: bytes) -> Status:
    if media_type == PROTOBUF:
        return Status.FromString(content)
    assert media_type == JSON
    return Status(**json.loads(content))


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
@pytest.mark.parametrize("name", REFUSED)
def test_every_refusal_has_the_encoding_of_its_request(
    collector: RunningCollector, name: str, signal: str
) -> None:
    refused = REFUSED[name]
    for types, encoding in {**NAMED, **UNNAMED}.items():
        lines = [
            refused.line.format(signal=signal),
            *("Host: localhost", *refused.headers),
            *(f"Content-Type: {each}" for each in types),
            *([] if refused.token is None else [f"Authorization: Bearer {refused.token}"]),
            *("", ""),
        ]
        code, media_type, content = answer(collector, "\r\n".join(lines).encode() + refused.data)

        assert media_type == encoding, types
        told = status(media_type, content)
        assert told.message
        if refused.needs_type and types in UNNAMED:
            assert (code, told.code) == (415, INVALID), types
        else:
            assert (code, told.code) == (refused.http_status, refused.code), types


@pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
def test_a_full_queue_says_so_in_the_encoding_of_the_request(
    tmp_path: Path, media_type: str
) -> None:
    limits = ("--max-request-bytes", "1MB", "--queue-bytes", "2MB")
    collector = collector_process.start(tmp_path / "t.duckdb", tmp_path / "log", *limits)
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n"
    try:
        with hold(collector, 900_000), hold(collector, 900_000):
            sent = f"{head}Content-Length: 900000\r\n\r\n".encode() + bytes(900_000)
            code, said_type, content = answer(collector, sent)
    finally:
        collector.kill()

    assert (code, said_type) == (503, media_type)
    if media_type == JSON:
        assert json.loads(content)["code"] == code_pb2.UNAVAILABLE
    else:
        assert Status.FromString(content).code == code_pb2.UNAVAILABLE


def test_what_is_no_http_is_refused_in_json(collector: RunningCollector) -> None:
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"POST /v1/traces\r\n\r\n",
        f"POST /v1/traces HTTP/1.1\r\nContent-Type: {PROTOBUF}\r\nHost:\r\nA B: c\r\n\r\n".encode(),
    ):
        code, media_type, content = answer(collector, sent)

        assert (code, media_type) == (400, JSON)
        assert status(media_type, content).code == INVALID
