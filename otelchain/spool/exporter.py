"""`SpoolingExporter`: batches to the collector by way of the sender, or to the spool."""

import logging
import os
import threading
import weakref
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otelchain.spool import otlp
from otelchain.spool.files import Spool
from otelchain.spool.sender import Attempt, Sender

_log = logging.getLogger("otelchain")

# The batch processor keeps 2,048 spans while it waits; a collector that works answers in a tenth.
_PATIENCE_SECONDS = 1.0
# Where nothing can be written, a batch waits as long as the exporters try (10 s unless set longer).
_UNSPOOLED_SECONDS = 60.0
_DRAIN_SECONDS = 5.0


class SpoolingExporter(SpanExporter):
    """Export through another exporter, and keep on disk what it does not get rid of.

    `export` may be called from any thread, one batch at a time; the other exporter is called from
    the sender's thread only.

    Args:
        exporter: What sends; it retries for some seconds and reports success or failure.
        spool: Where batches wait.
    """

    def __init__(self, exporter: SpanExporter, spool: Spool) -> None:
        self._sender = Sender(exporter, spool)
        self._one_at_a_time = threading.Lock()
        self._disk_failed = False
        after_fork = weakref.WeakMethod(self._after_fork)
        os.register_at_fork(after_in_child=lambda: (method := after_fork()) and method())
        # At once: an earlier process may have left something.
        self._sender.start()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch or put it into the spool; both are a success.

        It takes a second and the writing of one file at most, unless the disk takes nothing.
        """
        attempt = Attempt(spans)
        with self._one_at_a_time:
            self._sender.start()
            done = (
                (self._sender.is_free() and self._sender.offer(attempt, _PATIENCE_SECONDS))
                or self._store(attempt)
                or self._sender.offer(attempt, _UNSPOOLED_SECONDS)
            )
        return SpanExportResult.SUCCESS if done else SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Wait until the collector has everything; say whether it has."""
        return self._sender.wait_until_free(timeout_millis / 1000)

    def shutdown(self, timeout_millis: float = 30000) -> None:
        """Send on for five seconds at most while the collector takes it; the rest stays on disk."""
        self._sender.stop(min(_DRAIN_SECONDS, timeout_millis / 1000))

    def _store(self, attempt: Attempt) -> bool:
        try:
            stored = self._sender.store(attempt, otlp.encode(attempt.spans))
        except Exception as error:  # noqa: BLE001  # whatever it is, the batch can still be sent
            if not self._disk_failed:
                _log.warning("spans cannot be spooled: %s", error)
            self._disk_failed = True
            return False
        self._disk_failed = False
        return stored

    def _after_fork(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._sender.after_fork()
