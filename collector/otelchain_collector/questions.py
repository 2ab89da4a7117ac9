"""Questions, a few at a time, with a bounded queue, stopped when nobody listens.

A lane knows nothing of what a question is: it runs, can be interrupted, and is over.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from otelchain_collector.errors import CollectorError, StoreUnavailableError

#: Questions that may wait for each that runs; at 30 s each, the last waits for two minutes.
WAITING_PER_THREAD: Final = 4
_INTERRUPT_AGAIN_SECONDS: Final = 0.05
# A question that DuckDB can interrupt ends within milliseconds.
_CLOSE_SECONDS: Final = 2.0
_NO_THREAD: Final = "there is no thread for this question now; ask again in a second"
_STOPPING: Final = "the collector is stopping; ask again in a second"

Result = TypeVar("Result")
_Answer = TypeVar("_Answer", covariant=True)


class TooManyQuestionsError(CollectorError):
    """All threads are busy and as many questions wait as may."""


class QuestionStoppedError(CollectorError):
    """Its sender cancelled it or has gone, or it needs too much memory."""


class SameIdError(CollectorError):
    """Another question of the same sender has this id."""


class Question(Protocol[_Answer]):
    """What a lane runs."""

    def run(self) -> _Answer:
        """Give the answer; on a thread of the lane."""
        ...

    def interrupt(self) -> None:
        """Make `run` end soon; from any thread, also before it has begun and after its end."""

    def end(self) -> None:
        """Give back what it holds: it has run, or never will."""


@dataclass(frozen=True)
class Asker:
    """Who asks.

    Attributes:
        gone: What to wait for to know that nobody waits for the answer any more.
        identity: Digest of the token; None where none is needed.
        question_id: By which the same asker may stop the question.
    """

    gone: Callable[[], Awaitable[object]]
    identity: bytes | None = None
    question_id: str | None = None


@dataclass(eq=False)
class _Running:
    question: Question[object]
    future: "Future[object]"
    stopped: asyncio.Event


class Lane:
    """Some threads for questions; its methods run on the event loop."""

    def __init__(self, threads: int, name: str) -> None:
        self._size = threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._open: set[_Running] = set()
        # By sender too: nobody can stop the question of another, nor learn of its id.
        self._named: dict[tuple[bytes | None, str], _Running] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def running(self) -> int:
        """Questions that have a thread."""
        return min(len(self._open), self._size)

    @property
    def waiting(self) -> int:
        """Questions that have none yet."""
        return max(0, len(self._open) - self._size)

    async def run(self, make: Callable[[], Question[Result]], asker: Asker) -> Result:
        """Answer a question in a thread of its own.

        Args:
            make: Makes the question, when there is room for one.
            asker: Who asks.

        Raises:
            TooManyQuestionsError: There is no room; nothing was asked.
            SameIdError: The id is in use; nothing was asked.
            QuestionStoppedError: `stop` was called, or the asker has gone.
            StoreUnavailableError: The collector stops.
            Exception: What making or running it raises.
        """
        if self._is_closed:
            raise StoreUnavailableError(_STOPPING)
        if len(self._open) >= self._size * (1 + WAITING_PER_THREAD):
            raise TooManyQuestionsError("too many questions at once; ask again in a second")
        key = None if asker.question_id is None else (asker.identity, asker.question_id)
        if key in self._named:
            raise SameIdError("a question with this id is being answered; use another id")
        running = self._start(make())
        if key is not None:
            self._named[key] = running
        try:
            await self._first_of(running, asker.gone)
            return running.future.result()  # type: ignore[return-value]  # what run() returned
        except Exception as error:
            if self._is_closed:  # What stopped it in its middle was the end.
                raise StoreUnavailableError(_STOPPING) from error
            raise
        finally:
            if key is not None:
                self._named.pop(key, None)

    def stop(self, question_id: str, identity: bytes | None = None) -> bool:
        """Stop a question; False when this sender has none with this id."""
        running = self._named.get((identity, question_id))
        if running is not None:
            running.stopped.set()
        return running is not None

    def refuse(self) -> None:
        """Take no more questions: the end comes."""
        self._is_closed = True

    def close(self) -> bool:
        """Stop every question; False when one does not end, and its thread still works."""
        self.refuse()
        self._threads.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + _CLOSE_SECONDS
        while left := [running for running in list(self._open) if not running.future.done()]:
            if time.monotonic() > deadline:
                return False
            for running in left:
                running.question.interrupt()
            time.sleep(_INTERRUPT_AGAIN_SECONDS)
        return True

    def _start(self, question: Question[object]) -> _Running:
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:  # Also when it was cancelled before it had a thread.
            question.end()
            with suppress(RuntimeError):  # The loop is closed: the collector has stopped.
                loop.call_soon_threadsafe(self._open.discard, running)

        try:
            future = self._threads.submit(question.run)
        except RuntimeError as error:  # The system gives no more threads.
            question.end()
            raise StoreUnavailableError(_NO_THREAD) from error
        running = _Running(question, future, asyncio.Event())
        self._open.add(running)
        running.future.add_done_callback(ended)
        return running

    async def _first_of(self, running: _Running, gone: Callable[[], Awaitable[object]]) -> None:
        """Wait for the answer, or stop the question when nobody waits for it any more."""
        answered: asyncio.Future[Any] = asyncio.wrap_future(running.future)
        # The thread's future gives the result. Without this, asyncio would log that nobody has
        # looked at the exception of this one.
        answered.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        stopped: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(gone()),
            asyncio.ensure_future(running.stopped.wait()),
        ]
        try:
            done, _ = await asyncio.wait({answered, *stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # The collector stops.
            self._stop(running)
            raise
        finally:
            for waiting in stopped:
                waiting.cancel()
        if answered not in done:
            self._stop(running)
            raise QuestionStoppedError("the question was cancelled")

    def _stop(self, running: _Running) -> None:
        task = asyncio.ensure_future(_interrupt(running))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)


async def _interrupt(running: _Running) -> None:
    # Again and again, since an interrupt before the statement has begun does nothing.
    while not (running.future.done() or running.future.cancel()):
        running.question.interrupt()
        await asyncio.sleep(_INTERRUPT_AGAIN_SECONDS)
