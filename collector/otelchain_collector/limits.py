"""Clients that are slow, and more of them than there is room for.

A request has to arrive within a time, and its answer has to be taken; what does not is cut off,
because the sender's own deadline (10 s in an SDK) has passed and it will send again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
import h11
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from uvicorn.protocols.http.h11_impl import H11Protocol

from otelchain_collector.statuses import RETRY_AFTER_SECONDS, RETRY_INFO

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n" % RETRY_AFTER_SECONDS
)
_WAITING_STATES: Final = (h11.SEND_BODY, h11.IDLE)


def http_protocol(request_seconds: float, max_connections: int) -> type[H11Protocol]:
    """Return the class of uvicorn's connections, with these limits."""

    class LimitedProtocol(_LimitedProtocol):
        pass

    LimitedProtocol.request_seconds = request_seconds
    LimitedProtocol.max_connections = max_connections
    return LimitedProtocol


class _LimitedProtocol(H11Protocol):
    request_seconds: float
    max_connections: int

    _arrival: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.write(_FULL)
            transport.close()
            return
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
        super().data_received(data)
        if self._has_arrived():
            self._arrival = _stop(self._arrival)

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


#: What a gRPC server does about connections that hang; milliseconds.
GRPC_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_connection_idle_ms", 15 * 60_000),
    # Balances clients anew and ends leaks; open calls get the grace.
    ("grpc.max_connection_age_ms", 60 * 60_000),
    ("grpc.max_connection_age_grace_ms", 30_000),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.server_handshake_timeout_ms", 20_000),
)


class GrpcLimits(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # no types are published
    """Give each call a time for its message to arrive, and refuse calls beyond a number."""

    def __init__(self, request_seconds: float, max_calls: int) -> None:
        self._request_seconds = request_seconds
        self._max_calls = max_calls
        self._calls = 0

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Return a handler that reads the message itself, under a clock."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler

        async def limited(messages: Any, context: Any) -> Any:
            if self._calls >= self._max_calls:
                await _try_again(context, "the collector has too many open calls")
            self._calls += 1
            try:
                message = await self._arrived(messages, context)
                return await handler.unary_unary(message, context)
            finally:
                self._calls -= 1

        return grpc.stream_unary_rpc_method_handler(
            limited, handler.request_deserializer, handler.response_serializer
        )

    async def _arrived(self, messages: Any, context: Any) -> Any:
        try:
            return await asyncio.wait_for(anext(messages), self._request_seconds)
        except StopAsyncIteration:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        except asyncio.TimeoutError:
            text = f"the message did not arrive within {self._request_seconds:g} seconds"
            await _try_again(context, text)


async def _try_again(context: Any, text: str) -> None:
    status = Status(code=code_pb2.UNAVAILABLE, message=text)
    status.details.add().Pack(RETRY_INFO)
    trailing = (
        ("grpc-status-details-bin", status.SerializeToString()),
        ("google.rpc.retryinfo-bin", RETRY_INFO.SerializeToString()),
    )
    await context.abort(grpc.StatusCode.UNAVAILABLE, text, trailing)
