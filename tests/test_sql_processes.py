"""SQL that somebody wrote, in a process of its own that reads the file of the writer."""

import asyncio
import errno
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import otelchain_collector.checkpoints as checkpoints_module
from otelchain_collector.answer import QueryFailed
from otelchain_collector.answers import as_arrow, as_json
from otelchain_collector.asked_sql import AskedSql
from otelchain_collector.checkpoint_lease import CheckpointLeases
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.questions import Asker, QuestionStoppedError
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.sql_processes import CAN_READ, Answered, Session, SqlProcesses
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from stored_runs import make_store

pytestmark = pytest.mark.skipif(not CAN_READ, reason="needs DuckDB 2")

LIMIT_BYTES = 512 * 1024 * 1024
ENDLESS = "SELECT sum(a.range & b.range) FROM range(100000000) a, range(1000000) b"
COUNT = "SELECT count(*) FROM rejected_spans"
REJECTED = RejectedRecord(1, "no end", None, None, None, None, "traces")


class Asking:
    """A file with its writer, and processes that answer from it."""

    def __init__(self, database: Path) -> None:
        self.store = Store.open(make_store(database), memory_limit_bytes=LIMIT_BYTES)
        self.writer = Writer(self.store)
        self.writer.start()
        self.processes = SqlProcesses(
            database, CheckpointLeases(self.writer, self.store.database), LIMIT_BYTES
        )

    def close(self) -> None:
        self.writer.close()
        self.store.close()

    def on_writer(self, do: Callable[[], Any]) -> Any:
        return self.writer.between_commits(do).result()

    def run(self, scenario: Callable[[], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            try:
                return await scenario()
            finally:
                assert self.processes.close()

        return asyncio.run(main())

    async def ask(
        self,
        sql: str | AskedSql,
        *,
        seconds: float = 60,
        arrow: bool = False,
        first: Callable[[Session], None] = lambda _: None,
        hold: Callable[[int], None] = lambda _: None,
        name: str | None = None,
    ) -> Answered:
        asked = AskedSql(sql, max_rows=1_000) if isinstance(sql, str) else sql

        def ask(session: Session) -> Answered:
            first(session)
            return session.ask(asked, seconds, arrow=arrow, hold=hold)

        return await self.processes.answer(ask, Asker(asyncio.Event().wait, None, name))

    async def rows(self, sql: str, **options: Any) -> Any:
        return orjson.loads((await self.ask(sql, **options)).body)["rows"]

    @property
    def pids(self) -> list[int]:
        """Of the processes that wait for a question."""
        return [process._process.pid for process in self.processes._idle]


@pytest.fixture(name="asking")
def _asking(tmp_path: Path) -> Iterator[Asking]:
    asking = Asking(tmp_path / "otelchain.duckdb")
    yield asking
    asking.close()


@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize(
    "asked",
    [
        AskedSql("SELECT * FROM runs ORDER BY span_id", 1_000),
        AskedSql("SELECT span_id FROM runs ORDER BY span_id", 2),
        AskedSql("SELECT span_id FROM runs ORDER BY span_id", 2, offset=3),
        AskedSql("SELECT $a::INTEGER + 1 AS b, $c AS c", 5, params={"a": "41", "c": "'; --"}),
        AskedSql("SELECT 'é\\n🦆' || chr(0), NULL, TIMESTAMP_NS '2026-11-30 23:04:54.1'", 5),
    ],
)
def test_the_answer_is_the_one_that_the_collector_itself_would_give(
    asking: Asking, asked: AskedSql, arrow: bool
) -> None:
    cursor = asking.store.database.cursor()
    expected = asked.answer(cursor, 20, as_arrow if arrow else as_json)  # type: ignore[arg-type]
    cursor.close()

    answered = asking.run(lambda: asking.ask(asked, arrow=arrow))

    assert answered.has_more == expected.has_more
    if not arrow:
        assert answered.body == expected.body
        return
    with pa.ipc.open_stream(answered.body) as here, pa.ipc.open_stream(expected.body) as there:
        assert here.read_all().equals(there.read_all())


@pytest.mark.parametrize(
    ("asked", "kind", "text"),
    [
        (AskedSql("SELEC 1", 1), QueryFailed, 'Parser Error: syntax error at or near "SELEC"'),
        (AskedSql("DROP TABLE spans", 1), QueryFailed, "only SELECT and EXPLAIN are allowed"),
        (
            AskedSql("SELECT $a::DATE", 1, params={"a": "x"}, name="own"),
            QueryFailed,
            "own: a must be a date such as 2026-11-30, not 'x'",
        ),
        (AskedSql("SELECT error('told by the query')", 1), QueryFailed, "^told by the query$"),
        (AskedSql(ENDLESS, 1), QueryFailed, r"^it ran longer than 0\.3 seconds"),
        # No interrupt reaches into a function: its process is killed.
        (
            AskedSql("SELECT levenshtein(repeat('a', 900000), repeat('b', 900000))", 1),
            QueryFailed,
            r"^it ran longer than 0\.3 seconds",
        ),
        (
            AskedSql("SELECT repeat('x', 900000000)", 1),
            QuestionStoppedError,
            "needs more memory than the collector can spare; ask for",
        ),
        (
            AskedSql("SELECT repeat('x', 1000) FROM range(70000)", 100_000),
            QueryFailed,
            "the answer is larger than 64 MiB; ask for fewer rows",
        ),
    ],
)
def test_what_cannot_be_answered_is_said_and_the_next_question_is_answered(
    asking: Asking, asked: AskedSql, kind: type[Exception], text: str
) -> None:
    seconds = 0.3 if "longer than" in text else 60

    async def scenario() -> None:
        with pytest.raises(kind, match=text) as refused:
            await asking.ask(asked, seconds=seconds)
        assert "\n" not in str(refused.value)
        assert await asking.rows("SELECT 1") == [[1]]

    asking.run(scenario)


@pytest.mark.parametrize(
    ("columns", "rows"), [("repeat('x', 1000)", 60_000), (", ".join(["range"] * 20), 100_000)]
)
def test_the_largest_answers_have_room_beside_what_they_are_made_of(
    asking: Asking, columns: str, rows: int
) -> None:
    asked = AskedSql(f"SELECT {columns} FROM range({rows})", 100_000)

    answered = asking.run(lambda: asking.ask(asked))

    assert len(orjson.loads(answered.body)["rows"]) == rows


def test_an_answer_has_what_duckdb_has_written_past_its_log(asking: Asking) -> None:
    # A transaction with a whole row group writes it into the file itself, before its commit.
    many = (
        "INSERT INTO rejected_records BY NAME SELECT 1 AS received_time_unix_nano, 'x' AS reason, "
    )
    many += "'traces' AS signal FROM range(400000)"

    async def scenario() -> None:
        await asking.ask("SELECT 1")
        asking.on_writer(lambda: asking.store.database.writing.execute(many))
        assert await asking.rows(COUNT) == [[400_000]]

    asking.run(scenario)


def test_an_answer_has_everything_that_was_committed_before_it(asking: Asking) -> None:
    async def scenario() -> list[Any]:
        found = [await asking.rows(COUNT)]
        for step in (lambda: asking.store.reject([REJECTED]), asking.store.database.checkpoint) * 2:
            asking.on_writer(step)
            found += await asking.rows(COUNT)
        return found

    assert asking.run(scenario) == [[[0]], [1], [1], [2], [2]]


def test_a_commit_in_the_middle_of_a_question_is_not_in_its_answer(asking: Asking) -> None:
    def commit(_: Session) -> None:
        asking.on_writer(lambda: asking.store.reject([REJECTED]))

    async def scenario() -> None:
        asking.on_writer(lambda: asking.store.reject([REJECTED]))
        assert await asking.rows(COUNT, first=commit) == [[1]]
        assert await asking.rows(COUNT) == [[2]]

    asking.run(scenario)


def test_a_question_whose_file_was_changed_is_told_to_come_again(asking: Asking) -> None:
    def checkpoint(_: Session) -> None:
        asking.on_writer(asking.store.database.checkpoint)

    async def scenario() -> None:
        for sql in ("SELECT 1", "SELEC 1"):
            with pytest.raises(StoreUnavailableError, match="rearranged; ask again in a second"):
                await asking.ask(sql, first=checkpoint)
        assert await asking.rows("SELECT 1") == [[1]]

    asking.run(scenario)


def test_checkpoints_wait_for_questions_until_the_log_is_too_long(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, writer = asking.store, asking.writer
    for name in ("_LEAST_WAL_BYTES", "_MOST_WAL_BYTES"):
        monkeypatch.setattr(checkpoints_module, name, 1)

    def commits(count: int) -> int:
        """Commit something so often; return how many checkpoints that took."""
        before = store.database.checkpoints
        for _ in range(count):
            asking.on_writer(lambda: store.reject([REJECTED]))
        asking.on_writer(lambda: None)
        return store.database.checkpoints - before

    leases = CheckpointLeases(writer, store.database)
    assert commits(3) > 0
    with leases.held():
        assert commits(3) == 0
        before = store.database.checkpoints
        asking.on_writer(writer.checkpoints.make)  # As retention does.
        assert store.database.checkpoints == before
        with leases.held():
            assert commits(3) == 0
        assert commits(3) == 0
    assert commits(1) > 0
    monkeypatch.setattr(checkpoints_module, "QUESTION_WAL_BYTES", 1)
    with pytest.raises(StoreUnavailableError, match="rearranged"), leases.held():
        assert commits(3) > 0


def test_a_lease_that_the_writer_cannot_give_in_time_is_not_given_later(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.checkpoint_lease._LEASE_SECONDS", 0.05)
    may_go_on = threading.Event()
    asking.writer.between_commits(lambda: may_go_on.wait(20))
    leases = CheckpointLeases(asking.writer, asking.store.database)

    with pytest.raises(StoreUnavailableError, match="commits take too long"), leases.held():
        raise AssertionError("there is no lease")

    may_go_on.set()
    asking.on_writer(lambda: None)
    assert asking.writer.checkpoints._questions == 0


def test_a_process_is_kept_and_replaced_when_it_has_ended(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await asking.ask("SELECT 1")
        [first] = asking.pids
        await asking.ask("SELECT 1")
        assert asking.pids == [first]
        os.kill(first, signal.SIGKILL)
        asking.processes._idle[0]._process.wait()
        assert await asking.rows("SELECT 2") == [[2]]
        [second] = asking.pids
        assert second != first
        # It ends by itself in the moment that it is asked.
        process = asking.processes._idle[0]
        process._questions.close()
        process._process.wait()
        nobody, pipe = os.pipe()
        os.close(nobody)
        process._questions = os.fdopen(pipe, "wb")
        monkeypatch.setattr(process, "is_alive", lambda: True)
        assert await asking.rows("SELECT 3") == [[3]]

    asking.run(scenario)


def test_a_question_that_breaks_its_process_breaks_nothing_else(asking: Asking) -> None:
    async def scenario() -> None:
        def crash(session: Session) -> None:
            os.kill(session._process._process.pid, signal.SIGSEGV)

        with pytest.raises(QuestionStoppedError, match=r"broke the process .* \(status -11\)"):
            await asking.ask("SELECT 1", first=crash)
        assert await asking.rows("SELECT 1") == [[1]]

    asking.run(scenario)


def test_a_question_is_stopped_by_its_id_whatever_it_does(asking: Asking) -> None:
    async def scenario() -> None:
        for sql in (ENDLESS, "SELECT levenshtein(repeat('a', 900000), repeat('b', 900000))"):
            asked = asyncio.ensure_future(asking.ask(sql, name="mine"))
            await asyncio.sleep(1)
            started = time.monotonic()
            assert asking.processes.stop("mine")
            with pytest.raises(QuestionStoppedError, match="cancelled"):
                await asked
            while asking.processes.running:
                await asyncio.sleep(0.01)
            assert time.monotonic() - started < 20

    asking.run(scenario)


def test_an_answer_for_which_there_is_no_room_is_dropped_with_its_process(asking: Asking) -> None:
    def refuse(size: int) -> None:
        assert size > 1_000_000
        raise MemoryError

    async def scenario() -> None:
        with pytest.raises(MemoryError):
            await asking.ask("SELECT repeat('x', 2000000)", hold=refuse)
        assert asking.pids == []
        assert await asking.rows("SELECT 1") == [[1]]

    asking.run(scenario)


def test_the_process_knows_no_token_and_writes_no_file(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_COLLECTOR_TOKEN", "a-token-that-nobody-may-see")

    async def scenario() -> None:
        await asking.ask("SELECT 1")
        [pid] = asking.pids
        seen = Path(f"/proc/{pid}")
        if not seen.exists():
            pytest.skip("needs Linux")
        assert b"nobody-may-see" not in (seen / "environ").read_bytes()
        limits = {line[:25].strip(): line[25:].split()[:2] for line in limits_of(seen)}
        assert limits["Max file size"] == ["0", "0"]
        assert limits["Max core file size"] == ["0", "0"]
        # 256 MiB, and half of DuckDB's 512.
        assert limits["Max data size"] == [str(512 * 1024 * 1024)] * 2
        assert (seen / "oom_score_adj").read_text() == "1000\n"
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 5

    asking.run(scenario)


def limits_of(seen: Path) -> list[str]:
    return (seen / "limits").read_text().splitlines()[1:]


def test_a_question_learns_nothing_of_where_the_file_lies(asking: Asking, tmp_path: Path) -> None:
    tables = (
        "duckdb_databases()",
        "duckdb_settings()",
        "pragma_database_size()",
        "pragma_storage_info('spans')",
        "duckdb_tables()",
        "duckdb_views()",
        "duckdb_functions()",
    )

    async def scenario() -> None:
        for table in tables:
            asked = AskedSql(f"SELECT * FROM {table}", 100_000)
            text = (await asking.ask(asked)).body.decode()
            assert str(tmp_path) not in text, table
            assert str(Path.home()) + "/" not in text, table

    asking.run(scenario)


def test_a_process_that_the_system_does_not_start_is_asked_for_again_later(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("otelchain_collector.answering_process.subprocess.Popen", fails)
            with pytest.raises(StoreUnavailableError, match="did not start"):
                await asking.rows(COUNT)
        assert await asking.rows(COUNT) == [[0]]

    asking.run(scenario)


def test_a_thread_that_the_system_does_not_start_is_asked_for_again_later(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(asking.processes._threads, "submit", fails)
            with pytest.raises(StoreUnavailableError, match="no thread"):
                await asking.rows(COUNT)
        assert await asking.rows(COUNT) == [[0]]

    asking.run(scenario)
