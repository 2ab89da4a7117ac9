"""Deletes what is old enough, a little at a time, between commits.

Rows go by when they arrived. That is the order in which they stand in the file, so whole row groups
become empty and their room is used again; a wrong clock of an application neither keeps its spans
for ever nor loses them at once; and traces that are imported stay as long as new ones. A trace in
which anything has arrived within the time is kept whole, since it may still be running; but no row
is kept for more than twice the time, and none beyond the size, so that a trace which never ends
(one trace id for everything, by mistake) does not fill the disk.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from otelchain_collector.database import first_line
from otelchain_collector.deletions import Due, Step, Tables
from otelchain_collector.process import give_way
from otelchain_collector.retention_clock import RetentionClock
from otelchain_collector.retention_rules import RetentionRules
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

_LOOK_SECONDS: Final = 30.0
# A table is looked at when a hundredth of the time has gone by: then about 1 % of it is due.
_PARTS: Final = 100
# Between two checkpoints. For each row group that goes a checkpoint takes 8 ms: those of 1.2
# million rows, 10 % of 3.4 GB, took 0.75 s at once.
_STEPS_OF_A_CHECKPOINT: Final = 2
# Of --retain-bytes: what is left after a deletion, so that the next one is not due at once.
_FILLED_SHARE: Final = 0.9
_MOST_ROUNDS: Final = 20
# Of --retain-bytes: what the room of deleted rows may take besides, before somebody hears of it.
_ROOM_SHARE: Final = 0.25
# Of the time: for so long rows of a trace that goes on are kept.
_LONGEST_TIMES: Final = 2
_SECOND: Final = 1_000_000_000

_OTHER_SERVICES: Final = (
    "(service_name IS NULL OR service_name NOT IN (SELECT unnest($services::VARCHAR[])))"
)

_logger = logging.getLogger(__name__)


class Retention:
    """A thread that looks every half minute; without rules it does nothing.

    Args:
        writer: Deletes between its commits.
        store: What is looked at.
        rules: What is kept.
        clock: What time it is; the machine's unless given.
    """

    def __init__(
        self,
        writer: Writer,
        store: Store,
        rules: RetentionRules,
        clock: RetentionClock | None = None,
    ) -> None:
        self._writer, self._store, self._rules = writer, store, rules
        self._database = store.database
        self._clock = clock or RetentionClock()
        self._stopping = threading.Event()
        self._done_until: dict[str, int] = {}
        self._looked_unix_nano = 0
        # What an earlier process has deleted may have its room still.
        self._deleted_at = 0  # clean checkpoints
        self._shrunk_until: int | None = None
        self._told_of_room = False
        self._thread = threading.Thread(target=self._run, name="otelchain-retention", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if self._rules:
            self._thread.start()

    def close(self) -> None:
        """End the thread, after the deletion that runs now; before the writer is closed."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        give_way()
        while not self._stopping.is_set():
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the thread must live: the file would grow
                if not self._stopping.is_set():
                    _logger.warning("retention: %s; it goes on later", first_line(error))
            self._stopping.wait(_LOOK_SECONDS)

    def look(self) -> int:
        """Delete what is due; returns how many rows.

        Raises:
            StoreUnavailableError: The store cannot be asked, or the deletion failed.
            duckdb.Error: As well.
        """
        deleted = 0
        now_unix_nano = self._clock.look()
        if now_unix_nano is not None:
            deleted += self._delete_by_age(now_unix_nano)
        if self._rules.max_bytes is not None:
            deleted += self._shrink(self._rules.max_bytes)
        return deleted

    def _delete_by_age(self, now_unix_nano: int) -> int:
        if now_unix_nano < self._looked_unix_nano:  # The clock was ahead.
            self._done_until.clear()
        self._looked_unix_nano = now_unix_nano
        deleted = 0
        for name, due in self._by_age(now_unix_nano):
            deleted += self._delete(due)
            if due.spares_running:
                self._done_until[name] = due.end
        return deleted

    def _by_age(self, now_unix_nano: int) -> Iterator[tuple[str, Due]]:
        for name, seconds, due in self._rules_by_age():
            end = self._end(name, seconds, now_unix_nano)
            if end is not None:
                yield name, due._replace(end=end)
                # At an end that was reached before, so that it need not be looked at by itself.
                before = end - (_LONGEST_TIMES - 1) * seconds * _SECOND
                yield name, due._replace(end=before, spares_running=False)

    def _rules_by_age(self) -> Iterator[tuple[str, int, Due]]:
        services, general = self._rules.services, self._rules.age_seconds
        for service, seconds in services.items():
            values = {"service": service}
            yield service, seconds, Due(0, "service_name = $service", values, is_general=False)
        if general is not None and services:
            yield "", general, Due(0, _OTHER_SERVICES, {"services": list(services)})
        elif general is not None:
            yield "", general, Due(0)

    def _end(self, name: str, seconds: int, now_unix_nano: int) -> int | None:
        """Return the time before which rows are due; None when that was done lately."""
        part = max(_SECOND, seconds * _SECOND // _PARTS)
        end = (now_unix_nano - seconds * _SECOND) // part * part
        latest = self._clock.latest_end(seconds)
        if latest is not None:
            end = min(end, latest)
        return end if end > self._done_until.get(name, 0) else None

    def _shrink(self, max_bytes: int) -> int:
        """Delete what arrived first until the rows that are there fit."""
        deleted = 0
        for _ in range(_MOST_ROUNDS):
            kept_bytes = self._kept_bytes()
            if kept_bytes <= max_bytes or self._stopping.is_set():
                return deleted + self._give_room_back(max_bytes)
            rows = self._delete_share(1 - _FILLED_SHARE * max_bytes / kept_bytes, max_bytes)
            if not rows:
                break
            deleted += rows
        _logger.warning(
            "retention: %d MiB are kept although --retain-bytes is %d MiB: nothing is left to "
            "delete",
            self._kept_bytes() >> 20,
            max_bytes >> 20,
        )
        return deleted

    def _delete_share(self, share: float, max_bytes: int) -> int:
        with self._database.cursor() as cursor:
            due = Due(Tables(cursor).arrived_until(share))
        rows = self._delete(due)
        if not rows:
            rows = self._delete(due._replace(spares_running=False))
            if rows:
                _tell_of_running(rows, max_bytes)
        self._shrunk_until = due.end
        return rows

    def _kept_bytes(self) -> int:
        """Return what the rows take that are there.

        Not by the size of the file alone: it counts rows that are deleted and keep their room yet,
        and while somebody reads it never gets less, whatever is deleted.
        """
        with self._database.cursor() as cursor:
            share = Tables(cursor).alive_share()
        return int(self._database.live_bytes() * share)

    def _give_room_back(self, max_bytes: int) -> int:
        """Delete what was spared of the stretch that has gone, when it keeps the room of the rest.

        One row of a trace that goes on, in each row group, would let the file grow for ever.
        """
        live_bytes = self._database.live_bytes()
        if live_bytes <= max_bytes:
            self._told_of_room = False
            return 0
        if self._database.clean_checkpoints <= self._deleted_at:
            return 0  # It comes back with the next checkpoint, when nobody reads any more.
        rows = 0
        if self._shrunk_until is not None:
            rows = self._delete(Due(self._shrunk_until, spares_running=False))
            self._shrunk_until = None
        if rows:
            _tell_of_running(rows, max_bytes)
        elif live_bytes > (1 + _ROOM_SHARE) * max_bytes and not self._told_of_room:
            self._told_of_room = True
            _logger.warning(
                "retention: the file uses %d MiB although --retain-bytes is %d MiB: deleted rows "
                "keep their room among others that stay; 'otelchain compact' gives it back",
                live_bytes >> 20,
                max_bytes >> 20,
            )
        return rows

    def _delete(self, due: Due) -> int:
        looked_unix_nano = self._clock.now()
        with self._database.cursor() as cursor:
            tables = Tables(cursor)
            running = tables.running(due) if due.spares_running else []
            steps = list(tables.steps(due))
        deleted = 0
        for number, step in enumerate(steps, start=1):
            if self._stopping.is_set():
                break
            started = time.monotonic()
            delete = partial(self._delete_step, step, running, looked_unix_nano)
            deleted += self._writer.between_commits(delete).result()
            if number % _STEPS_OF_A_CHECKPOINT == 0 or number == len(steps):
                self._writer.between_commits(self._writer.checkpoints.make).result()
            # As long for others as for this.
            self._stopping.wait(time.monotonic() - started)
        if deleted:
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due.end / _SECOND))
            _logger.info("retention: %d rows deleted that arrived before %s", deleted, until)
        return deleted

    def _delete_step(self, step: Step, running: Collection[int], looked_unix_nano: int) -> int:
        self._database.mend()
        rows = self._store.delete(*step.statement(running, looked_unix_nano))
        self._writer.counts.expired += rows
        if rows:
            self._deleted_at = self._database.clean_checkpoints
        return rows


def _tell_of_running(rows: int, max_bytes: int) -> None:
    _logger.warning(
        "retention: %d rows of traces that go on were deleted: --retain-bytes is %d MiB, and "
        "nothing else had arrived that early",
        rows,
        max_bytes >> 20,
    )
