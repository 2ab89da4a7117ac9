"""The threads that answer questions: few, with a bounded queue, stopped when nobody listens.

Each has a cursor of its own, so that neither slow SQL nor many questions hold up the receivers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import duckdb

from otelchain_collector.answer import QueryFailed
from otelchain_collector.errors import CollectorError, StoreUnavailableError
from otelchain_collector.guard import one_line
from otelchain_collector.memory_guard import Guarded, MemoryGuard
from otelchain_collector.store import INVALIDATING, Store

# More threads would take DuckDB's time from the writer; a fifth question waits its turn.
THREADS: Final = 4
#: Questions that may wait; at 30 s each, the last of them would wait for two minutes.
MAX_WAITING: Final = 16
_INTERRUPT_AGAIN_SECONDS: Final = 0.05

Result = TypeVar("Result")


class TooManyQuestionsError(CollectorError):
    """All readers are busy and as many questions wait as may."""


class QuestionStoppedError(CollectorError):
    """Its sender cancelled it or has gone, or it needs too much memory."""


class SameIdError(CollectorError):
    """Another question with this id runs."""


@dataclass(eq=False)
class _Question:
    cursor: duckdb.DuckDBPyConnection
    future: "Future[object]"
    stopped: asyncio.Event


class Readers:
    """Answers questions; its methods run on the event loop.

    Args:
        store: Where the answers come from.
        memory_limit_bytes: What DuckDB may use; questions together get a quarter of it.
    """

    def __init__(self, store: Store, memory_limit_bytes: int) -> None:
        self._store = store
        self._memory = MemoryGuard(store, memory_limit_bytes)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="otelchain-answer")
        self._open: set[_Question] = set()
        self._named: dict[str, _Question] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    def make_room(self) -> None:
        """Stop questions that hold the memory that a commit needs; on the writer's thread only."""
        self._memory.make_room()

    @property
    def running(self) -> int:
        """Questions that have a thread."""
        return min(len(self._open), THREADS)

    @property
    def waiting(self) -> int:
        """Questions that have none yet."""
        return max(0, len(self._open) - THREADS)

    async def answer(
        self,
        ask: Callable[[duckdb.DuckDBPyConnection], Result],
        gone: Callable[[], Awaitable[object]],
        question_id: str | None = None,
    ) -> Result:
        """Ask in a thread of its own.

        Args:
            ask: Works with the cursor that it gets.
            gone: What to wait for to know that the one who asked has gone.
            question_id: By which `stop` finds it.

        Raises:
            TooManyQuestionsError: There is no room; nothing was asked.
            SameIdError: The id is in use; nothing was asked.
            QuestionStoppedError: `stop` was called, or ``gone`` came true.
            StoreUnavailableError: The database is being opened again.
            Exception: What ``ask`` raises.
        """
        if len(self._open) >= THREADS + MAX_WAITING:
            raise TooManyQuestionsError("too many questions at once; ask again in a second")
        if question_id in self._named:
            raise SameIdError("a question with this id is being answered; use another id")
        question = self._start(ask)
        if question_id is not None:
            self._named[question_id] = question
        try:
            await self._first_of(question, gone)
            return question.future.result()  # type: ignore[return-value]  # what ask() returned
        finally:
            self._named.pop(question_id or "", None)

    def stop(self, question_id: str) -> bool:
        """Stop a question; False when none with this id runs."""
        question = self._named.get(question_id)
        if question is not None:
            question.stopped.set()
        return question is not None

    def close(self) -> None:
        """Stop every question and wait for the threads; each answers that it was interrupted."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for question in list(self._open):
            while not question.future.done():
                _interrupt_once(question)
                time.sleep(_INTERRUPT_AGAIN_SECONDS)
        self._memory.close()

    def _start(self, ask: Callable[[duckdb.DuckDBPyConnection], object]) -> _Question:
        cursor = self._store.cursor()
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:  # Also when it was cancelled before it had a thread.
            cursor.close()
            with suppress(RuntimeError):  # The loop is closed: the collector has stopped.
                loop.call_soon_threadsafe(self._open.discard, question)

        future = self._threads.submit(self._guarded, ask, cursor)
        question = _Question(cursor, future, asyncio.Event())
        self._open.add(question)
        future.add_done_callback(ended)
        return question

    def _guarded(
        self, ask: Callable[[duckdb.DuckDBPyConnection], object], cursor: duckdb.DuckDBPyConnection
    ) -> object:
        question = Guarded(cursor.interrupt, time.monotonic())
        self._memory.watch(question)
        try:
            return ask(cursor)
        # DuckDB's own come from before the question: it was stopped in its first moment.
        except (QueryFailed, duckdb.Error) as error:
            raise _told(error, question) from error
        finally:
            self._memory.forget(question)

    async def _first_of(self, question: _Question, gone: Callable[[], Awaitable[object]]) -> None:
        """Wait for the answer, or stop the question when nobody waits for it any more."""
        answered: asyncio.Future[Any] = asyncio.wrap_future(question.future)
        # The thread's future gives the result. Without this, asyncio would log that nobody has
        # looked at the exception of this one.
        answered.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        stopped: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(gone()),
            asyncio.ensure_future(question.stopped.wait()),
        ]
        try:
            done, _ = await asyncio.wait({answered, *stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # The collector stops.
            self._stop(question)
            raise
        finally:
            for waiting in stopped:
                waiting.cancel()
        if answered not in done:
            self._stop(question)
            raise QuestionStoppedError("the question was cancelled")

    def _stop(self, question: _Question) -> None:
        task = asyncio.ensure_future(_interrupt(question))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)


def _told(error: Exception, question: Guarded) -> Exception:
    """Return what the one who asked is told."""
    cause = error if isinstance(error, duckdb.Error) else error.__cause__
    if isinstance(cause, INVALIDATING):
        return StoreUnavailableError("the database is being opened again; ask in a second")
    if question.is_starved:
        return QuestionStoppedError(
            "the question needs more memory than the collector can spare; ask for a shorter "
            "time, fewer rows, or leave out long columns"
        )
    return error if isinstance(error, QueryFailed) else QueryFailed(one_line(error))


async def _interrupt(question: _Question) -> None:
    # Again and again, since an interrupt before the statement has begun does nothing.
    while not (question.future.done() or question.future.cancel()):
        _interrupt_once(question)
        await asyncio.sleep(_INTERRUPT_AGAIN_SECONDS)


def _interrupt_once(question: _Question) -> None:
    with suppress(duckdb.Error):  # It has ended in this moment.
        question.cursor.interrupt()
