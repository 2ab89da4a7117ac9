"""Clients that are slow, and more of them than there is room for.

A request has to arrive within a time, and its answer has to be taken; what does not is cut off,
because the sender's own deadline (10 s in an SDK) has passed and it will send again.
"""

import asyncio
from functools import partial
from typing import Any, Final

import h11
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from uvicorn.protocols.http.h11_impl import H11Protocol

from otelchain_collector.admission import Door, MakeProtocol, Visitor
from otelchain_collector.http_events import HttpEvents
from otelchain_collector.refusals import encoded
from otelchain_collector.statuses import RETRY_AFTER_SECONDS

#: What a connection too many is told.
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n" % RETRY_AFTER_SECONDS
)


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
        self.conn: HttpEvents = HttpEvents(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrival = _stop(self._arrival)
        self._taking = _stop(self._taking)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self.conn.has_no_more_requests:
            return
        # Empty lines, which are nothing, change no clock either: whichever runs goes on.
        if self.conn.is_resting and not data.strip(b"\r\n"):
            return
        super().data_received(data)
        self._keep_one_clock()

    def on_response_complete(self) -> None:
        """Go on with what a client has sent behind the request that is answered now."""
        super().on_response_complete()
        self._keep_one_clock()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the form of every other refusal; uvicorn says it as text."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not (is_answering and self.cycle.response_started):  # Else it would be in the answer.
            # Only of a request whose body is wrong is it known how it is encoded.
            headers = self.headers if is_answering else []
            types = [value.decode("latin-1") for name, value in headers if name == b"content-type"]
            media_type, body = encoded(Status(code=code_pb2.INVALID_ARGUMENT, message=msg), types)
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\nContent-Type: %s\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (media_type.encode(), len(body), body)
            )
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
        if self._arrival is None:
            self._arrival = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _keep_one_clock(self) -> None:
        """Let the clock run that fits: for a request to arrive, or for the rest between two."""
        if self.transport.is_closing():
            return
        if self.conn.is_resting:
            if self.cycle is None:  # The first request is still expected.
                return
            self._arrival = _stop(self._arrival)
            if self.timeout_keep_alive_task is None:
                # The rest of a body that was refused before it had come.
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
            return
        self._unset_keepalive_if_required()
        if self.conn.is_arriving:
            self._expect_request()
        else:
            self._arrival = _stop(self._arrival)


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer; what is returned takes its place."""
    if timer is not None:
        timer.cancel()
    return None
