"""/snapshot: the database as it is now, while the collector goes on collecting.

What a checkpoint has written stays as it is until the next one: commits go into the log. So the
writer makes a checkpoint and then none until the file has been sent; a header that has changed in
the end says that it had to.

GET sends the file. Whoever did not get it whole, because the log grew too large meanwhile, POSTs
the checksums of the blocks that have arrived, and gets those that are others now. Each round is
shorter than the one before, so that it ends also under load that goes on.
"""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from otelchain_collector.api_requests import AGAIN, Refused, error_answer
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.hosts import AllowedHosts, WrongHostError
from otelchain_collector.open_database import OpenDatabase
from otelchain_collector.writer import Writer

_PIECE_BYTES: Final = 1024 * 1024
# Offset and size of the two headers that checkpoints write in turn, each with its number.
_HEADERS: Final = (4096, 8192)

#: Where the blocks of the file begin, behind the headers, and how large they are.
BLOCKS_START: Final = 12_288
BLOCK_BYTES: Final = 262_144
#: Each block begins with its checksum.
CHECKSUM_BYTES: Final = 8
#: Before each piece: where it stands in the file, and how long it is. A piece of no bytes stands
#: at the end of the file, and is the last one.
FRAME: Final = struct.Struct("<QI")
_BLOCKS_AT_A_TIME: Final = 64
_MOST_CHECKSUMS_BYTES: Final = 2**40 // BLOCK_BYTES * CHECKSUM_BYTES
_ANOTHER: Final = "another one is being sent"

_logger = logging.getLogger(__name__)


class SnapshotSpoiledError(Exception):
    """A checkpoint came while the file was being sent; the receiver sees the connection end."""


def route(writer: Writer, database: OpenDatabase, allowed_hosts: Collection[str]) -> Route:
    """Return the route; ``allowed_hosts`` as in hosts.py."""
    snapshots = _Snapshots(writer, database, AllowedHosts(allowed_hosts))
    return Route("/snapshot", snapshots.send, methods=["GET", "POST"])


class _Snapshots:
    def __init__(self, writer: Writer, database: OpenDatabase, hosts: AllowedHosts) -> None:
        self._writer, self._database, self._hosts = writer, database, hosts
        self._one_at_a_time = asyncio.Lock()

    async def send(self, request: Request) -> Response:
        try:
            self._hosts.check(request)
            if request.method == "POST":
                return await self._rest(request)
            size = await self._begun()
        except WrongHostError as error:
            return error_answer(400, str(error))
        except Refused as refused:
            return refused.answer()
        except StoreUnavailableError as error:
            return error_answer(503, f"no snapshot now: {error}", AGAIN)
        except ClientDisconnect:
            return Response(status_code=400)  # Nobody is there to read it.
        headers = {"content-length": str(size)}
        return _Sending(self._pieces(size), self._end, headers)

    async def _rest(self, request: Request) -> Response:
        # Before the body is read: beside those of the one that is sent, there are the checksums of
        # one request at most.
        if self._writer.checkpoints.is_copied or self._one_at_a_time.locked():
            raise StoreUnavailableError(_ANOTHER)
        async with self._one_at_a_time:
            blocks = -(-self._database.file_bytes() // BLOCK_BYTES)
            known = await _checksums(request, blocks * CHECKSUM_BYTES)
            size = await self._begun()
        return _Sending(self._frames(size, known), self._end, {})

    async def _begun(self) -> int:
        return await asyncio.wrap_future(self._writer.between_commits(self._begin))

    def _begin(self) -> int:
        """Return the size of the file, which no checkpoint changes from now on."""
        if self._writer.checkpoints.is_copied:
            raise StoreUnavailableError(_ANOTHER)
        self._database.mend()
        self._database.checkpoint()
        self._writer.checkpoints.hold()
        return self._database.file_bytes()

    def _end(self) -> None:
        self._writer.between_commits(self._writer.checkpoints.release)

    async def _pieces(self, size: int) -> AsyncIterator[bytes]:
        headers = await self._read(*_HEADERS)
        for position in range(0, size, _PIECE_BYTES):
            piece = await self._read(position, min(_PIECE_BYTES, size - position))
            # The last piece goes only when all of them belong together.
            if position + len(piece) >= size:
                await self._check(headers)
            yield piece

    async def _frames(self, size: int, known: bytes) -> AsyncIterator[bytes]:
        """Yield the blocks whose checksums are not the known ones, then the headers, then the end.

        Without the headers, which come last, what was sent is no database.
        """
        headers = await self._read(*_HEADERS)
        step = BLOCK_BYTES * _BLOCKS_AT_A_TIME
        for position in range(BLOCKS_START, size, step):
            end = min(size, position + step)
            yield await asyncio.to_thread(self._changed, position, end, known)
        first = await self._read(0, BLOCKS_START)
        await self._check(headers)
        yield FRAME.pack(0, len(first)) + first + FRAME.pack(size, 0)

    def _changed(self, first: int, end: int, known: bytes) -> bytes:
        frames = bytearray()
        for position in range(first, end, BLOCK_BYTES):
            place = (position - BLOCKS_START) // BLOCK_BYTES * CHECKSUM_BYTES
            checksum = self._database.read_file(position, CHECKSUM_BYTES)
            if checksum != known[place : place + CHECKSUM_BYTES]:
                block = self._database.read_file(position, min(BLOCK_BYTES, end - position))
                frames += FRAME.pack(position, len(block)) + block
        return bytes(frames)

    async def _check(self, headers: bytes) -> None:
        if headers != await self._read(*_HEADERS):
            _logger.warning("a checkpoint had to be made before a snapshot was sent")
            raise SnapshotSpoiledError

    async def _read(self, offset: int, size: int) -> bytes:
        return await asyncio.to_thread(self._database.read_file, offset, size)


async def _checksums(request: Request, most_bytes: int) -> bytes:
    """Return the checksums of the blocks that the file has; what comes behind them is dropped.

    The file may have become shorter since the receiver got it.
    """
    known = bytearray()
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > _MOST_CHECKSUMS_BYTES:
            raise Refused(413, "more checksums than a file of 1 TiB has blocks")
        known += piece[: most_bytes - len(known)]
    return bytes(known)


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
