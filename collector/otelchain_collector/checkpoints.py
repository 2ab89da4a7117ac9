"""When the log is moved into the file: how large it may grow, and who wants the file to stay.

Everything here belongs to the writer's thread.
"""

import math
import time
from typing import Final

from otelchain_collector.open_database import OpenDatabase
from otelchain_collector.writer_watch import WriterWatch

# A checkpoint holds up commits for 4 µs a span, most of it compression, and for 0.06 ms a row group
# that it has written since the file was opened. So the less there is, the smaller and more frequent
# they are: 5,000 spans and 20 ms up to a million spans, 17,000 and some 120 ms at ten million.
_LEAST_WAL_BYTES: Final = 16 * 1024 * 1024
_MOST_WAL_BYTES: Final = 64 * 1024 * 1024
#: While the file is being copied; DuckDB makes a checkpoint by itself at twice as much.
HELD_WAL_BYTES: Final = 512 * 1024 * 1024
#: While another process answers a question from the file: a checkpoint of this much takes 0.5 s.
QUESTION_WAL_BYTES: Final = 128 * 1024 * 1024
# After one that failed, which may have cost opening the file again.
_AGAIN_SECONDS: Final = 10.0


class Checkpoints:
    """Makes checkpoints of a database when they are due."""

    def __init__(self, database: OpenDatabase, watch: WriterWatch) -> None:
        self._database = database
        self._watch = watch
        self._holds = 0
        self._questions = 0
        self._not_before = 0.0

    @property
    def is_copied(self) -> bool:
        """Whether somebody copies the file."""
        return self._holds > 0

    def hold(self) -> None:
        """Make none from now on, as long as the log is not too large; each call has its `release`.

        For whoever copies the file.
        """
        self._holds += 1

    def release(self) -> None:
        """Make them again."""
        self._holds -= 1

    def hold_for_question(self) -> None:
        """Make none from now on, as long as the log is not too large.

        Less is too large than while the file is copied: a question can be asked again. Each call
        has its `release_for_question`.
        """
        self._questions += 1

    def release_for_question(self) -> None:
        """Make them again when the last question has been answered."""
        self._questions -= 1

    def make(self) -> None:
        """Make one unless they are held, for whatever reason.

        Raises:
            StoreUnavailableError: It did not work now; nothing is lost, the log stays.
        """
        if not (self._holds or self._questions):
            self._make()

    def make_if_due(self, *, idle: bool) -> None:
        """Make one when the log is large enough.

        Args:
            idle: Nobody waits for the end of it.

        Raises:
            StoreUnavailableError: As for `make`.
        """
        if time.monotonic() >= self._not_before and self._is_due(idle=idle):
            self._try()

    def try_again(self, *, idle: bool) -> bool:
        """Make one after a commit that failed, which it may cure; returns whether one was made.

        Args:
            idle: Nobody waits for the end of it. Otherwise one is made when something is in the
                log, so that a commit that goes on failing is not followed by one each time.

        Raises:
            StoreUnavailableError: As for `make`.
        """
        due = idle or (time.monotonic() >= self._not_before and self._database.wal_bytes() > 0)
        if due:
            self._try()
        return due

    def _try(self) -> None:
        """Make one whoever wants none; when it fails, none is due for a while."""
        self._not_before = time.monotonic() + _AGAIN_SECONDS
        self._make()
        self._not_before = 0.0

    def _make(self) -> None:
        with self._watch.checkpointing():
            self._database.checkpoint()

    def _is_due(self, *, idle: bool) -> bool:
        log_bytes = self._database.wal_bytes()
        if self.is_copied:
            return log_bytes >= HELD_WAL_BYTES
        if self._questions:
            return log_bytes >= QUESTION_WAL_BYTES
        if idle:
            return log_bytes >= _LEAST_WAL_BYTES
        return log_bytes >= checkpoint_bytes(self._database.file_bytes())


def checkpoint_bytes(database_bytes: int) -> int:
    """Return how large the log may grow beside a file of so many bytes."""
    # What grows with the log and what grows with the file then take about the same time.
    balanced = math.isqrt(database_bytes * 1024 * 1024)
    return min(max(_LEAST_WAL_BYTES, balanced), _MOST_WAL_BYTES)
