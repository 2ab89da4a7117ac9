"""gRPC's words on HTTP/2: headers of a call, its message, an answer; pure.

As doc/PROTOCOL-HTTP2.md of gRPC says; a call here has one message and one answer.
"""

import base64
import re
from collections import defaultdict
from collections.abc import Iterable
from email.utils import formatdate
from typing import Final, NamedTuple

from google.rpc import code_pb2
from google.rpc.status_pb2 import Status

from otelchain_collector.budget import QueueFullError, Reservation
from otelchain_collector.statuses import RETRY_INFO

Headers = list[tuple[bytes, bytes]]

#: Names of gRPC and what `inflate` calls them.
ENCODINGS: Final = {b"identity": None, b"gzip": "gzip", b"deflate": "deflate"}
_ACCEPTED: Final = (b"grpc-accept-encoding", b"identity,deflate,gzip")
_CONTENT_TYPES: Final = frozenset({b"application/grpc", b"application/grpc+proto"})
_PREFIX_BYTES: Final = 5
# gRPC percent-encodes what is not printable ASCII, and the percent sign.
_ENCODED: Final = re.compile(rb"[^\x20-\x24\x26-\x7e]")
# Of all names and values; gRPC's own default is 8 to 16 KiB.
_MAX_HEADER_BYTES: Final = 16 * 1024


class Answer(NamedTuple):
    """How a call ends: a code of google.rpc.code_pb2, and a response message with OK."""

    code: int
    message: str = ""
    body: bytes = b""
    trailing: tuple[tuple[bytes, bytes], ...] = ()


class RefusedError(Exception):
    """The call ends here, with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class NotGrpcError(Exception):
    """What was sent is HTTP/2, but no gRPC call; the status of HTTP says so."""

    def __init__(self, http_status: int) -> None:
        super().__init__(http_status)
        self.http_status = http_status


def refused(code: int, message: str) -> RefusedError:
    """Return the error for an answer that is not to be tried again."""
    return RefusedError(Answer(code, message))


def try_again(message: str) -> RefusedError:
    """Return the error for an answer that asks for another try in a second."""
    status = Status(code=code_pb2.UNAVAILABLE, message=message)
    status.details.add().Pack(RETRY_INFO)
    trailing = (
        # The first is where the specification wants the delay, the second the only place where
        # Python's exporter looks for it.
        (b"grpc-status-details-bin", _binary(status.SerializeToString())),
        (b"google.rpc.retryinfo-bin", _binary(RETRY_INFO.SerializeToString())),
    )
    return RefusedError(Answer(code_pb2.UNAVAILABLE, message, b"", trailing))


class CallHead(NamedTuple):
    """What the headers of a call say."""

    path: str
    encoding: bytes
    authorization: tuple[str, ...]
    size_bytes: int


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> CallHead:
    """Read the headers of a call.

    Raises:
        NotGrpcError: It is no gRPC call.
    """
    values: defaultdict[bytes, list[bytes]] = defaultdict(list)
    size_bytes = 0
    for name, value in headers:
        values[name].append(value)
        # RFC 9113, 6.5.2: 32 bytes for each field besides.
        size_bytes += len(name) + len(value) + 32
    if values[b":method"] != [b"POST"]:
        raise NotGrpcError(405)
    types = {each.partition(b";")[0].strip().lower() for each in values[b"content-type"]}
    if len(types) != 1 or not types <= _CONTENT_TYPES:
        raise NotGrpcError(415)
    return CallHead(
        (values[b":path"] or [b""])[0].decode("latin-1"),
        b",".join(values[b"grpc-encoding"]).strip().lower() or b"identity",
        tuple(value.decode("latin-1") for value in values[b"authorization"]),
        size_bytes,
    )


def check_head(head: CallHead) -> None:
    """Refuse headers that are too long, or a compression that is not known.

    Raises:
        RefusedError: With what is wrong.
    """
    if head.size_bytes > _MAX_HEADER_BYTES:
        raise refused(
            code_pb2.RESOURCE_EXHAUSTED, f"the metadata is larger than {_MAX_HEADER_BYTES} bytes"
        )
    if head.encoding not in ENCODINGS:
        name = head.encoding.decode("latin-1")
        raise RefusedError(
            Answer(
                code_pb2.UNIMPLEMENTED,
                f"grpc-encoding {name!r} is not supported; use gzip, deflate or identity",
                b"",
                (_ACCEPTED,),
            )
        )


class IncomingMessage:
    """The message of a call, piece by piece, each counted as it comes.

    Args:
        reservation: Counts the bytes; this gives them back when the message is refused.
        encoding: Of the message, where its own flag says that it is compressed.
        max_bytes: The largest message, as it arrives.
    """

    def __init__(self, reservation: Reservation, encoding: bytes, max_bytes: int) -> None:
        self.reservation = reservation
        self._encoding = encoding
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._prefix = b""
        self._missing_bytes = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            RefusedError: The message is too large, there is no room for it, or it is no message.
        """
        if len(self._prefix) < _PREFIX_BYTES:
            taken = _PREFIX_BYTES - len(self._prefix)
            self._prefix, data = self._prefix + data[:taken], data[taken:]
            if len(self._prefix) < _PREFIX_BYTES:
                return
            self._start()
        if not data:
            return
        self._missing_bytes -= len(data)
        if self._missing_bytes < 0:
            raise refused(code_pb2.INVALID_ARGUMENT, "the call has more than one message")
        try:
            self.reservation.add(len(data))
        except QueueFullError as error:
            raise try_again(str(error)) from error
        self._pieces.append(data)

    def end(self) -> tuple[bytes, str | None]:
        """Return the whole message, and how it is compressed.

        Raises:
            RefusedError: It is not whole.
        """
        if not self._prefix:
            raise refused(code_pb2.INVALID_ARGUMENT, "the call has no message")
        if len(self._prefix) < _PREFIX_BYTES or self._missing_bytes:
            raise refused(code_pb2.INVALID_ARGUMENT, "the message ends too early")
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return body, ENCODINGS[self._encoding] if self._prefix[0] else None

    def drop(self) -> None:
        """Let go of what has come."""
        self._pieces.clear()
        self.reservation.release()

    def _start(self) -> None:
        flag, self._missing_bytes = self._prefix[0], int.from_bytes(self._prefix[1:], "big")
        if flag > 1 or (flag and ENCODINGS[self._encoding] is None):
            raise refused(
                code_pb2.INTERNAL,
                "the message is marked as compressed, but no grpc-encoding says how",
            )
        if self._missing_bytes > self._max_bytes:
            raise too_large(self._max_bytes)


def too_large(max_bytes: int) -> RefusedError:
    """Return the error for a request over the limit; it must not be sent again."""
    return refused(code_pb2.RESOURCE_EXHAUSTED, f"the request is larger than {max_bytes} bytes")


_HEADERS: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))


def response_headers() -> Headers:
    """Return the headers before a response message, with the time by which clocks are compared."""
    return [*_HEADERS, _ACCEPTED, (b"date", formatdate(usegmt=True).encode())]


def message_of(body: bytes) -> bytes:
    """Return a response message as it goes over the wire."""
    return b"\x00" + len(body).to_bytes(4, "big") + body


def trailers_of(answer: Answer) -> Headers:
    """Return the headers behind a response message."""
    trailers = [(b"grpc-status", b"%d" % answer.code)]
    if answer.message:
        trailers.append((b"grpc-message", _percent_encoded(answer.message)))
    return [*trailers, *answer.trailing]


def refusal_of(answer: Answer) -> Headers:
    """Return the only headers of an answer without a message."""
    return [*_HEADERS, *trailers_of(answer)]


def _percent_encoded(text: str) -> bytes:
    return _ENCODED.sub(lambda found: b"%%%02X" % found[0][0], text.encode("utf-8", "replace"))


def _binary(value: bytes) -> bytes:
    return base64.b64encode(value).rstrip(b"=")
