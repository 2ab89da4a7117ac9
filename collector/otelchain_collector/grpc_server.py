"""The gRPC port: takes connections until it is told to stop, then lets open calls end."""

import asyncio
import socket
from functools import partial

from otelchain_collector.admission import Door, Visitor
from otelchain_collector.grpc_connection import GrpcConnection
from otelchain_collector.receive_grpc import GrpcReceiver

# Frames of the last answers, after the drain.
_LAST_WORDS_SECONDS = 0.2


class GrpcServer:
    """The server.

    Args:
        receiver: Takes the calls.
        door: Who comes in.
        request_seconds: For a call to arrive.
    """

    def __init__(self, receiver: GrpcReceiver, door: Door, request_seconds: float) -> None:
        self._receiver = receiver
        self._door = door
        self._request_seconds = request_seconds
        self._connections: set[GrpcConnection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Take connections from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            partial(Visitor, self._door, self._connection), sock=listening
        )

    async def stop(self, seconds: float) -> None:
        """Take no more; what is not answered within this time is told to come again."""
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.go_away()
        await self._all_gone(seconds)
        for connection in list(self._connections):
            connection.cut_off()
        await self._all_gone(_LAST_WORDS_SECONDS)
        for connection in list(self._connections):
            connection.abort()

    async def _all_gone(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)

    def _connection(self) -> GrpcConnection:
        connection = GrpcConnection(
            self._receiver, self._request_seconds, self._connections.discard
        )
        self._connections.add(connection)
        return connection
