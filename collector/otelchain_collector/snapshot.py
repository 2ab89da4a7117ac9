"""GET /snapshot: the database as it is now, while the collector goes on collecting.

What a checkpoint has written stays as it is until the next one: commits go into the log. So the
writer makes a checkpoint and then none until the file has been sent; a header that has changed in
the end says that it had to.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.hosts import AllowedHosts, WrongHostError
from otelchain_collector.statuses import RETRY_AFTER_SECONDS
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

_PIECE_BYTES: Final = 1024 * 1024
# Offset and size of the two headers that checkpoints write in turn, each with its number.
_HEADERS: Final = (4096, 8192)

_logger = logging.getLogger(__name__)


class SnapshotSpoiledError(Exception):
    """A checkpoint came while the file was being sent; the receiver sees the connection end."""


def route(writer: Writer, store: Store, allowed_hosts: Collection[str]) -> Route:
    """Return the route; ``allowed_hosts`` as in hosts.py."""
    snapshots = _Snapshots(writer, store, AllowedHosts(allowed_hosts))
    return Route("/snapshot", snapshots.send, methods=["GET"])


class _Snapshots:
    def __init__(self, writer: Writer, store: Store, hosts: AllowedHosts) -> None:
        self._writer, self._store, self._hosts = writer, store, hosts

    async def send(self, request: Request) -> Response:
        try:
            self._hosts.check(request)
            size = await asyncio.wrap_future(self._writer.between_commits(self._begin))
        except WrongHostError as error:
            return Response(orjson.dumps({"error": str(error)}), 400, media_type="application/json")
        except StoreUnavailableError as error:
            again = {"retry-after": str(RETRY_AFTER_SECONDS)}
            text = orjson.dumps({"error": f"no snapshot now: {error}"})
            return Response(text, 503, again, media_type="application/json")
        headers = {"content-length": str(size)}
        return _Sending(self._pieces(size), self._end, headers)

    def _begin(self) -> int:
        """Return the size of the file, which no checkpoint changes from now on."""
        if self._writer.checkpoints_held:
            raise StoreUnavailableError("another one is being sent")
        self._store.mend()
        self._store.checkpoint()
        self._writer.hold_checkpoints()
        return self._store.database_bytes()

    def _end(self) -> None:
        self._writer.between_commits(self._writer.release_checkpoints)

    async def _pieces(self, size: int) -> AsyncIterator[bytes]:
        headers = await self._read(*_HEADERS)
        for position in range(0, size, _PIECE_BYTES):
            piece = await self._read(position, min(_PIECE_BYTES, size - position))
            # The last piece goes only when all of them belong together.
            if position + len(piece) >= size and headers != await self._read(*_HEADERS):
                _logger.warning("a snapshot failed: a checkpoint had to be made before it was sent")
                raise SnapshotSpoiledError
            yield piece

    async def _read(self, offset: int, size: int) -> bytes:
        return await asyncio.to_thread(self._store.read_file, offset, size)


class _Sending(StreamingResponse):
    """A file on its way; ``end`` is called also when nobody waits for its first byte."""

    media_type = "application/vnd.duckdb"

    def __init__(
        self, pieces: AsyncIterator[bytes], end: Callable[[], None], headers: dict[str, str]
    ) -> None:
        super().__init__(pieces, headers=headers)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()
