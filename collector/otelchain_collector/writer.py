"""The one thread that writes: decoded requests (from ingest) → batches → store → acknowledgements.

Requests that arrive while a commit runs are committed together by the next one, and each is
acknowledged when its own rows are committed, not before.
"""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from otelchain_collector.budget import Reservation
from otelchain_collector.checkpoints import Checkpoints
from otelchain_collector.decode import Decoded
from otelchain_collector.errors import RowsRefusedError, StoreUnavailableError
from otelchain_collector.process import give_way
from otelchain_collector.rows import LogRow, MetricPointRow, RejectedRecord
from otelchain_collector.span_table import Spans, joined, rows_of
from otelchain_collector.store import Inserted, Store
from otelchain_collector.writer_watch import WriterWatch

# A commit costs 4.5 ms of CPU, whatever it holds, most of it planning: 512 spans alone cost 43 µs
# each, 2,048 together 15, 4,096 together 10.
MAX_BATCH_RECORDS = 4_096
# So a smaller batch waits while requests are being decoded, and only then: a single client waits
# for nobody. With eight clients a span costs 54 µs of CPU instead of 64, over all.
_GATHER_RECORDS = 2_048
_GATHER_SECONDS = 0.04
_IDLE_SECONDS = 1.0

_Rows = Spans | Sequence[LogRow] | Sequence[MetricPointRow]
_Insert = Callable[..., Inserted]

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """What became of the records of one request."""

    rejected: int = 0
    reasons: tuple[str, ...] = ()


@dataclass
class Counts:
    """Records since the start; written by the writer's thread only."""

    stored: int = 0  # spans
    logs: int = 0
    metric_points: int = 0
    pending: int = 0  # as they had started; stored counts them again when they end
    duplicates: int = 0
    rejected: int = 0
    expired: int = 0  # deleted by retention; rows of any table


class _Queued(NamedTuple):
    decoded: Decoded
    reservation: Reservation
    acknowledgement: "Future[Outcome]"


class _Job(NamedTuple):
    do: Callable[[], Any]
    done: "Future[Any]"


class _Close(Enum):
    CLOSE = "close"


_CLOSE: Final = _Close.CLOSE


@dataclass
class _Refused:
    """Rows of one batch that the store refused, by their position in it."""

    reasons: dict[int, str] = field(default_factory=dict)


class Writer:
    """Commits what is submitted, in order.

    The queue itself has no bound: every request in it holds its bytes in a ByteBudget, which does.
    """

    def __init__(self, store: Store) -> None:
        self.counts = Counts()
        self.watch = WriterWatch()
        self.checkpoints = Checkpoints(store.database, self.watch)
        self._store = store
        self._queue: queue.SimpleQueue[_Queued | _Job | None] = queue.SimpleQueue()
        # Sets are changed by several threads: adding to one and discarding are each one step.
        self._expected: set[Reservation] = set()
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="otelchain-writer", daemon=True)

    @property
    def failure(self) -> str | None:
        """Why the last commit failed; None when it did not."""
        return self._failure

    @property
    def is_running(self) -> bool:
        """Whether the thread lives; without it nothing is committed."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def expect(self, reservation: Reservation) -> None:
        """Hear of a request that is being decoded; `submit` or `forget` follows, on any thread."""
        self._expected.add(reservation)

    def forget(self, reservation: Reservation) -> None:
        """Expect a request no longer; nothing happens when it has come."""
        self._expected.discard(reservation)

    def submit(self, decoded: Decoded, reservation: Reservation) -> "Future[Outcome]":
        """Queue a request.

        The reservation belongs to the writer from here on. The result comes after the commit; it
        raises StoreUnavailableError when the commit failed.
        """
        acknowledgement: Future[Outcome] = Future()
        self.forget(reservation)
        self._queue.put(_Queued(decoded, reservation, acknowledgement))
        return acknowledgement

    def between_commits(self, do: "Callable[[], Result]") -> "Future[Result]":
        """Do something short on the writer's thread; what it raises is the future's."""
        done: Future[Result] = Future()
        self._queue.put(_Job(do, done))
        return done

    def checkpoint_if_due(self, *, idle: bool = False) -> None:
        """Make a checkpoint when one is due; on the writer's thread only.

        Args:
            idle: Nobody waits for the end of it.
        """
        try:
            self._store.database.mend()
            if self._failure is None:
                self.checkpoints.make_if_due(idle=idle)
            # Also while senders come: memory that is full of rows stays full until it is made.
            elif self.checkpoints.try_again(idle=idle) and idle:
                # Nobody may come any more who would find out that the trouble has passed.
                self._failure = None
        except StoreUnavailableError as error:
            _logger.warning("%s", error)
        except Exception as error:  # noqa: BLE001 - the thread must live: everyone waits for it
            _logger.warning("no checkpoint: %s", error)
            self._failure = str(error) or type(error).__name__

    def close(self) -> None:
        """Commit everything that was submitted, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        give_way()
        while True:
            batch, then = self._next_batch()
            if batch:
                self._commit(batch)
            if then is _CLOSE:
                return
            if isinstance(then, _Job):
                _do(then)
            self.checkpoint_if_due(idle=not batch and then is None)

    def _next_batch(self) -> tuple[list[_Queued], "_Job | _Close | None"]:
        """Wait for a request and take what else is there; empty after an idle moment.

        Also returns what comes after it: a job, the end, or nothing yet.
        """
        batch: list[_Queued] = []
        records = 0
        try:
            following = self._queue.get(timeout=_IDLE_SECONDS)
            gathering_until = time.monotonic() + _GATHER_SECONDS
            while isinstance(following, _Queued):
                batch.append(following)
                records += _size(following.decoded)
                if records >= MAX_BATCH_RECORDS:
                    return batch, None
                following = self._following(records, gathering_until)
        except queue.Empty:
            return batch, None
        return batch, following or _CLOSE

    def _following(self, records: int, until: float) -> "_Queued | _Job | None":
        """Take what is there, or wait for what is on its way as long as the batch is small.

        Raises:
            queue.Empty: The batch can be committed.
        """
        seconds = until - time.monotonic()
        if records < _GATHER_RECORDS and self._expected and seconds > 0:
            return self._queue.get(timeout=seconds)
        return self._queue.get_nowait()

    def _commit(self, batch: Sequence[_Queued]) -> None:
        try:
            self._store.database.mend()
            with self.watch.committing():
                outcomes = self._write([queued.decoded for queued in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is, the senders keep their spans
            self._fail(batch, error)
            return
        self._failure = None
        for queued, outcome in zip(batch, outcomes, strict=True):
            self._acknowledge(queued, outcome)

    def _write(self, requests: Sequence[Decoded]) -> list[Outcome]:
        bad = [list(request.rejected) for request in requests]
        # The store takes of them what belongs to the records at hand.
        findings = [finding for request in requests for finding in request.findings]

        def insert_all(insert: _Insert, rows: Sequence[_Rows]) -> Inserted:
            return self._insert_all(partial(insert, findings=findings), rows, bad)

        # Ended spans first: a run of which both came at once is not pending.
        ended = insert_all(self._store.insert, [each.rows for each in requests])
        pending = insert_all(self._store.insert_pending, [each.pending for each in requests])
        logs = insert_all(self._store.insert_logs, [each.logs for each in requests])
        points = insert_all(
            self._store.insert_metric_points, [each.metric_points for each in requests]
        )
        rejected = [record for records in bad for record in records]
        if rejected:
            self._store.reject(rejected, findings)
        self.counts.stored += ended.stored
        self.counts.pending += pending.stored
        self.counts.logs += logs.stored
        self.counts.metric_points += points.stored
        self.counts.duplicates += sum(each.duplicates for each in (ended, pending, logs, points))
        self.counts.rejected += len(rejected)
        return [Outcome(len(spans), _summary(spans)) for spans in bad]

    def _insert_all(
        self,
        insert: _Insert,
        requests: Sequence[_Rows],
        bad: list[list[RejectedRecord]],
    ) -> Inserted:
        """Insert the rows of all requests; add those that were refused to the bad of each."""
        refused = _Refused()
        inserted = self._insert(insert, joined(requests), 0, refused)
        first = 0
        for rows, spans in zip(requests, bad, strict=True):
            spans.extend(_rejections(rows, refused, first))
            first += len(rows)
        return inserted

    def _insert(self, insert: _Insert, rows: _Rows, first: int, refused: _Refused) -> Inserted:
        """Insert rows; when the store refuses them, halve until the culprits are alone."""
        if len(rows) == 0:
            return Inserted(0, 0)
        try:
            return insert(rows)
        except RowsRefusedError as error:
            if len(rows) == 1:
                refused.reasons[first] = f"the store refuses it: {error}"
                return Inserted(0, 0)
            middle = len(rows) // 2
            left = self._insert(insert, rows[:middle], first, refused)
            right = self._insert(insert, rows[middle:], first + middle, refused)
            return Inserted(left.stored + right.stored, left.duplicates + right.duplicates)

    def _acknowledge(self, queued: _Queued, outcome: Outcome) -> None:
        if outcome.rejected:
            # Python's exporter does not show a partial success, so the operator has to see it here.
            _logger.warning("rejected %d records: %s", outcome.rejected, "; ".join(outcome.reasons))
        queued.reservation.release()
        if queued.acknowledgement.set_running_or_notify_cancel():
            queued.acknowledgement.set_result(outcome)

    def _fail(self, batch: Sequence[_Queued], error: Exception) -> None:
        expected = isinstance(error, StoreUnavailableError)
        if str(error) != self._failure:
            _logger.error("commit failed, senders will retry: %s", error, exc_info=not expected)
        self._failure = str(error) or type(error).__name__
        for queued in batch:
            queued.reservation.release()
            if queued.acknowledgement.set_running_or_notify_cancel():
                queued.acknowledgement.set_exception(
                    StoreUnavailableError(
                        "the records could not be committed; try again in a second"
                    )
                )


def _do(job: _Job) -> None:
    if not job.done.set_running_or_notify_cancel():
        return
    try:
        job.done.set_result(job.do())
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for it
        job.done.set_exception(error)


def _size(decoded: Decoded) -> int:
    spans = len(decoded.rows) + len(decoded.pending)
    return spans + len(decoded.logs) + len(decoded.metric_points)


def _rejections(rows: _Rows, refused: _Refused, first: int) -> Iterator[RejectedRecord]:
    for index, reason in refused.reasons.items():
        if first <= index < first + len(rows):
            place = index - first
            [row] = rows_of(rows[place : place + 1])
            yield row.rejected(reason)


def _summary(rejected: Sequence[RejectedRecord]) -> tuple[str, ...]:
    """Return the most frequent reasons with their counts."""
    reasons = Counter(span.reason for span in rejected)
    return tuple(f"{reason} ({count})" for reason, count in reasons.most_common(5))
