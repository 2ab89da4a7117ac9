"""Keeps questions from taking the memory that commits need.

DuckDB has one limit for all of a process. Without this, four questions that gather text failed 18
of 22 commits, and a commit that fails for lack of memory leaves the database unusable until it is
opened again. So what questions hold is looked at while they run, and before each commit; beyond
a quarter of the limit they are stopped, those that have run for a while first. (With half of it, on
two cores under six times their load, one of 70 commits still failed; with a quarter none.)
"""

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import duckdb

from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.open_database import OpenDatabase

_SHARE_OF_LIMIT: Final = 4
# Looking costs 1 ms; in this time a question was seen to take 15 MB.
_LOOK_SECONDS: Final = 0.02
_LONG_SECONDS: Final = 0.25
# A stopped question gives its memory back within milliseconds; a commit does not wait for ever.
_MAKE_ROOM_SECONDS: Final = 1.0


@dataclass(eq=False)
class Guarded:
    """A question that runs; the guard says so when it has stopped it."""

    interrupt: Callable[[], None]
    started: float
    is_starved: bool = False


class MemoryGuard:
    """A thread that looks while there are questions.

    Args:
        database: Whose memory.
        limit_bytes: What DuckDB may use.
    """

    def __init__(self, database: OpenDatabase, limit_bytes: int) -> None:
        self._database = database
        self._most_bytes = limit_bytes // _SHARE_OF_LIMIT
        self._running: set[Guarded] = set()
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="otelchain-memory", daemon=True)
        self._thread.start()

    def watch(self, question: Guarded) -> None:
        """Look after a question from now on."""
        with self._lock:
            self._running.add(question)
            self._work.set()

    def forget(self, question: Guarded) -> None:
        """Stop looking after it."""
        with self._lock:
            self._running.discard(question)
            if not self._running and not self._closing:
                self._work.clear()

    def make_room(self) -> None:
        """Stop questions until a commit has the memory it needs; on the writer's thread only."""
        deadline = time.monotonic() + _MAKE_ROOM_SECONDS
        while self._work.is_set() and time.monotonic() < deadline:
            if not self._is_short():
                return
            self._stop_some()
            time.sleep(_LOOK_SECONDS / 4)

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        self._work.set()
        self._thread.join()
        self._work.clear()

    def _run(self) -> None:
        while self._work.wait() and not self._closing:
            # Most questions are answered before the first look.
            time.sleep(_LOOK_SECONDS)
            if self._work.is_set() and self._is_short():
                self._stop_some()

    def _is_short(self) -> bool:
        try:
            return self._database.working_memory_bytes() > self._most_bytes
        except duckdb.OutOfMemoryException:
            return True
        # Interrupted by the end of the collector, or the database is gone.
        except (duckdb.Error, StoreUnavailableError):
            return False

    def _stop_some(self) -> None:
        with self._lock:
            running = list(self._running)
        for question in _long_running(running) or running:
            question.is_starved = True
            with suppress(duckdb.Error):  # It has ended in this moment.
                question.interrupt()


def _long_running(questions: Collection[Guarded]) -> list[Guarded]:
    now = time.monotonic()
    return [question for question in questions if now - question.started > _LONG_SECONDS]
