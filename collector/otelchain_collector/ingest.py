"""From a request's bytes (receivers) to its acknowledgement: decode, commit."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from otelchain_collector.budget import ByteBudget, Reservation
from otelchain_collector.decoding import EncodedRequest, decode_request
from otelchain_collector.process import give_way, leave_out_of_collections
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.signals import Signal
from otelchain_collector.warm_up import warm_up
from otelchain_collector.writer import Outcome, Writer

#: Returns one request; gets the reservation, to hold what it inflates.
Read = Callable[[Reservation], EncodedRequest]


class Ingest:
    """What both receivers hand their requests to; its methods run on the event loop."""

    def __init__(
        self,
        writer: Writer,
        budget: ByteBudget,
        max_attribute_bytes: int,
        redaction: Redaction | None,
    ) -> None:
        self.budget = budget
        self._redaction = redaction
        self._max_attribute_bytes = max_attribute_bytes
        self._writer = writer
        # Decoding is Python and holds the interpreter, so more threads would not be faster; off the
        # event loop, a large request does not hold up health checks and other requests.
        self._decoding = ThreadPoolExecutor(1, "otelchain-decode", initializer=give_way)

    async def warm_up(self) -> None:
        """Load what decoding needs; whoever says that it is ready should have done so."""
        await asyncio.get_running_loop().run_in_executor(self._decoding, self._warm_up)

    async def accept(self, signal: Signal, read: Read, reservation: Reservation) -> Outcome:
        """Decode a request and wait until its records are committed.

        Takes over the reservation.

        Raises:
            QueueFullError: It does not fit into the budget.
            StoreUnavailableError: The commit failed; the sender should retry.
            Exception: What ``read`` raises.
        """
        loop = asyncio.get_running_loop()
        self._writer.expect(reservation)
        try:
            acknowledgement = await loop.run_in_executor(
                self._decoding, self._submit, signal, read, reservation
            )
        except BaseException:
            self._writer.forget(reservation)
            reservation.release()
            raise
        return await asyncio.wrap_future(acknowledgement)

    def close(self) -> None:
        """End the decoding thread; what it still had to do was never acknowledged."""
        self._decoding.shutdown(cancel_futures=True)

    def _warm_up(self) -> None:
        warm_up(self._max_attribute_bytes, self._redaction)
        leave_out_of_collections()

    def _submit(self, signal: Signal, read: Read, reservation: Reservation) -> "Future[Outcome]":
        # From here to the writer without a turn of the event loop, which may be busy.
        encoded = read(reservation)
        decoded = decode_request(
            signal, encoded, time.time_ns(), self._max_attribute_bytes, self._redaction
        )
        reservation.hold_records(decoded.count)
        return self._writer.submit(decoded, reservation)
