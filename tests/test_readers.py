"""Questions that are many, long, large, unwanted: none of them holds up anything else."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from otelchain_collector.answer import Answer
from otelchain_collector.answers import answer_sql
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.memory_guard import Guarded, MemoryGuard
from otelchain_collector.questions import (
    WAITING_PER_THREAD,
    Asker,
    QuestionStoppedError,
    SameIdError,
    TooManyQuestionsError,
)
from otelchain_collector.readers import THREADS, Readers
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.store import Store

MAX_WAITING = THREADS * WAITING_PER_THREAD
LIMIT_BYTES = 512 * 1024 * 1024
ENDLESS = "SELECT sum(a.range & b.range) FROM range(100000000) a, range(1000000) b"
# Sorting, hashing and gathering: DuckDB can spill the first two, not the last two.
HUNGRY = {
    "sort": "SELECT * FROM range(100000000) ORDER BY hash(range) LIMIT 5 OFFSET 40000000",
    "hash": "SELECT count(*) FROM (SELECT DISTINCT hash(range) FROM range(100000000))",
    "list": "SELECT len(list(range)) FROM range(1000000000)",
    "text": "SELECT len(string_agg(repeat('x', 1000), '')) FROM range(3000000)",
}


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "t.duckdb", memory_limit_bytes=LIMIT_BYTES)
    yield store
    store.close()


def run(store: Store, scenario: Callable[[Readers], Awaitable[None]]) -> None:
    async def main() -> None:
        readers = Readers(store.database, LIMIT_BYTES)
        try:
            await scenario(readers)
        finally:
            readers.close()

    asyncio.run(main())


async def ask(
    readers: Readers,
    sql: str,
    gone: asyncio.Event | None = None,
    name: str | None = None,
    identity: bytes | None = None,
) -> Answer:
    asker = Asker((gone or asyncio.Event()).wait, identity, name)
    return await readers.answer(lambda cursor: answer_sql(cursor, sql), asker)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


def test_a_question_whose_sender_has_gone_is_stopped(store: Store) -> None:
    async def scenario(readers: Readers) -> None:
        hung_up = asyncio.Event()
        asked = asyncio.ensure_future(ask(readers, ENDLESS, hung_up))
        await until(lambda: readers.running == 1)
        hung_up.set()
        with pytest.raises(QuestionStoppedError):
            await asked
        # Its thread is free again long before the limit of 30 s.
        await until(lambda: readers.running == 0)

    run(store, scenario)


def test_a_question_is_stopped_by_its_id_and_by_no_other(store: Store) -> None:
    async def scenario(readers: Readers) -> None:
        first = asyncio.ensure_future(ask(readers, ENDLESS, name="first"))
        second = asyncio.ensure_future(ask(readers, ENDLESS, name="second"))
        await until(lambda: readers.running == 2)
        with pytest.raises(SameIdError):
            await ask(readers, "SELECT 1", name="first")

        assert not readers.stop("third")
        assert readers.stop("first")
        with pytest.raises(QuestionStoppedError, match="cancelled"):
            await first
        await until(lambda: readers.running == 1)
        assert not readers.stop("first")
        assert not second.done()
        readers.stop("second")
        with pytest.raises(QuestionStoppedError):
            await second

    run(store, scenario)


def test_nobody_stops_the_question_of_another(store: Store) -> None:
    async def scenario(readers: Readers) -> None:
        mine = asyncio.ensure_future(ask(readers, ENDLESS, name="first", identity=b"mine"))
        # The same name is no clue that somebody else asks.
        other = asyncio.ensure_future(ask(readers, ENDLESS, name="first", identity=b"other"))
        await until(lambda: readers.running == 2)

        assert not readers.stop("first")
        assert not readers.stop("first", b"a third")
        assert readers.stop("first", b"other")
        with pytest.raises(QuestionStoppedError, match="cancelled"):
            await other
        assert not mine.done()
        readers.stop("first", b"mine")
        with pytest.raises(QuestionStoppedError):
            await mine

    run(store, scenario)


def test_a_question_that_cannot_be_interrupted_does_not_hold_up_the_end(store: Store) -> None:
    may_end = threading.Event()

    async def main() -> None:
        readers = Readers(store.database, LIMIT_BYTES)
        stuck = asyncio.ensure_future(
            readers.answer(lambda _: may_end.wait(60), Asker(asyncio.Event().wait))
        )
        await until(lambda: readers.running == 1)
        started = time.monotonic()
        assert not readers.close()
        assert time.monotonic() - started < 5
        with pytest.raises(StoreUnavailableError, match="stopping"):
            await ask(readers, "SELECT 1")
        may_end.set()
        with suppress(StoreUnavailableError):
            await stuck
        assert readers.close()

    asyncio.run(main())


def test_more_questions_than_may_wait_are_refused_at_once(store: Store) -> None:
    async def scenario(readers: Readers) -> None:
        names = [str(number) for number in range(THREADS + MAX_WAITING)]
        asked = [asyncio.ensure_future(ask(readers, ENDLESS, name=name)) for name in names]
        await until(lambda: readers.waiting == MAX_WAITING)

        with pytest.raises(TooManyQuestionsError):
            await ask(readers, "SELECT 1")

        for name in names:
            assert readers.stop(name)
        ended = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(each) for each in ended} == {QuestionStoppedError}
        await until(lambda: readers.running + readers.waiting == 0)
        assert (await ask(readers, "SELECT 1")).rows == [[1]]

    run(store, scenario)


@pytest.mark.parametrize("kind", HUNGRY)
def test_hungry_questions_are_stopped_and_commits_go_on(store: Store, kind: str) -> None:
    rejected = RejectedRecord(1, "x" * 100_000, None, None, None, None, "traces")

    def commit(readers: Readers) -> bool:
        readers.make_room()  # As the writer does.
        try:
            store.reject([rejected] * 10)
        except StoreUnavailableError:  # Its sender would come again.
            return False
        return True

    async def scenario(readers: Readers) -> None:
        said: set[str] = set()

        async def keep_asking() -> None:
            while True:
                try:
                    await ask(readers, HUNGRY[kind])
                except Exception as error:  # noqa: BLE001 - any error of a question will do
                    said.add(str(error))

        asking = [asyncio.ensure_future(keep_asking()) for _ in range(THREADS)]
        until_time = time.monotonic() + 1.5
        commits: list[bool] = []
        while time.monotonic() < until_time or len(commits) < 10 or not said:
            commits.append(await asyncio.to_thread(commit, readers))
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert any("needs more memory than the collector can spare" in text for text in said)
        await until(lambda: readers.running == 0)
        # Alone a commit never fails; among hungry questions hardly one did, and none for good.
        assert commits.count(False) <= len(commits) // 5
        assert commit(readers)
        found = await ask(readers, "SELECT count(*) FROM rejected_records")
        assert found.rows == [[(commits.count(True) + 1) * 10]]

    run(store, scenario)


def test_rows_that_no_checkpoint_has_moved_are_no_reason_to_stop_a_question(store: Store) -> None:
    big = RejectedRecord(1, "x" * 1_000_000, None, None, None, None, "traces")
    for _ in range(20):
        store.reject([big._replace(reason=f"{number}{big.reason}") for number in range(10)])
    assert store.database.memory_bytes() > LIMIT_BYTES // 4

    async def scenario(readers: Readers) -> None:
        slow = "SELECT sum(hash(range)) > 0 FROM range(50000000)"
        assert (await ask(readers, slow)).rows == [[True]]

    run(store, scenario)


def test_the_guard_survives_a_question_that_ends_as_it_is_stopped(store: Store) -> None:
    guard = MemoryGuard(store.database, limit_bytes=-4)  # Whatever is held is too much.
    ended = store.database.cursor()
    ended.close()
    question = Guarded(ended.interrupt, time.monotonic())

    guard.watch(question)
    guard.make_room()
    for _ in range(200):
        if question.is_starved:
            break
        time.sleep(0.01)

    assert question.is_starved
    assert guard._thread.is_alive()
    guard.forget(question)
    guard.close()
