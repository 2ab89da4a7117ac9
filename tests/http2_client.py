"""A gRPC client that does what no real one does: HTTP/2 frames over a socket, one by one."""

import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
#: The headers of a call.
HEAD = {
    ":method": "POST",
    ":scheme": "http",
    ":path": METHOD,
    ":authority": "localhost",
    "te": "trailers",
    "content-type": "application/grpc",
}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def message(body: bytes, flag: int = 0) -> bytes:
    """Return a message with its prefix."""
    return struct.pack(">BI", flag, len(body)) + body


def connect(address: str, seconds: float = 20) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=seconds)


def ended(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    said = b""
    with suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65_536):
            said += piece
    return said


class Client:
    """One connection; ``events`` has everything that came."""

    def __init__(self, address: str, settings: dict[SettingCodes, int] | None = None) -> None:
        self.socket = connect(address)
        self.h2 = H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False))
        if settings:
            self.h2.local_settings = Settings(client=True, initial_values=settings)
        self.h2.initiate_connection()
        self.events: list[Event] = []
        self.flush()

    def __enter__(self) -> "Client":  # noqa: PYI034 - Self comes with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, **replaced: str) -> int:
        """Send the headers of a call; names of replaced ones have ``_`` for ``-`` and no colon."""
        headers = dict(HEAD)
        for name, value in replaced.items():
            known = f":{name}"
            headers[known if known in headers else name.replace("_", "-")] = value
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, list(headers.items()))
        self.flush()
        return stream_id

    def send(self, stream_id: int, data: bytes, *, end: bool = True) -> None:
        """Send data of a call, as much at a time as the collector lets."""
        while True:
            room = self.h2.local_flow_control_window(stream_id)
            size = min(len(data), room, self.h2.max_outbound_frame_size)
            piece, data = data[:size], data[size:]
            if piece or not data:
                self.h2.send_data(stream_id, piece, end_stream=end and not data)
                self.flush()
            if not data:
                return
            if not size:
                self.read()

    def call(self, data: bytes, **replaced: str) -> dict[str, str]:
        """Make a call with these bytes, and return the headers of its answer."""
        stream_id = self.begin(**replaced)
        with suppress(ProtocolError, ConnectionError):  # It was refused meanwhile.
            self.send(stream_id, data)
        return self.answer(stream_id)

    def answer(self, stream_id: int) -> dict[str, str]:
        """Wait for the end of a stream; return all headers of the answer."""
        self.wait_for(
            lambda event: (
                isinstance(event, (StreamEnded, StreamReset)) and event.stream_id == stream_id
            )
        )
        return {
            _text(name): _text(value)
            for event in self.events
            if isinstance(event, (ResponseReceived, TrailersReceived))
            and event.stream_id == stream_id
            for name, value in event.headers
        }

    def body(self, stream_id: int) -> bytes:
        """Return the data of an answer so far."""
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, DataReceived) and event.stream_id == stream_id
        )

    def wait_for(self, is_it: Callable[[Event], bool]) -> Any:
        """Return the event once it has come."""
        while True:
            found = next((event for event in self.events if is_it(event)), None)
            if found is not None:
                return found
            self.read()

    def goaway(self) -> ConnectionTerminated:
        """Wait until the collector says that it takes no more."""
        found: ConnectionTerminated = self.wait_for(lambda e: isinstance(e, ConnectionTerminated))
        return found

    def read(self) -> None:
        """Read what comes next."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionError("the collector has closed the connection")
        events = self.h2.receive_data(data)
        assert not any(isinstance(event, RequestReceived) for event in events)
        self.events += events
        self.flush()

    def flush(self) -> None:
        """Send what h2 has to send."""
        self.socket.sendall(self.h2.data_to_send())


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
