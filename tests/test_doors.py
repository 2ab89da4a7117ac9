"""Where the collector listens: small answers go out at once, over both doors."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from otelchain_collector.doors import Sockets, doors_of, listening
from otelchain_collector.settings import CollectorSettings


@pytest.fixture(name="sockets")
def _sockets() -> Iterator[Sockets]:
    settings = CollectorSettings(grpc="127.0.0.1:0", http="[::1]:0")
    with listening(doors_of(settings)) as sockets:
        yield sockets


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_what_asyncio_accepts_does_not_wait_for_acknowledgements(
    sockets: Sockets, door: str
) -> None:
    server: socket.socket = getattr(sockets, door)

    async def accepted() -> int:
        options = asyncio.get_running_loop().create_future()

        class Looking(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                taken = transport.get_extra_info("socket")
                options.set_result(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        serving = await asyncio.get_running_loop().create_server(Looking, sock=server)
        host, port = server.getsockname()[:2]
        with contextlib.closing(socket.create_connection((host, port))):
            option = await options
        serving.close()
        return int(option)

    assert asyncio.run(accepted()) != 0
