"""Answers written out within a budget of bytes that all of them share, and sent in pieces.

Memory so depends neither on how many ask nor on how slowly they read.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import duckdb
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from otelchain_collector.answers import Answer, ArrowAnswer
from otelchain_collector.budget import Reservation

ARROW: Final = "application/vnd.apache.arrow.stream"
JSON: Final = "application/json"
_PIECE_BYTES: Final = 256 * 1024

Ask = Callable[[duckdb.DuckDBPyConnection], Answer | ArrowAnswer]


class Rendering:
    """Makes the response in the reader's thread, not on the event loop.

    Args:
        ask: Gives the answer, and adds its bytes to the reservation.
        reservation: Given back when the response is sent, or when nobody wants it any more.
    """

    def __init__(self, ask: Ask, reservation: Reservation) -> None:
        self._ask = ask
        self._reservation = reservation
        self._lock = threading.Lock()
        self._is_done = False
        self._is_abandoned = False

    def __call__(self, cursor: duckdb.DuckDBPyConnection) -> Response:
        """Ask, and write the answer out."""
        try:
            response = self._response(self._ask(cursor))
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

    def _response(self, answer: Answer | ArrowAnswer) -> Response:
        headers = {"otelchain-has-more": str(answer.has_more).lower()}
        if isinstance(answer, ArrowAnswer):
            return _InPieces(answer.stream, self._reservation, headers=headers, media_type=ARROW)
        return _InPieces(answer.to_json(), self._reservation, headers=headers, media_type=JSON)


class _InPieces(Response):
    def __init__(self, content: bytes, reservation: Reservation, **options: Any) -> None:
        super().__init__(content, **options)
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        """Send each piece when the client has taken those before it; then give the bytes back."""
        body = memoryview(self.body)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for place in range(0, len(body), _PIECE_BYTES):
                piece = bytes(body[place : place + _PIECE_BYTES])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._reservation.release()
