"""One HTTP/2 connection of a gRPC client: frames (h2) in, calls for `receive_grpc`, answers out.

Bytes are counted as they come, before anything else holds them: a message that finds no room is
refused at its first piece, and its client stops sending it.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from otelchain_collector.grpc_wire import (
    Answer,
    NotGrpcError,
    RefusedError,
    message_of,
    read_head,
    refusal_of,
    response_headers,
    trailers_of,
    try_again,
)
from otelchain_collector.http2 import MAX_UNREAD_BYTES, Http2
from otelchain_collector.receive_grpc import Call, GrpcReceiver

# Pings, settings, resets and empty frames without an answer between them.
_MAX_IDLE_EVENTS: Final = 1_000
_IDLE_SECONDS: Final = 15 * 60.0
# Balances clients anew, and ends what a certificate or leak has kept open.
_AGE_SECONDS: Final = 60 * 60.0

_logger = logging.getLogger(__name__)


class GrpcConnection(asyncio.Protocol):
    """The connection, from its first byte to its last.

    Args:
        receiver: Takes the calls.
        request_seconds: For the preface, for a message, and for a client to take its answer.
        ended: Told when the connection has gone.
    """

    def __init__(
        self,
        receiver: GrpcReceiver,
        request_seconds: float,
        ended: "Callable[[GrpcConnection], None]",
    ) -> None:
        self._receiver = receiver
        self._seconds = request_seconds
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._h2 = Http2()
        self._arriving: dict[int, Call] = {}
        self._arrivals: dict[int, asyncio.TimerHandle] = {}
        self._answering: dict[int, tuple[Call, asyncio.Task[None]]] = {}
        # Answers that a client has left no room for.
        self._unsent: dict[int, Answer] = {}
        self._clocks: dict[str, asyncio.TimerHandle] = {}
        self._idle_events = 0
        self._has_greeted = False
        self._is_closing = False

    @property
    def is_busy(self) -> bool:
        """Whether a call is open."""
        return bool(self._arriving or self._answering or self._unsent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client, who has to do the same in time."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._h2.greet()
        self._start("arrival", self._seconds, transport.abort)
        self._start("age", _AGE_SECONDS, self.go_away)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Let go of what has not come whole; what has is stored."""
        self._ended(self)
        for clock in (*self._clocks.values(), *self._arrivals.values()):
            clock.cancel()
        for call in self._arriving.values():
            call.abandon()
        for call, _ in self._answering.values():
            call.is_gone = True
        self._arriving.clear()
        self._arrivals.clear()
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Handle what has come."""
        self._safely(partial(self._receive, data))

    def pause_writing(self) -> None:
        """Start the clock for a client that does not read, and read no more from it."""
        self._transport.pause_reading()
        self._start("taking", self._seconds, self._transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._stop("taking")
        self._transport.resume_reading()

    def go_away(self) -> None:
        """Take no further calls, and close the connection when the open ones have ended."""
        if self._is_closing:
            return
        self._is_closing = True
        self._say_goodbye(ErrorCodes.NO_ERROR)
        self._rest()

    def cut_off(self) -> None:
        """End what is still open, with an answer that asks for another try."""
        self._safely(self._cut_off)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _cut_off(self) -> None:
        for stream_id in list(self._arriving):
            self._refuse(stream_id, try_again("the collector is stopping; try again in a second"))
        for _, task in self._answering.values():
            task.cancel()
        self._flush()

    def _receive(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._close()
            return
        self._idle_events += len(events)
        unread_bytes = self._h2.unread_bytes
        if unread_bytes > MAX_UNREAD_BYTES or self._idle_events > _MAX_IDLE_EVENTS:
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._close()
            return
        self._has_greeted = self._has_greeted or bool(events)
        if events or (self._has_greeted and not unread_bytes):
            self._stop("arrival")
        if unread_bytes and "arrival" not in self._clocks:
            self._start("arrival", self._seconds, self._transport.abort)
        for event in events:
            self._handle(event)
        self._rest()
        self._flush()

    def _handle(self, event: Event) -> None:
        if isinstance(event, DataReceived):
            self._take(event.stream_id, event.data, event.flow_controlled_length)
        elif isinstance(event, RequestReceived):
            self._begin(event.stream_id, event.headers)
        elif isinstance(event, StreamEnded):
            self._answer(event.stream_id)
        elif isinstance(event, StreamReset):
            self._forget(event.stream_id)
        elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
            for stream_id in list(self._unsent):
                self._send_unsent(stream_id)
        elif isinstance(event, ConnectionTerminated):
            self._is_closing = True

    def _begin(self, stream_id: int, headers: Any) -> None:
        self._stop("idle")
        if self._is_closing:
            # Nothing of it was looked at: gRPC's clients send it again over a new connection.
            self._h2.if_there(stream_id, self._h2.reset_stream, ErrorCodes.REFUSED_STREAM)
            return
        try:
            self._arriving[stream_id] = self._receiver.open(read_head(headers))
        except NotGrpcError as error:
            self._end_early(stream_id, [(b":status", b"%d" % error.http_status)])
        except RefusedError as error:
            self._end_early(stream_id, refusal_of(error.answer))
        else:
            late = try_again(f"the message did not arrive within {self._seconds:g} seconds")
            self._arrivals[stream_id] = self._loop.call_later(
                self._seconds, self._safely, partial(self._refuse_late, stream_id, late)
            )

    def _take(self, stream_id: int, data: bytes, length: int) -> None:
        # h2 sees itself whether the stream is there; the connection gets its room back anyhow.
        self._h2.acknowledge_received_data(length, stream_id)
        call = self._arriving.get(stream_id)
        if call is None:
            return
        if data:
            self._idle_events -= 1
        try:
            call.add(data)
        except RefusedError as error:
            self._refuse(stream_id, error)

    def _answer(self, stream_id: int) -> None:
        call = self._arrived(stream_id)
        if call is not None:
            task = self._loop.create_task(self._finish(stream_id, call))
            self._answering[stream_id] = call, task

    async def _finish(self, stream_id: int, call: Call) -> None:
        try:
            answer = await call.answer()
        except Exception as error:  # noqa: BLE001 - as below
            self._fail(error)
            return
        finally:
            del self._answering[stream_id]
        if not call.is_gone:
            self._safely(partial(self._reply, stream_id, answer))

    def _reply(self, stream_id: int, answer: Answer) -> None:
        self._send(stream_id, answer)
        self._rest()
        self._flush()

    def _send(self, stream_id: int, answer: Answer) -> None:
        if answer.code:
            self._end(stream_id, refusal_of(answer))
        else:
            self._unsent[stream_id] = answer
            self._send_unsent(stream_id)

    def _send_unsent(self, stream_id: int) -> None:
        """Send a response message, if there is room for it, and if there is anyone to take it."""
        answer = self._unsent.pop(stream_id)
        self._h2.if_there(stream_id, self._send_message, answer)
        if not self._unsent:
            self._stop("room")

    def _send_message(self, stream_id: int, answer: Answer) -> None:
        message = message_of(answer.body)
        if self._h2.local_flow_control_window(stream_id) < len(message):
            self._unsent[stream_id] = answer
            if "room" not in self._clocks:
                self._start("room", self._seconds, self._transport.abort)
            return
        self._h2.send_headers(stream_id, response_headers())
        self._h2.send_data(stream_id, message)
        self._end(stream_id, trailers_of(answer))

    def _end(self, stream_id: int, headers: list[tuple[bytes, bytes]]) -> None:
        if self._h2.if_there(stream_id, self._h2.send_headers, headers, end_stream=True):
            # Not for a call that is cancelled at once: those would be a flood without an end.
            self._idle_events = 0

    def _end_early(self, stream_id: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._end(stream_id, headers)
        # The client need not send the rest (RFC 9113, 8.1), when there is any.
        self._h2.if_there(stream_id, self._h2.reset_stream, ErrorCodes.NO_ERROR)

    def _refuse_late(self, stream_id: int, error: RefusedError) -> None:
        self._refuse(stream_id, error)
        self._rest()
        self._flush()

    def _refuse(self, stream_id: int, error: RefusedError) -> None:
        """End a call whose message has not come whole."""
        call = self._arrived(stream_id)
        if call is not None:
            call.refuse(error.answer)
            self._end_early(stream_id, refusal_of(error.answer))

    def _forget(self, stream_id: int) -> None:
        if stream_id in self._unsent:
            self._send_unsent(stream_id)
        call = self._arrived(stream_id)
        if call is not None:
            call.abandon()
        elif stream_id in self._answering:
            self._answering[stream_id][0].is_gone = True

    def _arrived(self, stream_id: int) -> Call | None:
        if stream_id in self._arrivals:
            self._arrivals.pop(stream_id).cancel()
        return self._arriving.pop(stream_id, None)

    def _rest(self) -> None:
        """When nothing is open: close, or wait for the next call, but not for ever."""
        if self.is_busy:
            return
        if self._is_closing:
            self._flush()
            self._transport.close()
        elif "idle" not in self._clocks:
            self._start("idle", _IDLE_SECONDS, self.go_away)

    def _close(self) -> None:
        """Say why, and go."""
        self._flush()
        self._transport.close()

    def _say_goodbye(self, error_code: ErrorCodes) -> None:
        # Past h2, which would send nothing more after it, or may be what has failed.
        last = self._h2.highest_inbound_stream_id
        self._write(GoAwayFrame(0, last_stream_id=last, error_code=error_code).serialize())

    def _flush(self) -> None:
        self._write(self._h2.data_to_send())

    def _write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _safely(self, act: Callable[[], None]) -> None:
        """Do what the event loop asks for; a fault of ours ends this connection, and no other."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - asyncio would cut it off without a word
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        _logger.error("a fault of the collector has ended a gRPC connection", exc_info=error)
        self._flush()
        self._say_goodbye(ErrorCodes.INTERNAL_ERROR)
        self._transport.close()

    def _start(self, clock: str, seconds: float, then: Callable[[], None]) -> None:
        self._stop(clock)
        self._clocks[clock] = self._loop.call_later(seconds, self._safely, then)

    def _stop(self, clock: str) -> None:
        if clock in self._clocks:
            self._clocks.pop(clock).cancel()
