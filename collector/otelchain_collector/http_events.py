"""What h11 reads of an HTTP connection, without what uvicorn's loop over it cannot take."""

import re
from typing import Any, Final

import h11

_EMPTY_LINES: Final = re.compile(rb"[\r\n]*")


class HttpEvents(h11.Connection):
    """The events of a connection.

    RFC 9112, 2.2: empty lines before a request are ignored, wherever they come: alone, in pieces,
    behind the request before, or while that is still being answered.
    """

    def receive_data(self, data: bytes) -> None:
        """Take bytes; none are nothing.

        To h11 they are the end of the connection, of which asyncio tells otherwise; uvicorn, which
        asks for events until more is needed, would then be told of the end for ever.
        """
        if data:
            super().receive_data(data)

    def next_event(self) -> Any:
        """Return the next event, or that there is none yet."""
        if self.their_state is h11.IDLE:
            buffer = self._receive_buffer
            # Matched where it lies: of many pipelined requests each would copy all that follow.
            empty = _EMPTY_LINES.match(buffer._data)  # noqa: SLF001 - it has no other way to tell
            if empty is not None and empty.end():
                buffer.maybe_extract_at_most(empty.end())
        return super().next_event()

    @property
    def is_resting(self) -> bool:
        """Whether nothing of a request is there: before the first, or between two."""
        return self.their_state is h11.IDLE and not self._receive_buffer

    @property
    def is_arriving(self) -> bool:
        """Whether a request is partly there."""
        state = self.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self._receive_buffer))

    @property
    def has_no_more_requests(self) -> bool:
        """Whether the last request said ``Connection: close``, or is of HTTP/1.0."""
        return self.their_state in (h11.MUST_CLOSE, h11.CLOSED)
