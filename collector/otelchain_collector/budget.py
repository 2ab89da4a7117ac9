"""How many bytes of requests may wait at once; what does not fit is answered "try again later"."""

import threading

from otelchain_collector.errors import CollectorError

# A full queue takes three times as much memory: a record of nothing is some 700 bytes.
_LEAST_RECORD_BYTES = 256


class QueueFullError(CollectorError):
    """The collector holds as many bytes as it may; the sender should retry in a moment."""


class ByteBudget:
    """Counts the bytes of all requests between their first byte and their commit; thread-safe.

    When it is used up, new bytes are refused at once: nothing waits for room.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._used_bytes = 0
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes of the requests that are held now."""
        return self._used_bytes

    def reserve(self) -> "Reservation":
        """Start a request that holds nothing yet."""
        return Reservation(self)

    def take(self, size_bytes: int) -> None:
        """Hold more bytes.

        Raises:
            QueueFullError: They do not fit; nothing was taken.
        """
        with self._lock:
            if self._used_bytes + size_bytes > self.limit_bytes:
                raise QueueFullError("the collector's queue is full; try again in a second")
            self._used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Hold fewer bytes."""
        with self._lock:
            self._used_bytes -= size_bytes


class Reservation:
    """The bytes that one request holds; one owner at a time."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._held_bytes = 0

    def add(self, size_bytes: int) -> None:
        """Hold more bytes, or raise QueueFullError."""
        self._budget.take(size_bytes)
        self._held_bytes += size_bytes

    def hold_records(self, count: int) -> None:
        """Hold what so many decoded records take, where that is more than their bytes.

        Raises:
            QueueFullError: It does not fit.
        """
        # At most a quarter, as a request may have: what can never fit would be sent for ever.
        most = max(0, self._budget.limit_bytes // 4 - self._held_bytes)
        self.add(min(max(0, count * _LEAST_RECORD_BYTES - self._held_bytes), most))

    def release(self) -> None:
        """Give everything back; a second call changes nothing."""
        held, self._held_bytes = self._held_bytes, 0
        self._budget.give_back(held)
