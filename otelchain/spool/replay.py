"""`Replay`: one batch from its file to the collector, or out of the way."""

import logging
import threading
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan

from otelchain.spool import otlp
from otelchain.spool.files import CORRUPT, REFUSED, Spool, StoredBatch

_log = logging.getLogger("otelchain")

# Five times, with pauses of 1, 2, 4 and 8 seconds: longer than the exporters try.
_REFUSALS = 5


class Replay:
    """Send batches that the spool handed out.

    Args:
        spool: Where they are deleted or set aside, under its lock.
        lock: The spool's; it is not held while a batch is sent.
        send: Returns whether the collector took the spans.
    """

    def __init__(
        self,
        spool: Spool,
        lock: threading.Condition,
        send: Callable[[Sequence[ReadableSpan]], bool],
    ) -> None:
        self._spool = spool
        self._lock = lock
        self._send = send
        self._refusals = ("", 0)

    def is_done(self, batch: StoredBatch) -> bool:
        """Send a batch; False when it should be put back and tried again."""
        if self._is_sent(batch):
            return True
        # A failure does not say whether the collector is away or refuses this batch. An empty
        # request does, since OTLP has servers accept it. Then the batch again: perhaps the
        # collector has just come back.
        return self._send(()) and (self._is_sent(batch) or self._is_refused(batch))

    def _is_sent(self, batch: StoredBatch) -> bool:
        """Send a batch; one that cannot be read counts as sent."""
        try:
            spans = otlp.decode(batch.read())
            if len(spans) != batch.span_count:
                raise ValueError(f"it has {len(spans)} of its {batch.span_count} spans")
        except FileNotFoundError:  # Somebody emptied the spool's directory.
            spans = []
        except Exception as error:  # noqa: BLE001  # whatever is wrong with it, it must not block
            self._set_aside(batch, CORRUPT, f"it cannot be read: {error}")
            return True
        if spans and not self._send(spans):
            return False
        with self._lock:
            self._spool.delete(batch)
        return True

    def _is_refused(self, batch: StoredBatch) -> bool:
        """Count a refusal; set the batch aside when it is the only one that is refused.

        A collector whose disk is full refuses every batch and is worth waiting for. So the next one
        may overtake, after some refusals, and the first is tried once more when that was accepted.
        """
        name, times = self._refusals
        self._refusals = (batch.name, times + 1 if name == batch.name else 1)
        if self._refusals[1] < _REFUSALS:
            return False
        with self._lock:
            other = self._spool.take()
        if other is None:
            return False
        if not self._is_sent(other):
            with self._lock:
                self._spool.put_back(other)
            return False
        if not self._is_sent(batch):
            self._set_aside(batch, REFUSED, "the collector refuses it and accepts others")
        return True

    def _set_aside(self, batch: StoredBatch, suffix: str, reason: str) -> None:
        _log.warning("spooled batch %s is set aside as %s: %s", batch.path, suffix, reason)
        with self._lock:
            self._spool.set_aside(batch, suffix)
