"""One HTTP/2 connection of a gRPC client: frames (h2) in, calls for `receive_grpc`, answers out.

Bytes are counted as they come, before anything else holds them: a message that finds no room is
refused at its first piece, and its client stops sending it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
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
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, Frame, GoAwayFrame

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
from otelchain_collector.receive_grpc import Call, GrpcReceiver

# What h2 holds before we count it: a frame, or a block of headers. It looks at a frame's length
# when all of it has come, and would take 16 MB.
_FRAME_BYTES: Final = 64 * 1024
_HEADER_BLOCK_BYTES: Final = 64 * 1024
_MAX_UNREAD_BYTES: Final = _FRAME_BYTES + _HEADER_BLOCK_BYTES
# Of a stream and of the connection: a message of 512 spans comes without a wait.
_WINDOW_BYTES: Final = 2 * 1024 * 1024
_MAX_STREAMS: Final = 128
# Pings, settings, resets and empty frames without an answer between them.
_MAX_IDLE_EVENTS: Final = 1_000
_IDLE_SECONDS: Final = 15 * 60.0
# Balances clients anew, and ends what a certificate or leak has kept open.
_AGE_SECONDS: Final = 60 * 60.0

_CONFIG: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    # Ours are right as they are.
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)

# h2 writes each frame for its log, which nobody reads, that of data as hex: 1.8 ms a message of 512
# spans with it, 0.7 without.
DataFrame.__repr__ = object.__repr__  # type: ignore[method-assign]


class _H2(H2Connection):
    # Those of h2's 65,536 would be 8 MB for each connection that has made as many calls.
    MAX_CLOSED_STREAMS = 1024

    @property
    def unread_bytes(self) -> int:
        """What has come of a frame or block of headers that is not whole."""
        buffer = self.incoming_buffer
        blocks = buffer._headers_buffer  # noqa: SLF001 - it has no other way to tell
        return len(buffer._data) + sum(len(frame.data) for frame in blocks)  # noqa: SLF001

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        del frame
        # h2 takes it for the end, but a client that closes still waits for its open calls.
        return [], [ConnectionTerminated()]


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
        self._h2 = _H2(_CONFIG)
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
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: _MAX_STREAMS,
                SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: _HEADER_BLOCK_BYTES,
            },
        )
        self._h2.max_inbound_frame_size = _FRAME_BYTES
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_BYTES)
        self._start("arrival", self._seconds, transport.abort)
        self._start("age", _AGE_SECONDS, self.go_away)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Let go of what has not come whole; what has is stored."""
        for clock in (*self._clocks.values(), *self._arrivals.values()):
            clock.cancel()
        for call in self._arriving.values():
            call.abandon()
        for call, _ in self._answering.values():
            call.is_gone = True
        self._arriving.clear()
        self._arrivals.clear()
        self._unsent.clear()
        self._ended(self)

    def data_received(self, data: bytes) -> None:
        """Handle what has come."""
        if self._transport.is_closing():
            return
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._close()
            return
        self._idle_events += len(events)
        unread_bytes = self._h2.unread_bytes
        if unread_bytes > _MAX_UNREAD_BYTES or self._idle_events > _MAX_IDLE_EVENTS:
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
        # Past h2, which would send nothing more after it.
        frame = GoAwayFrame(0, last_stream_id=self._h2.highest_inbound_stream_id)
        self._transport.write(frame.serialize())
        self._rest()

    def cut_off(self) -> None:
        """End what is still open, with an answer that asks for another try."""
        for stream_id in list(self._arriving):
            self._refuse(stream_id, try_again("the collector is stopping; try again in a second"))
        for _, task in self._answering.values():
            task.cancel()
        self._flush()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

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
            for stream_id, answer in list(self._unsent.items()):
                self._send(stream_id, answer)
        elif isinstance(event, ConnectionTerminated):
            self._is_closing = True

    def _begin(self, stream_id: int, headers: Any) -> None:
        self._stop("idle")
        if self._is_closing:
            # Nothing of it was looked at: gRPC's clients send it again over a new connection.
            self._h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
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
                self._seconds, self._refuse_late, stream_id, late
            )

    def _take(self, stream_id: int, data: bytes, length: int) -> None:
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
        answer = await call.answer()
        del self._answering[stream_id]
        if not call.is_gone:
            self._send(stream_id, answer)
            self._rest()
            self._flush()

    def _send(self, stream_id: int, answer: Answer) -> None:
        if answer.code:
            self._end(stream_id, refusal_of(answer))
            return
        message = message_of(answer.body)
        if self._h2.local_flow_control_window(stream_id) < len(message):
            self._unsent[stream_id] = answer
            if "room" not in self._clocks:
                self._start("room", self._seconds, self._transport.abort)
            return
        self._unsent.pop(stream_id, None)
        if not self._unsent:
            self._stop("room")
        self._h2.send_headers(stream_id, response_headers())
        self._h2.send_data(stream_id, message)
        self._end(stream_id, trailers_of(answer))

    def _end(self, stream_id: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._idle_events = 0
        self._h2.send_headers(stream_id, headers, end_stream=True)

    def _end_early(self, stream_id: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._end(stream_id, headers)
        # The client need not send the rest (RFC 9113, 8.1), when there is any.
        with suppress(StreamClosedError):
            self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)

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
        self._unsent.pop(stream_id, None)
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

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _start(self, clock: str, seconds: float, then: Callable[[], None]) -> None:
        self._stop(clock)
        self._clocks[clock] = self._loop.call_later(seconds, then)

    def _stop(self, clock: str) -> None:
        if clock in self._clocks:
            self._clocks.pop(clock).cancel()
