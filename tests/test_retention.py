"""Retention: by age, by size, by service; whole traces; a file that stops growing."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from collector_process import RunningCollector
from otelchain_collector.budget import ByteBudget
from otelchain_collector.decode import decode
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.decode_metrics import decode_metrics
from otelchain_collector.deletions import Tables
from otelchain_collector.errors import CollectorError
from otelchain_collector.retention import Retention
from otelchain_collector.retention_clock import RetentionClock
from otelchain_collector.retention_rules import RetentionRules
from otelchain_collector.settings import CollectorSettings, parse_age
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_requests import (
    START,
    log_record,
    logs_request,
    metrics_request,
    point,
    request,
    span,
    text,
)

DAY = 86_400 * 1_000_000_000


class Kept:
    """A store with its writer; everything is put in as if it had arrived some days ago."""

    def __init__(self, database: Path) -> None:
        self.store = Store.open(database)
        self.writer = Writer(self.store)
        self.writer.start()
        self.now = START

    def put(
        self,
        days_ago: float,
        trace: str,
        service: str = "shop",
        count: int = 1,
        start: int = START,
        value: str = "v",
    ) -> None:
        received = self.now - int(days_ago * DAY)
        spans = [
            span(
                trace_id=trace.encode().ljust(16, b"."),
                start_time_unix_nano=start,
                name=trace,
                attributes=[text("k", value)],
            )
            for _ in range(count)
        ]
        self._submit(decode(request(*spans, service=service), received))

    def put_others(self, days_ago: float) -> None:
        received = self.now - int(days_ago * DAY)
        self._submit(decode_logs(logs_request(log_record()), received))
        self._submit(decode_metrics(metrics_request(point()), received))
        self._submit(decode(request(span(trace_id=b"short")), received))

    def _submit(self, decoded: object) -> None:
        self.writer.submit(decoded, ByteBudget(1).reserve()).result(10)  # type: ignore[arg-type]

    def look(self, rules: RetentionRules, retention: Retention | None = None) -> int:
        return (retention or self.retention(rules)).look()

    def retention(self, rules: RetentionRules) -> Retention:
        """Return one whose clocks both show `now`."""
        clock = RetentionClock(lambda: self.now, lambda: self.now / 1e9)
        return Retention(self.writer, self.store, rules, clock)

    def names(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT name FROM spans")}

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with self.store.database.cursor() as cursor:
            return cursor.execute(sql).fetchall()


@pytest.fixture(name="kept")
def _kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "t.duckdb")
    yield kept
    kept.writer.close()
    kept.store.close()


def checkpoint(kept: Kept) -> None:
    kept.writer.between_commits(kept.writer.checkpoints.make).result(10)


def days(count: int) -> int:
    return count * 86_400


def test_what_arrived_before_the_time_is_deleted(kept: Kept) -> None:
    kept.put(31.5, "old", count=3)
    kept.put(29, "young")

    assert kept.look(RetentionRules(days(30))) == 3

    assert kept.names() == {"young"}
    assert kept.writer.counts.expired == 3


def test_the_time_of_arrival_counts_and_not_what_the_application_says(kept: Kept) -> None:
    kept.put(1, "wrong clock", start=1)
    kept.put(40, "from the future", start=START + 10_000 * DAY)

    kept.look(RetentionRules(days(30)))

    assert kept.names() == {"wrong clock"}


def test_every_table_of_records_is_looked_at(kept: Kept) -> None:
    tables = ("logs", "metric_points", "rejected_records")
    kept.put_others(40)
    kept.put_others(1)

    assert kept.look(RetentionRules(days(30))) == 3

    for table in tables:
        assert kept.rows(f"SELECT count(*) FROM {table}") == [(1,)], table


def test_a_trace_that_goes_on_is_kept_whole(kept: Kept) -> None:
    kept.put(50, "ended")
    kept.put(50, "goes on")
    kept.put(1, "goes on")

    kept.look(RetentionRules(days(30)))

    assert kept.names() == {"goes on"}
    assert kept.rows("SELECT count(*) FROM spans") == [(2,)]


def test_a_trace_that_goes_on_while_it_is_being_deleted_is_kept(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.put(50, "wakes up")
    retention = kept.retention(RetentionRules(days(30)))
    delete = kept.store.delete
    awake = iter([True])

    def wakes_up(statement: str, values: dict[str, object]) -> int:
        if next(awake, False):
            rows = decode(
                request(span(trace_id=b"wakes up........", name="wakes up")), kept.now + 1
            ).rows
            kept.store.insert(rows)
        return delete(statement, values)

    monkeypatch.setattr(kept.store, "delete", wakes_up)

    retention.look()

    assert kept.rows("SELECT count(*) FROM spans") == [(2,)]


def test_a_run_that_never_ended_goes_with_its_trace(kept: Kept) -> None:
    started = decode(request(span()), kept.now - 40 * DAY).rows
    kept.writer.between_commits(lambda: kept.store.insert_pending(started)).result(10)

    assert kept.look(RetentionRules(days(30))) == 1
    assert kept.rows("SELECT count(*) FROM pending_spans") == [(0,)]


def test_a_service_has_a_time_of_its_own_shorter_or_longer(kept: Kept) -> None:
    for number, service in enumerate(("chatty", "audit", "other")):
        for age in (2, 40, 100):
            kept.put(age, f"{service} {age}", service, start=START + number)
    rules = RetentionRules(days(30), services={"chatty": days(1), "audit": days(90)})

    kept.look(rules)

    assert kept.names() == {"audit 2", "audit 40", "other 2"}


def test_a_time_for_a_service_alone_leaves_the_others(kept: Kept) -> None:
    kept.put(100, "kept", "audit")
    kept.put(100, "gone", "chatty")
    kept.put_others(100)

    kept.look(RetentionRules(services={"chatty": days(1)}))

    assert kept.names() == {"kept"}
    assert kept.rows("SELECT count(*) FROM metric_points") == [(1,)]


@pytest.mark.failure("file-growth")
def test_beyond_the_size_what_arrived_first_is_deleted(kept: Kept) -> None:
    for day in range(40):
        kept.put(40 - day, f"day {day:02}", count=100, value=str(day) * 2_000)
        checkpoint(kept)
    before = kept.store.database.live_bytes()

    deleted = kept.look(RetentionRules(max_bytes=before // 2))

    assert kept.store.database.live_bytes() <= before // 2
    assert 1_000 < deleted < 3_500
    names = sorted(kept.names())
    # A day is deleted whole, or not at all but for the last.
    assert names == [f"day {day:02}" for day in range(40 - len(names), 40)]


def test_of_a_trace_that_is_too_large_and_goes_on_what_came_first_is_deleted(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    for hour in range(24):
        value = os.urandom(1_000).hex()
        kept.put(1 - hour / 24, "endless", count=500, value=value)
        checkpoint(kept)
    kept.put(0.95, "ended", count=500, value=os.urandom(1_000).hex())
    kept.put(0, "endless")
    most = 3 * kept.store.database.live_bytes() // 4

    kept.look(RetentionRules(max_bytes=most))

    [(left, first)] = kept.rows(
        "SELECT count(*), min(received_time_unix_nano) FROM spans WHERE name = 'endless'"
    )
    assert 0 < left < 24 * 500 + 1
    assert first > kept.now - DAY
    assert kept.names() == {"endless"}  # Those of the trace that has ended went before.
    assert kept.store.database.live_bytes() <= most
    assert "rows of traces that go on were deleted" in caplog.text


@pytest.mark.parametrize(
    "rules",
    [RetentionRules(days(30)), RetentionRules(services={"shop": days(30)})],
    ids=["all", "service"],
)
def test_of_a_trace_that_never_ends_nothing_is_kept_for_more_than_twice_the_time(
    rules: RetentionRules, kept: Kept
) -> None:
    for days_ago in (61, 59, 31, 0):
        kept.put(days_ago, "endless")

    assert kept.look(rules) == 1

    [(first,)] = kept.rows("SELECT min(received_time_unix_nano) FROM spans")
    assert first == kept.now - 59 * DAY


@pytest.mark.failure("file-growth")
def test_the_file_stops_growing(kept: Kept, tmp_path: Path) -> None:
    retention = kept.retention(RetentionRules(days(5)))
    sizes = []
    for day in range(30):
        kept.now = START + day * DAY
        kept.put(0, f"day {day}", count=300, value=f"{day} " * 200)
        retention.look()
        checkpoint(kept)
        sizes.append(kept.store.database.file_bytes())

    assert kept.rows("SELECT count(*) FROM spans")[0][0] in {5 * 300, 6 * 300}
    assert max(sizes[10:]) <= 1.5 * sizes[9]


def test_a_large_deletion_lets_commits_through(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otelchain_collector.deletions.STEP_ROWS", 10)
    for day in range(20):
        kept.put(100 + day, f"day {day}", count=10)
    order = []
    insert, delete = kept.store.insert, kept.store.delete

    def insert_and_note(rows: object, **others: object) -> object:
        order.append("commit")
        return insert(rows, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(kept.store, "insert", insert_and_note)

    def delete_and_receive(statement: str, values: dict[str, object]) -> int:
        order.append("delete")
        if order.count("delete") == 5:
            # While a step runs, a request arrives.
            new = decode(request(span(name="new")), kept.now)
            kept.writer.submit(new, ByteBudget(1).reserve())
        return delete(statement, values)

    monkeypatch.setattr(kept.store, "delete", delete_and_receive)

    kept.look(RetentionRules(days(30)))

    assert order == ["delete"] * 5 + ["commit"] + ["delete"] * 15
    assert kept.names() == {"new"}


@pytest.mark.parametrize("text", ["", "7", "0d", "d", "7 years", "-1d", "1.5h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write one such as 30d"):
        parse_age(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("45m", 2_700), ("2w", 1_209_600)])
def test_times_are_read(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["shop", "=7d", "shop=", "shop=7", "shop=week"])
def test_what_is_no_time_for_a_service_is_refused(text: str) -> None:
    with pytest.raises(CollectorError, match=r"--retain must be SERVICE=AGE, such as shop=7d"):
        RetentionRules.of(CollectorSettings(retain=(text,)))


def test_a_collector_keeps_to_its_settings(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    database = tmp_path / "t.duckdb"
    kept = Kept(database)
    kept.now = time.time_ns()
    for age in (1, 3):
        for service in ("shop", "bank"):
            kept.put(age, f"{service} {age}", service)
    kept.writer.close()
    kept.store.close()

    collector = start_collector(database, "--retain-age", "2d", "--retain", "bank=12h")
    for _ in range(100):
        # Of the one service, and of the others.
        if collector.log.read_text().count("rows deleted") == 2:
            break
        time.sleep(0.1)
    collector.stop()

    with duckdb.connect(str(database), read_only=True) as connection:
        assert connection.execute("SELECT name FROM spans").fetchall() == [("shop 1",)]


@pytest.mark.parametrize("hindrance", ["a copy", "a question"])
def test_beyond_the_size_no_more_is_deleted_while_the_room_cannot_be_given_back(
    kept: Kept, hindrance: str
) -> None:
    # A row group for each day.
    for day in range(40, 0, -1):
        kept.put(day, f"day {day}", count=50, value=random_text())
        checkpoint(kept)
    most = int(kept.store.database.live_bytes() * 0.95)
    rules = RetentionRules(max_bytes=most)
    retention = kept.retention(rules)
    if hindrance == "a copy":
        kept.writer.checkpoints.hold()
    reading = kept.store.database.cursor()
    if hindrance == "a question":
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM spans").fetchall()

    deleted = [kept.look(rules, retention) for _ in range(3)]

    # What is left is nine tenths of the most, 0.95 of what there was: 14.5 % less.
    assert deleted == [pytest.approx(0.145 * 2_000, abs=100), 0, 0]
    reading.close()
    if hindrance == "a copy":
        kept.writer.checkpoints.release()
    kept.put(0, "new")
    checkpoint(kept)
    assert kept.look(rules, retention) == 0
    assert kept.store.database.live_bytes() <= most


def random_text() -> str:
    """Return 10 KB, half of which is left when it has been packed."""
    return os.urandom(5_000).hex()


def test_beyond_the_size_a_trace_that_goes_on_does_not_cost_the_others(kept: Kept) -> None:
    # One of its spans in each row group keeps the room of all that stand beside it.
    for day in range(40, 0, -1):
        kept.put(day, f"day {day}", count=50, value=random_text())
        kept.put(day, "goes on")
        checkpoint(kept)
    kept.put(0, "goes on")
    checkpoint(kept)
    most = int(kept.store.database.live_bytes() * 0.95)
    rules = RetentionRules(max_bytes=most)
    retention = kept.retention(rules)
    with kept.store.database.cursor() as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM spans").fetchall()
        deleted = kept.look(rules, retention)
    # While somebody reads, room is no reason to delete what goes on.
    assert kept.rows("SELECT count(*) FROM spans WHERE name = 'goes on'") == [(41,)]
    kept.put(0, "new")
    checkpoint(kept)

    deleted += kept.look(rules, retention)

    # Days are of one size: those that have to go are 14.5 % of 40, and with them what was spared.
    assert 5 * 50 <= deleted <= 7 * 51
    assert 33 <= kept.rows("SELECT count(*) FROM spans WHERE name = 'goes on'")[0][0] <= 36
    assert kept.store.database.live_bytes() <= most
    assert kept.look(rules, retention) == 0


def test_beyond_the_size_large_row_groups_do_not_cost_more(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    # As `otelchain compact` leaves them: all in one.
    for day in range(40, 0, -1):
        kept.put(day, f"day {day}", count=50, value=random_text())
    checkpoint(kept)
    rules = RetentionRules(max_bytes=int(kept.store.database.live_bytes() * 0.95))
    retention = kept.retention(rules)

    assert kept.look(rules, retention) == pytest.approx(0.145 * 2_000, abs=50)

    assert [kept.look(rules, retention) for _ in range(3)] == [0, 0, 0]
    assert "compact" not in caplog.text


def test_where_deleted_rows_keep_much_room_the_remedy_is_named_once(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    for day in range(40, 0, -1):
        kept.put(day, f"chatty {day}", service="chatty", count=25, value=random_text())
        kept.put(day, f"day {day}", count=25, value=random_text())
        checkpoint(kept)
    most = int(kept.store.database.live_bytes() * 0.6)
    rules = RetentionRules(max_bytes=most, services={"chatty": days(1)})
    retention = kept.retention(rules)
    kept.look(rules, retention)
    kept.put(0, "new")
    checkpoint(kept)
    kept.look(rules, retention)
    kept.look(rules, retention)

    # What is left of the others fits, and nothing of them was told to go.
    assert kept.rows("SELECT count(*) FROM spans WHERE service_name = 'shop'") == [(40 * 25 + 1,)]
    assert caplog.text.count("'otelchain compact' gives it back") == 1


def test_a_restart_while_the_room_was_not_given_back_deletes_nothing_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "t.duckdb")
    for day in range(40, 0, -1):
        kept.put(day, f"day {day}", count=50, value=random_text())
        checkpoint(kept)
    rules = RetentionRules(max_bytes=int(kept.store.database.live_bytes() * 0.95))
    kept.writer.checkpoints.hold()  # A snapshot is being sent.
    assert kept.look(rules) > 0
    kept.writer.close()
    kept.store.database.writing.close()  # Killed: no checkpoint.
    kept.store.database._connection.close()

    kept = Kept(tmp_path / "t.duckdb")

    assert [kept.look(rules) for _ in range(3)] == [0, 0, 0]
    kept.writer.close()
    kept.store.close()


def test_a_log_of_a_trace_that_goes_on_stays_with_it(kept: Kept) -> None:
    trace = b"a".ljust(16, b".")
    record = log_record(trace_id=trace, span_id=b"12345678")
    kept._submit(decode_logs(logs_request(record), kept.now - 50 * DAY))
    kept.put(1, "a")

    assert kept.look(RetentionRules(days(30))) == 0

    kept.now += 100 * DAY
    assert kept.look(RetentionRules(days(30))) == 2


def test_a_damaged_block_of_one_table_keeps_what_it_has_to_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(tmp_path / "t.duckdb")
    for number in range(50):
        records = [log_record() for _ in range(3)]
        kept._submit(decode_logs(logs_request(*records), kept.now - 40 * DAY + number**2 * 10**9))
    checkpoint(kept)
    [(block,)] = kept.rows(
        "SELECT DISTINCT block_id FROM pragma_storage_info('logs') "
        "WHERE column_name = 'received_time_unix_nano' AND block_id >= 0"
    )
    for number in range(20):
        kept.put(40 - number / 100, f"old {number}", count=50, value=random_text())
    kept.put(1, "young")
    checkpoint(kept)
    kept.writer.close()
    kept.store.close()
    # DuckDB's blocks of 256 KiB stand behind three headers of 4 KiB.
    with (tmp_path / "t.duckdb").open("r+b") as file:
        file.seek(3 * 4096 + block * 262_144 + 5_000)
        [byte] = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    kept = Kept(tmp_path / "t.duckdb")
    rules = RetentionRules(days(30), max_bytes=10**12)

    deleted = [kept.look(rules) for _ in range(2)]

    assert deleted == [20 * 50, 0]
    assert kept.names() == {"young"}
    assert "part of table logs is damaged" in caplog.text
    kept.writer.close()
    kept.store.close()


def test_what_arrived_first_is_found_wherever_it_stands(kept: Kept) -> None:
    # A re-read row stands at the end of the file; and half of all arrived within a second.
    for days_ago in (1, 30, 2, 20, 3):
        kept.put(days_ago, f"{days_ago} days", count=100)
    kept.put(10, "at once", count=500)
    with kept.store.database.cursor() as cursor:
        tables = Tables(cursor)

        ends = [tables.arrived_until(share) for share in (0.05, 0.1, 0.15, 0.2, 0.5, 0.75, 1)]

    ago = [round((kept.now - end) / DAY, 3) for end in ends]
    assert ago == [30, 30, 20, 20, 10, 3, 1]


def test_a_clock_that_was_ahead_does_not_stop_deletion_until_then(kept: Kept) -> None:
    rules = RetentionRules(days(30))
    retention = kept.retention(rules)
    kept.put(1, "young")
    kept.now += 365 * DAY
    assert kept.look(rules, retention) == 1

    kept.now -= 365 * DAY
    kept.put(31, "old")

    assert kept.look(rules, retention) == 1
