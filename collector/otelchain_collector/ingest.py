"""From a request's bytes (receivers) to its acknowledgement: parse, decode, commit."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from otelchain_collector.attribute_limit import cut_long_values
from otelchain_collector.budget import ByteBudget, Reservation
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.decode_metrics import decode_metrics
from otelchain_collector.otlp_request import OtlpRequest
from otelchain_collector.signals import LOGS, METRICS, TRACES, Signal
from otelchain_collector.writer import Outcome, Writer

#: Reads one request; gets the reservation, to hold what it inflates, and the time of arrival.
Read = Callable[[Reservation, int], OtlpRequest]

_DECODERS: dict[str, Callable[[Any, int], Decoded]] = {
    TRACES.name: decode,
    LOGS.name: decode_logs,
    METRICS.name: decode_metrics,
}

_logger = logging.getLogger(__name__)


class Ingest:
    """What both receivers hand their requests to; its methods run on the event loop."""

    def __init__(self, writer: Writer, budget: ByteBudget, max_attribute_bytes: int) -> None:
        self.budget = budget
        self._max_attribute_bytes = max_attribute_bytes
        self._writer = writer
        # Decoding is Python and holds the interpreter, so more threads would not be faster; off the
        # event loop, a large request does not hold up health checks and other requests.
        self._decoding = ThreadPoolExecutor(1, thread_name_prefix="otelchain-decode")

    async def accept(self, signal: Signal, read: Read, reservation: Reservation) -> Outcome:
        """Decode a request and wait until its records are committed.

        Takes over the reservation.

        Raises:
            QueueFullError: It does not fit into the budget.
            StoreUnavailableError: The commit failed; the sender should retry.
            Exception: What ``read`` raises.
        """
        loop = asyncio.get_running_loop()
        try:
            decoded = await loop.run_in_executor(
                self._decoding, self._decode, signal, read, reservation
            )
        except BaseException:
            reservation.release()
            raise
        return await asyncio.wrap_future(self._writer.submit(decoded, reservation))

    def close(self) -> None:
        """End the decoding thread; what it still had to do was never acknowledged."""
        self._decoding.shutdown(cancel_futures=True)

    def _decode(self, signal: Signal, read: Read, reservation: Reservation) -> Decoded:
        received_time_unix_nano = time.time_ns()
        request = read(reservation, received_time_unix_nano)
        if request.size_bytes > self._max_attribute_bytes:
            count = cut_long_values(request.message, self._max_attribute_bytes)
            if count:
                _logger.warning("cut %d values of more than --max-attribute-bytes", count)
        decoded = _DECODERS[signal.name](request.message, received_time_unix_nano)
        decoded.rejected.extend(request.unreadable)
        return decoded
