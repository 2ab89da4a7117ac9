"""How a connection comes in at either port: counted at once, its handshake under a clock.

A client that opens sockets and says nothing, or never ends its TLS handshake, has its place in the
count from the first moment, and loses it when its time is over.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

#: What a connection is once it has come in.
MakeProtocol = Callable[[], asyncio.Protocol]

# Whatever a client does not take at once starts the clock of its protocol (`pause_writing`): with
# asyncio's 64 KiB a last short answer could wait for ever. With 0, TLS would always be paused.
_MOST_UNSENT_BYTES: Final = 1
# After each read the event loop waits for other threads (5 ms of Python's each time), so that it
# should be as much as has come; asyncio reads 256 KiB.
_READ_BYTES: Final = 1024 * 1024


class Door:
    """The rules of one port, and how many connections it has.

    Args:
        max_connections: Beyond it connections are closed at once.
        seconds: For the TLS handshake.
        tls: None for an unencrypted port.
        refusal: What is said to a connection too many, where it can be read without TLS.
    """

    def __init__(
        self, max_connections: int, seconds: float, tls: ssl.SSLContext | None, refusal: bytes = b""
    ) -> None:
        self.max_connections: Final = max_connections
        self.seconds: Final = seconds
        self.tls: Final = tls
        self.refusal: Final = refusal
        self.connections = 0
        self.buffer: Final = memoryview(bytearray(_READ_BYTES))
        self.handshakes: set[asyncio.Task[None]] = set()


class Visitor(asyncio.BufferedProtocol):
    """One connection: comes in through the door, then everything goes to its own protocol."""

    def __init__(self, door: Door, make_protocol: MakeProtocol) -> None:
        self._door = door
        self._make_protocol = make_protocol
        self._inner: asyncio.Protocol | None = None
        self._is_counted = False
        # What a client sends right behind its handshake can arrive before the handshake's result.
        self._early = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, or close the connection."""
        assert isinstance(transport, asyncio.Transport)
        if self._door.connections >= self._door.max_connections:
            if self._door.tls is None:
                transport.write(self._door.refusal)
            transport.close()
            return
        self._door.connections += 1
        self._is_counted = True
        transport.set_write_buffer_limits(_MOST_UNSENT_BYTES)
        if self._door.tls is None:
            self._come_in(transport)
            return
        handshake = asyncio.get_running_loop().create_task(
            self._shake_hands(transport, self._door.tls)
        )
        self._door.handshakes.add(handshake)
        handshake.add_done_callback(self._door.handshakes.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._leave()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return where the next bytes go; they are passed on before anything else is read."""
        return self._door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on."""
        data = bytes(self._door.buffer[:nbytes])
        if self._inner is None:
            self._early += data
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass on."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        if self._inner is not None:
            self._inner.resume_writing()

    async def _shake_hands(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(
                transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=self._door.seconds,
            )
        except (OSError, asyncio.CancelledError):
            # Clients that do not trust us, scanners, silence: nothing that a log should fill with.
            transport.abort()
            self._leave()
            return
        if secure is None or secure.is_closing():
            self._leave()
            return
        secure.set_write_buffer_limits(_MOST_UNSENT_BYTES)
        self._come_in(secure)

    def _come_in(self, transport: asyncio.Transport) -> None:
        self._inner = self._make_protocol()
        self._inner.connection_made(transport)
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            self._inner.data_received(early)

    def _leave(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._door.connections -= 1
