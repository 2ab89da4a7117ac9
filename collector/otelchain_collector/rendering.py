"""Answers written out within a budget of bytes that all of them share, and sent in pieces.

Memory so depends neither on how many ask nor on how slowly they read.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from otelchain_collector.budget import Reservation

ARROW: Final = "application/vnd.apache.arrow.stream"
JSON: Final = "application/json"
_PIECE_BYTES: Final = 256 * 1024
# Beyond the time for the first: a reader takes the largest answer in 94 s, or leaves its room.
_BYTES_PER_SECOND: Final = 1024 * 1024

_logger = logging.getLogger(__name__)


class Written(Protocol):
    """An answer as it travels."""

    @property
    def body(self) -> bytes:
        """What is sent."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether the limit left rows out."""
        ...


#: Where a question is asked: a cursor, or a session of another process.
Place = TypeVar("Place")


class Rendering(Generic[Place]):
    """Makes the response where the question is answered, not on the event loop.

    Args:
        ask: Gives the answer, and adds its bytes to the reservation.
        reservation: Given back when the response is sent, or when nobody wants it any more.
        media_type: Of the answer.
        taking_seconds: Time for the asker to take the first MiB; each further one has a second.
    """

    def __init__(
        self,
        ask: Callable[[Place], Written],
        reservation: Reservation,
        media_type: str,
        taking_seconds: float,
    ) -> None:
        self._ask = ask
        self._reservation = reservation
        self._media_type = media_type
        self._taking_seconds = taking_seconds
        self._lock = threading.Lock()
        self._is_done = False
        self._is_abandoned = False

    def __call__(self, place: Place) -> Response:
        """Ask, and write the answer out."""
        try:
            response = self._response(self._ask(place))
        except BaseException:
            self._reservation.release()
            raise
        with self._lock:
            self._is_done = True
            if self._is_abandoned:
                self._reservation.release()
        return response

    def abandon(self) -> None:
        """Nobody will send the response, whether it is made already or not."""
        with self._lock:
            self._is_abandoned = True
            if self._is_done:
                self._reservation.release()

    def _response(self, answer: Written) -> Response:
        body = answer.body
        seconds = self._taking_seconds + len(body) / _BYTES_PER_SECOND
        headers = {"otelchain-has-more": str(answer.has_more).lower()}
        return _InPieces(
            body, self._reservation, seconds, headers=headers, media_type=self._media_type
        )


class _InPieces(Response):
    def __init__(
        self, content: bytes, reservation: Reservation, seconds: float, **options: Any
    ) -> None:
        super().__init__(content, **options)
        self._reservation = reservation
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        """Send each piece when the client has taken those before it; then give the bytes back."""
        try:
            # Each piece has a deadline besides (limits.py), but who takes a little of each could
            # keep the others from their answers for hours.
            await asyncio.wait_for(self._send(send), self._seconds)
        except asyncio.TimeoutError:
            _logger.info("an answer was not taken within %.0f seconds", self._seconds)
        finally:
            self._reservation.release()

    async def _send(self, send: Send) -> None:
        body = memoryview(self.body)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for place in range(0, len(body), _PIECE_BYTES):
            piece = bytes(body[place : place + _PIECE_BYTES])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
