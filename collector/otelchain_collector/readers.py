"""Questions that are answered in this process: those of the bundle, whose SQL is known.

Each has a cursor of its own, so that neither slow queries nor many questions hold up the receivers.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

import duckdb

from otelchain_collector.answer import QueryFailed
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.guard import one_line
from otelchain_collector.memory_guard import Guarded, MemoryGuard
from otelchain_collector.open_database import INVALIDATING, OpenDatabase
from otelchain_collector.questions import Asker, Lane, QuestionStoppedError

# More threads would take DuckDB's time from the writer; a fifth question waits its turn.
THREADS: Final = 4
#: What a question is told that needs more memory than it may have.
TOO_HUNGRY: Final = (
    "the question needs more memory than the collector can spare; ask for a shorter time, fewer "
    "rows, or leave out long columns"
)

Result = TypeVar("Result")


class Readers(Lane):
    """Answers questions with cursors of the database.

    Args:
        database: Where the answers come from.
        memory_limit_bytes: What DuckDB may use; questions together get a quarter of it.
    """

    def __init__(self, database: OpenDatabase, memory_limit_bytes: int) -> None:
        super().__init__(THREADS, "otelchain-answer")
        self._database = database
        self._memory = MemoryGuard(database, memory_limit_bytes)

    def make_room(self) -> None:
        """Stop questions that hold the memory that a commit needs; on the writer's thread only."""
        self._memory.make_room()

    async def answer(
        self, ask: Callable[[duckdb.DuckDBPyConnection], Result], asker: Asker
    ) -> Result:
        """Ask in a thread of its own; raises as `Lane.run` does, and what ``ask`` raises.

        Args:
            ask: Works with the cursor that it gets.
            asker: Who asks.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        return await self.run(lambda: _Reading(self._database.cursor(), self._memory, ask), asker)

    def close(self) -> bool:
        """Stop every question, as `Lane.close` does."""
        ended = super().close()
        self._memory.close()
        return ended


class _Reading(Generic[Result]):
    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        memory: MemoryGuard,
        ask: Callable[[duckdb.DuckDBPyConnection], Result],
    ) -> None:
        self._cursor, self._memory, self._ask = cursor, memory, ask

    def run(self) -> Result:
        question = Guarded(self._cursor.interrupt, time.monotonic())
        self._memory.watch(question)
        try:
            return self._ask(self._cursor)
        # DuckDB's own come from before the question: it was stopped in its first moment.
        except (QueryFailed, duckdb.Error) as error:
            raise _told(error, question) from error
        finally:
            self._memory.forget(question)

    def interrupt(self) -> None:
        with suppress(duckdb.Error):  # It has ended in this moment.
            self._cursor.interrupt()

    def end(self) -> None:
        self._cursor.close()


def _told(error: Exception, question: Guarded) -> Exception:
    """Return what the one who asked is told."""
    cause = error if isinstance(error, duckdb.Error) else error.__cause__
    if isinstance(cause, INVALIDATING):
        return StoreUnavailableError("the database is being opened again; ask in a second")
    if question.is_starved:
        return QuestionStoppedError(TOO_HUNGRY)
    return error if isinstance(error, QueryFailed) else QueryFailed(one_line(error))
