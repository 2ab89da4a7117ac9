"""Clients that are slow, and more of them than there is room for.

A request has to arrive within a time, and its answer has to be taken; what does not is cut off,
because the sender's own deadline (10 s in an SDK) has passed and it will send again.
"""

import asyncio
from functools import partial
from typing import Any, Final

import h11
import orjson
from google.rpc import code_pb2
from uvicorn.protocols.http.h11_impl import H11Protocol

from otelchain_collector.admission import Door, MakeProtocol, Visitor
from otelchain_collector.statuses import RETRY_AFTER_SECONDS

#: What a connection too many is told.
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n" % RETRY_AFTER_SECONDS
)
_WAITING_STATES: Final = (h11.SEND_BODY, h11.IDLE)


def http_protocol(door: Door, request_seconds: float) -> Any:
    """Return what makes uvicorn's connections: behind the door, and under a clock."""

    def visitor(**ours_of_uvicorn: Any) -> Visitor:
        make: MakeProtocol = partial(_LimitedProtocol, request_seconds, **ours_of_uvicorn)
        return Visitor(door, make)

    return visitor


class _LimitedProtocol(H11Protocol):
    _arrival: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def __init__(self, request_seconds: float, **ours_of_uvicorn: Any) -> None:
        super().__init__(**ours_of_uvicorn)
        self.request_seconds = request_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrival = _stop(self._arrival)
        self._taking = _stop(self._taking)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._arrival is None:  # The first bytes of a further request.
            self._expect_request()
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            # RFC 9112, 2.2: empty lines before a request are ignored.
            data = data.lstrip(b"\r\n")
        super().data_received(data)
        if self._has_arrived():
            self._arrival = _stop(self._arrival)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the form of every other refusal; uvicorn says it as text."""
        body = orjson.dumps({"code": code_pb2.INVALID_ARGUMENT, "message": msg})
        head = (
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
        )
        self.transport.write(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body))
        self.transport.close()

    def pause_writing(self) -> None:
        """Start the clock for a client that does not read."""
        super().pause_writing()
        self._taking = _stop(self._taking)
        self._taking = self.loop.call_later(self.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop it."""
        super().resume_writing()
        self._taking = _stop(self._taking)

    def _expect_request(self) -> None:
        self._arrival = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _has_arrived(self) -> bool:
        # The client's side of the exchange: the request is complete, or none has begun again.
        state = self.conn.their_state
        waiting = state in _WAITING_STATES and not (state is h11.IDLE and self._is_between())
        return not waiting

    def _is_between(self) -> bool:
        return not self.conn.trailing_data[0] and self.cycle is not None


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer; what is returned takes its place."""
    if timer is not None:
        timer.cancel()
    return None
