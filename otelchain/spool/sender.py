"""`Sender`: the thread that sends the batch at hand or the oldest one of the spool."""

import logging
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otelchain.spool.files import Spool, StoredBatch
from otelchain.spool.outage import Outage
from otelchain.spool.replay import Replay

_log = logging.getLogger("otelchain")

_ADOPT_SECONDS = 60.0


@dataclass
class Attempt:
    """A batch in memory that goes straight to the collector.

    `stored` is its file, if it was spooled before the collector answered.
    """

    spans: Sequence[ReadableSpan]
    offered: bool = False
    accepted: bool | None = None
    stored: StoredBatch | None = None


class Sender:
    """Send one batch after the other; pause when the collector takes none.

    Every method may be called from any thread.
    """

    def __init__(self, exporter: SpanExporter, spool: Spool) -> None:
        self._exporter = exporter
        self._spool = spool
        self._reset()

    def _reset(self) -> None:
        # All that follows, and the spool, is touched under this lock only.
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._attempt: Attempt | None = None
        self._sending = False
        self._outage = Outage(self._spool.root)
        self._adopt_at = 0.0  # time.monotonic(), as is `_stop_at`; 0 is never yet
        self._stop_at: float | None = None
        self._stopped = False
        self._replay = Replay(self._spool, self._changed, self._send)

    def after_fork(self) -> None:
        """Start anew in a forked child, whose parent goes on with what there was."""
        self._reset()
        self._spool.forget()

    def start(self) -> None:
        """Start the thread if it does not run; at exit Python may allow no new one."""
        with self._changed:
            if self._thread is None and self._stop_at is None:
                thread = threading.Thread(target=self._run, name="OtelchainSpool", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._thread = thread

    def is_free(self) -> bool:
        """Say whether a batch would be sent at once, with none before it."""
        with self._changed:
            return not self._is_busy() and not self._outage

    def wait_until_free(self, seconds: float) -> bool:
        """Wait until the collector has everything; say whether it has."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._adopt_at > 0 and not self._is_busy(), seconds
            )

    def offer(self, attempt: Attempt, seconds: float) -> bool:
        """Have a batch sent before those that wait; say whether it was within these seconds."""
        if self._thread is None and attempt.accepted is None:
            attempt.accepted = self._send(attempt.spans)
        with self._changed:
            if not attempt.offered:
                self._attempt, attempt.offered = attempt, True
                self._changed.notify_all()
            self._changed.wait_for(lambda: attempt.accepted is not None or self._stopped, seconds)
            if self._attempt is attempt:
                self._attempt, attempt.offered = None, False
            return attempt.accepted is True

    def store(self, attempt: Attempt, content: bytes) -> bool:
        """Put a batch into the spool, unless it has been sent meanwhile.

        Raises:
            OSError: It cannot be written.
        """
        with self._changed:
            if attempt.accepted or self._stopped:
                return attempt.accepted is True
            attempt.stored = self._spool.write(content, len(attempt.spans))
            self._changed.notify_all()
            return True

    def stop(self, seconds: float) -> None:
        """Send on for so long at most, and only while it works; leave the rest on disk."""
        with self._changed:
            if self._stop_at is not None:
                return
            self._stop_at = time.monotonic() + seconds
            self._changed.notify_all()
            thread = self._thread
            self._changed.wait_for(lambda: self._thread is None or bool(self._outage), seconds)
            self._stopped = True
            self._changed.notify_all()
        self._exporter.shutdown()  # breaks off its retries
        if thread is not None:
            thread.join(1.0)
        with self._changed:
            self._spool.tell_dropped()
            if left := self._spool.span_count:
                _log.warning("%d spans wait in %s for the next process", left, self._spool.root)
            self._spool.close()

    def _is_busy(self) -> bool:
        return self._sending or self._attempt is not None or len(self._spool) > 0

    def _run(self) -> None:
        # As the batch processor does: the requests of an export must not be traced themselves.
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        while (work := self._next()) is not None:
            try:
                if isinstance(work, Attempt):
                    self._send_attempt(work)
                else:
                    self._send_stored(work)
            except Exception as error:  # noqa: BLE001  # without this thread nothing is sent any more
                # The frames without the text, which may quote an attribute.
                frames = "".join(traceback.format_tb(error.__traceback__))
                _log.error("the spool's sender failed (%s)\n%s", type(error).__name__, frames)
                self._failed()
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _next(self) -> Attempt | StoredBatch | None:
        """Wait for the next thing to send; None is the end."""
        with self._changed:
            self._sending = False
            self._changed.notify_all()
            while not self._is_over():
                now = time.monotonic()
                if now >= self._adopt_at:
                    self._spool.adopt()
                    self._adopt_at = now + _ADOPT_SECONDS
                work, self._attempt = self._attempt, None
                found = work or (self._spool.take() if now >= self._outage.retry_at else None)
                if found is not None:
                    self._sending = True
                    return found
                due = self._adopt_at
                if self._spool:
                    due = min(due, self._outage.retry_at)
                else:
                    self._outage.over()
                    self._spool.tell_dropped()
                if self._stop_at is None:
                    self._changed.wait(due - now)
            return None

    def _is_over(self) -> bool:
        if self._stop_at is None:
            return False
        if self._stopped or self._outage or time.monotonic() >= self._stop_at:
            return True
        return self._adopt_at > 0 and not self._is_busy()

    def _send(self, spans: Sequence[ReadableSpan]) -> bool:
        if self._stopped:
            return False
        try:
            return self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001  # older exporters raise what requests raises
            # The text of an encoder's error may quote an attribute.
            _log.warning("the OTLP exporter failed (%s)", type(error).__name__)
            return False

    def _send_attempt(self, attempt: Attempt) -> None:
        accepted = self._send(attempt.spans)
        with self._changed:
            attempt.accepted = accepted
            if accepted and attempt.stored is not None:
                self._spool.withdraw(attempt.stored)
            self._changed.notify_all()
        if accepted:
            self._accepted()
        else:
            self._failed()

    def _send_stored(self, batch: StoredBatch) -> None:
        if self._replay.is_done(batch):
            self._accepted()
        else:
            with self._changed:
                self._spool.put_back(batch)
            self._failed()

    def _accepted(self) -> None:
        with self._changed:
            self._outage.accepted()

    def _failed(self) -> None:
        with self._changed:
            self._outage.failed()
            self._changed.notify_all()
