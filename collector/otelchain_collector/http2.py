"""HTTP/2 (h2) as the gRPC port speaks it: within its limits, and only on streams that are there."""

from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import ConnectionTerminated, Event
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, Frame, GoAwayFrame

# What h2 holds before we count it: a frame, or a block of headers. It looks at a frame's length
# when all of it has come, and would take 16 MB.
_FRAME_BYTES: Final = 64 * 1024
_HEADER_BLOCK_BYTES: Final = 64 * 1024
#: The most of a frame or block of headers that is not whole.
MAX_UNREAD_BYTES: Final = _FRAME_BYTES + _HEADER_BLOCK_BYTES
# Of a stream and of the connection: a message of 512 spans comes without a wait.
_WINDOW_BYTES: Final = 2 * 1024 * 1024
_MAX_STREAMS: Final = 128
# The usual one (RFC 9113, 6.5.2).
_HEADER_TABLE_BYTES: Final = 4096

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

_Arguments = ParamSpec("_Arguments")


class Http2(H2Connection):
    """The frames of one connection."""

    # Those of h2's 65,536 would be 8 MB for each connection that has made as many calls.
    MAX_CLOSED_STREAMS = 1024

    def __init__(self) -> None:
        super().__init__(_CONFIG)

    def greet(self) -> None:
        """Say what the client may send."""
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: _MAX_STREAMS,
                SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: _HEADER_BLOCK_BYTES,
            },
        )
        self.max_inbound_frame_size = _FRAME_BYTES
        self.initiate_connection()
        self.increment_flow_control_window(_WINDOW_BYTES)

    @property
    def unread_bytes(self) -> int:
        """What has come of a frame or block of headers that is not whole."""
        buffer = self.incoming_buffer
        blocks = buffer._headers_buffer  # noqa: SLF001 - it has no other way to tell
        return len(buffer._data) + sum(len(frame.data) for frame in blocks)  # noqa: SLF001

    def if_there(
        self,
        stream_id: int,
        act: Callable[Concatenate[int, _Arguments], None],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> bool:
        """Do something to a stream if it is still there, and tell whether it was.

        h2 has taken in all of a read before its first event is handled: the stream of a call that
        only begins here may have been reset, or forgotten, and the connection be over. h2 then
        raises, with an error that depends on what became of the stream.
        """
        stream = self.streams.get(stream_id)
        if stream is None or stream.closed or self.state_machine.state is ConnectionState.CLOSED:
            return False
        act(stream_id, *args, **kwargs)
        return True

    def _acknowledge_settings(self) -> list[Frame]:
        frames = super()._acknowledge_settings()
        # The client may allow us 4 GiB for names and values that we have sent it before.
        self.encoder.header_table_size = min(self.encoder.header_table_size, _HEADER_TABLE_BYTES)
        return frames

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        del frame
        # h2 takes it for the end, but a client that closes still waits for its open calls.
        return [], [ConnectionTerminated()]
