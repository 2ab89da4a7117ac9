"""Runs that are visible before they end: sent while they are open, replaced when they end."""

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from langchain_core.runnables import RunnableLambda
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_value
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, TraceFlags, set_span_in_context

import otelchain.provider
from collector_process import RunningCollector, readiness
from otelchain import OtelCallbackHandler, configure
from otelchain.cli.root import cli
from otelchain.live import LiveRuns, pending_span
from otelchain_collector.budget import ByteBudget
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.errors import RowsRefusedError
from otelchain_collector.rows import SpanRow
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_requests import START, request, span, text
from stored_runs import TRACE, make_store, run

SECRET = "sk-proj-LiveInput0Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St"

# It is killed in the middle of its tool.
CRASHING = f"""
import sys
import time

from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from otelchain import OtelCallbackHandler, configure

configure("app", sys.argv[1], protocol=sys.argv[2])


@tool
def slow(q: str) -> str:
    "Never answers."
    time.sleep(300)


prepare = RunnableLambda(lambda text: {{"q": text}}).with_config(run_name="prepare")
chain = (prepare | slow).with_config(run_name="support")
chain.invoke("order 42, key {SECRET}", {{"callbacks": [OtelCallbackHandler()]}})
"""


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


def statuses(collector: RunningCollector) -> dict[str, str]:
    """Ask a running collector for the status of every run, by name."""
    answer = urllib.request.Request(
        f"http://{collector.http}/sql",
        json.dumps({"sql": "SELECT name, status FROM runs"}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(answer, timeout=30) as response:
        return dict(json.load(response)["rows"])


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1_200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(cli, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def read(database: Path, sql: str) -> list[Any]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute(sql).fetchall()


# --- an application and a collector, both real ---------------------------------------------------


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_killed_application_leaves_what_was_running_with_its_input(
    protocol: str, start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    address = collector.grpc if protocol == "grpc" else collector.http
    application = subprocess.Popen(
        [sys.executable, "-c", CRASHING, f"http://{address}", protocol],
        env={**os.environ, "OTELCHAIN_LIVE_RUNS": "true"},
    )
    expected = {"support": "pending", "prepare": "ok", "slow": "pending"}
    try:
        wait_until(lambda: statuses(collector) == expected)
    finally:
        application.kill()
        application.wait()

    while_it_runs = shown("show", "last", "--database", str(collector.database))
    collector.stop()

    assert shown("show", "last", "--database", str(collector.database)) == while_it_runs
    assert "3 runs, 2 pending" in while_it_runs
    rows = read(
        collector.database,
        "SELECT name, status, inputs, end_time, duration_ms, outputs IS NULL FROM runs"
        " ORDER BY start_time",
    )
    [(_, _, _, _, took, _)] = [row for row in rows if row[0] == "prepare"]
    masked = "[REDACTED:openai_key]"
    assert rows == [
        ("support", "pending", f'"order 42, key {masked}"', None, None, True),
        ("prepare", "ok", f'"order 42, key {masked}"', rows[1][3], took, False),
        ("slow", "pending", f'{{"q":"order 42, key {masked}"}}', None, None, True),
    ]


def test_a_secret_in_the_input_of_a_pending_run_is_not_in_the_file(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    provider = configure("app", f"http://{collector.http}", live=True, set_global=False)
    release = threading.Event()
    wait: RunnableLambda[str, bool] = RunnableLambda(lambda _: release.wait(60), name="wait")
    thread = threading.Thread(
        target=lambda: wait.invoke(f"key {SECRET}", {"callbacks": [OtelCallbackHandler(provider)]})
    )
    thread.start()
    try:
        wait_until(lambda: statuses(collector) == {"wait": "pending"})
        # Killed, so that the write-ahead log stays beside the file and is searched too.
        collector.kill()
    finally:
        release.set()
        thread.join()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    with duckdb.connect(str(collector.database)) as connection:
        [(row,)] = connection.execute("SELECT p::VARCHAR FROM pending_spans AS p").fetchall()
    provider.shutdown()

    assert b"wait" in content
    assert "REDACTED" in row
    assert SECRET[8:].encode() not in content
    assert SECRET[8:] not in row


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_run_that_ends_replaces_what_was_pending_also_after_a_restart_of_the_collector(
    protocol: str, start_collector: Any, tmp_path: Path
) -> None:
    first = start_collector(tmp_path / "traces.duckdb")
    address = first.grpc if protocol == "grpc" else first.http
    provider = configure("app", f"http://{address}", protocol=protocol, live=True, set_global=False)
    seen: list[dict[str, str]] = []

    def outlive_the_collector(question: str) -> str:
        wait_until(lambda: statuses(first) == {"outer": "pending", "inner": "pending"})
        first.stop()
        start_collector(first.database, "--grpc", first.grpc, "--http", first.http)
        seen.append(statuses(first))
        return question.upper()

    inner = RunnableLambda(outlive_the_collector).with_config(run_name="inner")
    outer = RunnableLambda(lambda question, config: inner.invoke(question, config))
    outer.with_config(run_name="outer").invoke(
        "why?", {"callbacks": [OtelCallbackHandler(provider)]}
    )
    provider.shutdown()

    assert seen == [{"outer": "pending", "inner": "pending"}]
    assert statuses(first) == {"outer": "ok", "inner": "ok"}
    assert (readiness(first)["spans_stored"], readiness(first)["records_duplicate"]) == (2, 0)


def test_nothing_is_pending_when_the_application_has_ended_well(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    provider = configure("app", f"http://{collector.http}", live=True, set_global=False)
    handler = OtelCallbackHandler(provider)
    steps = RunnableLambda(lambda number: number + 1) | RunnableLambda(lambda number: number * 2)

    def patient(number: int, config: Any) -> Any:
        wait_until(lambda: statuses(collector).get("patient") == "pending")
        return steps.invoke(number, config)

    result = (
        RunnableLambda(patient).with_config(run_name="patient").invoke(1, {"callbacks": [handler]})
    )
    provider.shutdown()
    collector.stop()

    assert result == 4
    assert read(collector.database, "SELECT status, count(*) FROM runs GROUP BY ALL") == [("ok", 4)]
    assert read(collector.database, "SELECT count(*) FROM pending_spans") == [(0,)]


# --- the processor -------------------------------------------------------------------------------

NEVER_DUE = 3_600.0


class Live:
    """A provider with a LiveRuns whose exporter keeps what it gets."""

    def __init__(self, exporter: SpanExporter | None = None, **options: Any) -> None:
        self.kept = InMemorySpanExporter()
        options = {"delay_seconds": NEVER_DUE, **options}
        self.processor = LiveRuns(lambda: exporter or self.kept, **options)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("otelchain")

    def sent(self) -> list[str]:
        assert self.processor.force_flush()
        return [found.name for found in self.kept.get_finished_spans()]


@pytest.fixture(name="live")
def _live() -> Iterator[Live]:
    live = Live()
    yield live
    live.provider.shutdown()


def test_a_pending_span_is_the_open_span_as_it_is_when_it_is_sent(live: Live) -> None:
    parent = live.tracer.start_span("parent")
    child = live.tracer.start_span(
        "child", set_span_in_context(parent), attributes={"otelchain.run.type": "tool"}
    )
    child.set_attribute("otelchain.input", "later")
    parent.end()
    assert live.sent() == ["child"]

    [sent] = live.kept.get_finished_spans()
    assert sent.context == child.get_span_context()
    assert sent.parent == parent.get_span_context()
    assert sent.end_time == sent.start_time == child.start_time  # type: ignore[attr-defined]
    assert sent.attributes == {
        "otelchain.run.type": "tool",
        "otelchain.input": "later",
        "otelchain.run.status": "pending",
    }
    assert sent.instrumentation_scope == child.instrumentation_scope  # type: ignore[attr-defined]
    assert child.is_recording()
    assert "otelchain.run.status" not in child.attributes  # type: ignore[attr-defined]


def test_it_is_sent_by_itself_after_a_moment() -> None:
    live = Live(delay_seconds=0.01)
    live.tracer.start_span("open")

    wait_until(lambda: len(live.kept.get_finished_spans()) == 1)
    live.tracer.start_span("next")

    wait_until(lambda: len(live.kept.get_finished_spans()) == 2)
    live.provider.shutdown()


def test_a_run_that_ends_before_its_turn_is_never_sent_and_leaves_its_place() -> None:
    live = Live(max_waiting=2)
    for number in range(10):
        live.tracer.start_span(f"short {number}").end()
    live.tracer.start_span("open")

    assert live.sent() == ["open"]
    assert live.processor.dropped == 0
    live.provider.shutdown()


def test_spans_of_other_instrumentations_are_not_sent(live: Live) -> None:
    live.provider.get_tracer("http").start_span("GET /")

    assert live.sent() == []


def test_an_unsampled_run_is_not_sent() -> None:
    kept = InMemorySpanExporter()
    processor = LiveRuns(lambda: kept)
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    provider.get_tracer("otelchain").start_span("dropped")
    recorded_only = ReadableSpan("x", context=SpanContext(1, 1, False, TraceFlags(0)))
    processor.on_end(recorded_only)
    provider.shutdown()

    assert kept.get_finished_spans() == ()


def test_a_full_queue_drops_the_newest_and_counts_it() -> None:
    live = Live(max_waiting=2)
    for name in ("first", "second", "third"):
        live.tracer.start_span(name)

    assert live.processor.dropped == 1
    assert live.sent() == ["first", "second"]
    live.provider.shutdown()


class Failing(SpanExporter):
    """Raises once, then refuses once, then takes everything."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self._calls = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._calls += 1
        if self._calls == 1:
            raise OSError("no route")
        if self._calls == 2:
            return SpanExportResult.FAILURE
        self.taken.extend(sent.name for sent in spans)
        return SpanExportResult.SUCCESS


def test_an_exporter_that_fails_is_tried_again_with_the_next_runs() -> None:
    exporter = Failing()
    live = Live(exporter)
    for name in ("raised", "refused", "taken"):
        live.tracer.start_span(name)
        live.processor.force_flush()

    assert exporter.taken == ["taken"]
    assert live.processor.failed == 2
    live.provider.shutdown()


class Stuck(SpanExporter):
    """Does not come back before it is shut down."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self._release = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.called.set()
        self._release.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._release.set()


def test_the_application_goes_on_while_the_exporter_is_stuck() -> None:
    exporter = Stuck()
    live = Live(exporter, delay_seconds=0.0, max_waiting=3)
    live.tracer.start_span("stuck")
    exporter.called.wait()

    spans = [live.tracer.start_span(f"run {number}") for number in range(5)]
    for each in spans:
        each.end()

    assert live.processor.dropped == 2
    assert not live.processor.force_flush(timeout_millis=1)
    live.provider.shutdown()  # comes back


def test_after_shutdown_nothing_is_sent_or_kept() -> None:
    live = Live()
    live.tracer.start_span("open")
    live.processor.shutdown()
    live.processor.shutdown()
    live.tracer.start_span("late")

    assert live.sent() == ["open"]


def test_the_exports_own_requests_make_no_spans() -> None:
    class Instrumented(InMemorySpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            assert get_value(_SUPPRESS_INSTRUMENTATION_KEY)
            return super().export(spans)

    exporter = Instrumented()
    live = Live(exporter)
    live.tracer.start_span("open")
    live.processor.force_flush()
    live.provider.shutdown()

    assert (len(exporter.get_finished_spans()), live.processor.failed) == (1, 0)


def test_a_span_that_has_ended_is_not_pending(live: Live) -> None:
    ended: Any = live.tracer.start_span("ended")
    ended.end()

    assert pending_span(ended) is None


FORKING = """
import os
import re
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otelchain.live import LiveRuns


class Printing(SpanExporter):
    def __init__(self):
        self.made_in = os.getpid()

    def export(self, spans):
        assert self.made_in == os.getpid()
        for span in spans:
            os.write(1, f"{who} {span.name}\\n".encode())
        return SpanExportResult.SUCCESS


live = LiveRuns(Printing, delay_seconds=3600)
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(live)
tracer = provider.get_tracer("otelchain")
who = "parent"
tracer.start_span("sent before")
live.force_flush()
tracer.start_span("inherited")
child = os.fork()
if child == 0:
    who = "child"
    tracer.start_span("of the child")
    assert live.force_flush()
    provider.shutdown()
    os._exit(0)
_, code = os.waitpid(child, 0)
live.force_flush()
provider.shutdown()
sys.exit(code)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_sends_its_own_runs_only() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "parent sent before",
        "child of the child",
        "parent inherited",
    ]


def test_an_application_ends_although_no_collector_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    provider = configure("app", "http://127.0.0.1:9", live=True, set_global=False)
    flush: RunnableLambda[str, bool] = RunnableLambda(lambda _: provider.force_flush())

    flush.invoke("now", {"callbacks": [OtelCallbackHandler(provider)]})
    provider.shutdown()


def processors(**arguments: Any) -> list[Any]:
    provider = configure(endpoint="http://127.0.0.1:9", set_global=False, **arguments)
    return list(provider._active_span_processor._span_processors)


def test_live_runs_are_off_unless_asked_for() -> None:
    [batching] = processors()

    assert batching._batch_processor._schedule_delay_millis == 5_000  # the SDK's own


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_live_runs_are_switched_on_and_ended_spans_then_follow_soon(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("OTELCHAIN_LIVE_RUNS", "true")

    batching, live = processors(**({"live": True} if how == "argument" else {}))

    assert isinstance(live, LiveRuns)
    assert batching._batch_processor._schedule_delay_millis == 500


def test_an_argument_beats_the_variable_and_a_chosen_schedule_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTELCHAIN_LIVE_RUNS", "true")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1234")

    assert len(processors(live=False)) == 1
    assert processors(live=True)[0]._batch_processor._schedule_delay_millis == 1_234


# --- the store -----------------------------------------------------------------------------------

TYPE = text("otelchain.run.type", "tool")
PENDING = text("otelchain.run.status", "pending")
OK = text("otelchain.run.status", "ok")


def pending_and_ended(count: int = 1, first_start: int = START) -> tuple[list[Any], list[Any]]:
    """Return spans as they are sent at their start and at their end."""
    open_spans, ended = [], []
    for index in range(count):
        open_span = span(
            start_time_unix_nano=first_start + index,
            end_time_unix_nano=first_start + index,
            attributes=[TYPE, PENDING, text("otelchain.input", f'"{index}"')],
        )
        end = type(open_span)()
        end.CopyFrom(open_span)
        end.end_time_unix_nano += 1_000_000
        del end.attributes[:]
        end.attributes.extend([TYPE, OK, text("otelchain.output", "1")])
        open_spans.append(open_span)
        ended.append(end)
    return open_spans, ended


def rows(spans: list[Any]) -> tuple[list[SpanRow], list[SpanRow]]:
    decoded = decode(request(*spans), START)
    return decoded.rows, decoded.pending


def stored_statuses(store: Store) -> list[tuple[str, int]]:
    with store.database.cursor() as cursor:
        return cursor.execute(
            "SELECT status, count(*) FROM runs GROUP BY ALL ORDER BY ALL"
        ).fetchall()


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "t.duckdb")
    yield store
    store.close()


def test_a_span_is_pending_only_when_otelchain_says_so() -> None:
    open_spans, ended = pending_and_ended()
    foreign = span(attributes=[PENDING])

    decoded = decode(request(*open_spans, *ended, foreign), START)

    assert [row.run_status for row in decoded.pending] == ["pending"]
    assert [row.run_status for row in decoded.rows] == ["ok", "ok"]


def test_an_ended_span_takes_the_place_of_the_pending_one(store: Store) -> None:
    open_spans, ended = pending_and_ended(3)

    assert store.insert_pending(rows(open_spans)[1]) == (3, 0)
    assert store.insert(rows(ended[:1])[0]) == (1, 0)

    assert stored_statuses(store) == [("ok", 1), ("pending", 2)]


def test_a_resend_of_a_pending_span_adds_nothing(store: Store) -> None:
    open_spans, _ = pending_and_ended(3)
    pending = rows(open_spans)[1]

    assert store.insert_pending([*pending, pending[0]]) == (3, 1)
    assert store.insert_pending(pending) == (0, 3)

    assert stored_statuses(store) == [("pending", 3)]


def test_a_pending_span_after_its_end_is_dropped_also_when_memory_has_forgotten_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_spans, ended = pending_and_ended(2)
    store.insert(rows(ended)[0])

    assert store.insert_pending(rows(open_spans)[1]) == (0, 2)
    store._recent.clear()
    assert store.insert_pending(rows(open_spans)[1]) == (0, 2)

    assert stored_statuses(store) == [("ok", 2)]


def test_a_run_with_the_same_ids_and_another_start_is_another_run(store: Store) -> None:
    open_spans, ended = pending_and_ended(1)
    [open_run], [end] = rows(open_spans)[1], rows(ended)[0]
    other = open_run._replace(start_time_unix_nano=open_run.start_time_unix_nano - 1)
    neighbour = end._replace(
        span_id="0123456789abcdef", start_time_unix_nano=other.start_time_unix_nano
    )
    assert store.insert_pending([open_run, other]) == (2, 0)

    # The time range of the batch covers the start of the other one.
    assert store.insert([end, neighbour]) == (2, 0)
    assert stored_statuses(store) == [("ok", 2), ("pending", 1)]
    for _ in range(2):
        assert store.insert_pending([open_run, other]) == (0, 2)
        store.database._renew()
        assert not store._recent
    assert stored_statuses(store) == [("ok", 2), ("pending", 1)]


def test_what_is_pending_is_found_again_after_a_restart(tmp_path: Path) -> None:
    open_spans, ended = pending_and_ended(3)
    store = Store.open(tmp_path / "again.duckdb")
    store.insert_pending(rows(open_spans[:2])[1])
    store.close()

    store = Store.open(tmp_path / "again.duckdb")

    assert store.insert_pending(rows(open_spans)[1]) == (1, 2)
    assert store.insert(rows(ended[1:])[0]) == (2, 0)
    assert stored_statuses(store) == [("ok", 2), ("pending", 1)]
    store.close()


def test_every_run_has_a_row_id_of_its_own(store: Store) -> None:
    open_spans, ended = pending_and_ended(6)
    store.insert(rows(ended[:2])[0])
    store.insert_pending(rows(open_spans[2:4])[1])
    store.insert_pending(rows(open_spans[4:])[1])

    with store.database.cursor() as cursor:
        ids = cursor.execute("SELECT row_id FROM runs ORDER BY start_time").fetchall()
    assert len(set(ids)) == 6
    assert [row_id < 0 for (row_id,) in ids] == [False] * 2 + [True] * 4


def test_spans_of_runs_that_were_never_pending_need_no_look_at_the_table(store: Store) -> None:
    open_spans, _ = pending_and_ended(2, START)
    store.insert_pending(rows(open_spans)[1])

    assert store._pending.deletion(START, START + 5) is not None
    assert store._pending.deletion(START + 2, START + 9) is None
    assert store._pending.deletion(START - 9, START - 1) is None


def test_a_commit_that_fails_leaves_the_run_pending(store: Store) -> None:
    open_spans, ended = pending_and_ended(2)
    store.insert_pending(rows(open_spans)[1])
    good, bad = rows(ended)[0]

    with pytest.raises(RowsRefusedError):
        store.insert([good, bad._replace(attributes="{not json")])
    assert stored_statuses(store) == [("pending", 2)]

    assert store.insert([good]) == (1, 0)
    assert stored_statuses(store) == [("ok", 1), ("pending", 1)]


def test_the_table_has_the_columns_of_spans(store: Store) -> None:
    with store.database.cursor() as cursor:
        spans = cursor.execute("DESCRIBE spans").fetchall()
        pending = cursor.execute("DESCRIBE pending_spans").fetchall()

    assert [column[:2] for column in pending] == [
        ("row_id", "BIGINT"),
        *(column[:2] for column in spans),
    ]


def test_a_store_without_pending_runs_is_brought_up_to_date_with_its_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from otelchain_collector import schema

    spans = make_store(tmp_path / "new.duckdb")
    old = [migration for migration in schema.migrations() if migration.version < 3]
    database = tmp_path / "old.duckdb"
    with duckdb.connect(str(database)) as connection, monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: old)
        schema.migrate(connection)
        connection.execute(f"ATTACH '{spans}' AS new (READ_ONLY)")
        known = [column[0] for column in connection.execute("DESCRIBE spans").fetchall()]
        connection.execute(f"INSERT INTO spans BY NAME SELECT {', '.join(known)} FROM new.spans")

    Store.open(database).close()

    assert read(database, "SELECT count(*) FROM runs") == [(4,)]
    assert read(database, "SELECT count(*) FROM pending_spans") == [(0,)]


# --- the writer ----------------------------------------------------------------------------------


def test_pending_and_ended_in_one_commit_give_the_ended_run_and_right_counts(store: Store) -> None:
    open_spans, ended = pending_and_ended(3)
    zero_id = span(trace_id=bytes(16), attributes=[TYPE, PENDING])
    writer = Writer(store)
    acknowledgements = [
        writer.submit(decode(request(*spans), START), ByteBudget(1).reserve())
        for spans in ([*open_spans, zero_id], ended[:2], open_spans)
    ]
    writer.start()

    outcomes = [each.result(timeout=30) for each in acknowledgements]
    writer.close()

    assert stored_statuses(store) == [("ok", 2), ("pending", 1)]
    assert outcomes[0] == (1, ("trace_id is all zero (1)",))
    assert outcomes[1:] == [(0, ()), (0, ())]
    counts = writer.counts
    assert (counts.stored, counts.pending, counts.duplicates, counts.rejected) == (2, 1, 5, 1)


def test_a_pending_span_that_cannot_be_stored_is_rejected_alone(store: Store) -> None:
    open_spans, ended = pending_and_ended(3)
    ended_rows, _ = rows(ended[:1])
    _, pending = rows(open_spans[1:])
    pending[0] = pending[0]._replace(attributes="{not json")
    writer = Writer(store)
    writer.start()

    outcome = writer.submit(Decoded(ended_rows, [], pending), ByteBudget(1).reserve()).result(
        timeout=30
    )
    writer.close()

    assert outcome.rejected == 1
    assert stored_statuses(store) == [("ok", 1), ("pending", 1)]
    with store.database.cursor() as cursor:
        rejected = cursor.execute("SELECT span_id FROM rejected_spans").fetchall()
    assert rejected == [(pending[0].span_id,)]


# --- questions -----------------------------------------------------------------------------------


@pytest.fixture(name="crashed")
def _crashed(tmp_path: Path) -> str:
    """Return a store in which a killed process left four of its runs open."""
    database = make_store(
        tmp_path / "crashed.duckdb",
        [
            run(3, 1, "search", "retriever", start_ms=20, status="error", error="refused"),
            run(4, 1, "cache", "retriever", start_ms=30, document_count=2),
        ],
    )
    store = Store.open(database)
    store.insert_pending(
        [
            run(1, None, "assistant", "agent", status="pending", duration_ms=0, inputs='"why?"'),
            run(
                5,
                1,
                "lookup",
                "tool",
                start_ms=40,
                status="pending",
                duration_ms=0,
                inputs='{"id":1}',
            ),
            run(6, 1, "index", "retriever", start_ms=50, status="pending", duration_ms=0),
            run(
                7, 5, "fake-1", "llm", start_ms=60, status="pending", duration_ms=0, model="fake-1"
            ),
        ]
    )
    store.close()
    return str(database)


def asked(database: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        shown(*arguments, "--format", "json", "--database", database)
    )
    return found


def test_a_pending_tool_is_neither_slow_nor_fast(crashed: str) -> None:
    assert asked(crashed, "query", "slow-tools", "--min-duration", "0s") == []


def test_a_pending_retriever_has_neither_failed_nor_found_nothing(crashed: str) -> None:
    [failed] = asked(crashed, "query", "failed-retrievers")

    assert (failed["name"], failed["parent_name"]) == ("search", "assistant")


def test_a_pending_child_is_neither_failed_nor_succeeded(crashed: str) -> None:
    [parent] = asked(crashed, "query", "mixed-status-parents")

    assert (parent["name"], parent["status"], parent["duration_ms"]) == (
        "assistant",
        "pending",
        None,
    )
    assert parent["failed_children"] == ["search"]
    assert parent["succeeded_children"] == ["cache"]
    assert parent["other_children"] == ["lookup (pending)", "index (pending)"]


def test_pending_children_alone_make_no_mixed_parent(tmp_path: Path) -> None:
    database = make_store(
        tmp_path / "t.duckdb", [run(2, 1, "failed", "chain", status="error", error="no")]
    )
    store = Store.open(database)
    store.insert_pending([run(3, 1, "open", "chain", status="pending", duration_ms=0)])
    store.close()

    assert asked(str(database), "query", "mixed-status-parents") == []


def test_what_a_killed_process_left_open_is_found_although_nothing_starts_after_it(
    crashed: str,
) -> None:
    later = ("--now", "2026-11-30T23:10:00")
    left = asked(crashed, "query", "unfinished-runs", *later)
    assert sorted(row["name"] for row in left) == ["assistant", "fake-1", "index", "lookup"]
    assert asked(crashed, "query", "unfinished-runs", *later, "--min-quiet", "6m") == []


def test_diagnose_names_the_runs_of_the_only_application_after_it_was_killed(
    tmp_path: Path,
) -> None:
    an_hour_ago = time.time_ns() - 3_600 * 10**9
    store = Store.open(tmp_path / "killed.duckdb")
    begun = run(1, None, "assistant", "agent", status="pending", duration_ms=0)
    store.insert_pending([begun._replace(start_time_unix_nano=an_hour_ago)])
    store.close()

    told = shown("diagnose", "--database", str(tmp_path / "killed.duckdb"))
    assert re.match(r"Run assistant has not ended for (60|61)(\.\d)? min\.", told)


def test_the_newest_traces_show_one_that_has_not_ended(crashed: str) -> None:
    [trace] = asked(crashed, "query", "traces")

    assert (trace["trace_id"], trace["name"], trace["status"]) == (TRACE, "assistant", "pending")
    assert (trace["runs"], trace["errors"], trace["duration_ms"]) == (6, 1, None)


def test_show_marks_what_is_pending_and_says_since_when(crashed: str) -> None:
    lines = shown("show", "last", "--database", crashed).splitlines()

    assert lines[0] == (
        f"trace {TRACE}  2026-11-30T23:04:54.123456789Z  6 runs, 4 pending  service support"
    )
    assert lines[1] == "assistant  [agent]  pending  since 2026-11-30T23:04:54.123456789Z"
    assert lines[2].split() == ["in", '"why?"']
    assert "├── lookup  [tool]  pending  since 2026-11-30T23:04:54.163456789Z" in lines
    assert "├── search  [retriever]  error  1.00 s" in lines
