"""What failed in other collectors and stores, tried on a collector process (known_failures.py)."""

import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from claims import claims
from collector_process import RunningCollector, ask
from known_failures import FAILURES
from otelchain_collector.schema import create, migrations
from otlp_clients import TRANSPORTS, rows, send
from otlp_requests import START, request, span, text
from stored_runs import asked

Start = Callable[..., RunningCollector]
HOUR = 3_600 * 10**9
ENDLESS = "SELECT sum(a.range & b.range) FROM range(100000000) a, range(1000000) b"


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.fixture(name="collector")
def _collector(database: Path, start_collector: Start) -> RunningCollector:
    return start_collector(database, "--redaction", "off")


def count(collector: RunningCollector, table: str = "spans") -> int:
    [row] = rows(collector, f"SELECT count(*) AS found FROM {table}")
    return int(row["found"])


def test_every_failure_has_a_test_and_every_claim_its_failure() -> None:
    assert claims("failure").keys() == {failure.id for failure in FAILURES}


@pytest.mark.failure("locked-file")
def test_a_command_answers_while_a_collector_has_the_file(
    database: Path, collector: RunningCollector
) -> None:
    send(collector, "traces", "grpc", request(span()))

    # Another process, which could not open the file.
    answer = asked(
        "sql", "SELECT count(*) FROM spans", "--database", str(database), "--format", "csv"
    )

    assert (answer.returncode, answer.stdout.split()[-1:]) == (0, [b"1"])


@pytest.mark.failure("replay-after-schema-change")
def test_a_kill_right_after_the_migrations_leaves_a_file_that_opens(
    database: Path, start_collector: Start
) -> None:
    with duckdb.connect(str(database)) as connection:
        create(connection, 1)
        connection.execute("INSERT INTO schema_migrations VALUES (1, 'spans', 0)")

    start_collector(database).kill()

    collector = start_collector(database)
    assert send(collector, "traces", "grpc", request(span())).ok
    [row] = rows(collector, "SELECT max(version) AS version FROM schema_migrations")
    assert (row["version"], count(collector)) == (len(migrations()), 1)
    assert rows(collector, "SELECT * FROM wal_losses") == []


@pytest.mark.failure("key-index")
def test_no_table_of_records_has_an_index_or_a_key(
    database: Path, collector: RunningCollector
) -> None:
    send(collector, "traces", "grpc", request(span()))
    assert collector.stop() == 0

    with duckdb.connect(str(database), read_only=True) as connection:
        tables = {
            name
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        indexes = connection.execute("SELECT index_name FROM duckdb_indexes()").fetchall()
        keys = connection.execute(
            "SELECT DISTINCT table_name FROM duckdb_constraints() "
            "WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')"
        ).fetchall()
    assert {"spans", "logs", "metric_points"} <= tables
    assert (indexes, keys) == ([], [])


@pytest.mark.failure("duplicate-in-one-statement")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_span_twice_in_one_request_is_stored_once(
    transport: str, collector: RunningCollector
) -> None:
    twice, other = span(name="twice"), span(name="other")

    assert send(collector, "traces", transport, request(twice, other, twice)).rejected == 0

    found = rows(collector, "SELECT name, count(*) AS spans FROM spans GROUP BY name ORDER BY name")
    assert found == [{"name": "other", "spans": 1}, {"name": "twice", "spans": 1}]


@pytest.mark.failure("poisoned-batch")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_span_that_is_stored_costs_none_of_the_new_ones_beside_it(
    transport: str, collector: RunningCollector
) -> None:
    old = span()
    send(collector, "traces", transport, request(old))

    answer = send(collector, "traces", transport, request(span(), old, span()))

    assert (answer.ok, answer.rejected, count(collector)) == (True, 0, 3)


@pytest.mark.failure("parallel-loads")
def test_ten_clients_that_load_at_once_lose_and_double_nothing(
    collector: RunningCollector,
) -> None:
    def load(client: int) -> list[bool]:
        transport = TRANSPORTS[client % len(TRANSPORTS)]
        return [
            send(collector, "traces", transport, request(*(span() for _ in range(50)))).ok
            for _ in range(10)
        ]

    with ThreadPoolExecutor(10) as clients:
        answers = [answer for answers in clients.map(load, range(10)) for answer in answers]

    assert answers == [True] * 100
    [row] = rows(
        collector, "SELECT count(*) AS spans, count(DISTINCT span_id) AS distinct_spans FROM spans"
    )
    assert row == {"spans": 5_000, "distinct_spans": 5_000}


@pytest.mark.failure("timeout-duplicates")
def test_what_a_client_sends_again_after_its_timeout_is_stored_once(
    collector: RunningCollector,
) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.get_tracer("shop").start_span("late").end()
    exporter = OTLPSpanExporter(f"http://{collector.http}/v1/traces", timeout=1)
    collector.process.send_signal(signal.SIGSTOP)
    try:
        first = exporter.export(kept.get_finished_spans())
    finally:
        collector.process.send_signal(signal.SIGCONT)
    second = exporter.export(kept.get_finished_spans())
    exporter.shutdown()

    assert (first, second) == (SpanExportResult.FAILURE, SpanExportResult.SUCCESS)
    assert count(collector) == 1


@pytest.mark.failure("double-sums")
def test_sums_of_tokens_do_not_grow_with_a_resend_and_no_span_gets_an_id_here(
    collector: RunningCollector,
) -> None:
    def tokens(number: int) -> list[KeyValue]:
        used = AnyValue(int_value=number)
        return [
            text("gen_ai.operation.name", "chat"),
            KeyValue(key="gen_ai.usage.input_tokens", value=used),
        ]

    without_id = span(span_id=b"", attributes=tokens(1_000))
    sent = request(span(attributes=tokens(3)), span(attributes=tokens(4)), without_id)

    rejected = [send(collector, "traces", transport, sent).rejected for transport in TRANSPORTS]

    assert rejected == [1, 1, 1]
    assert rows(collector, "SELECT sum(input_tokens)::BIGINT AS tokens FROM runs") == [
        {"tokens": 7}
    ]


@pytest.mark.failure("clock-skew")
def test_clocks_that_disagree_change_nothing_of_what_was_sent(
    database: Path, collector: RunningCollector
) -> None:
    parent = span(name="parent", attributes=[text("openinference.span.kind", "CHAIN")])
    child = span(
        name="child",
        parent_span_id=parent.span_id,
        start_time_unix_nano=START - HOUR,
        end_time_unix_nano=START - HOUR - 2_000_000,
        attributes=[text("openinference.span.kind", "TOOL")],
    )
    assert send(collector, "traces", "grpc", request(parent, child)).rejected == 0

    found = rows(collector, "SELECT name, duration_ms FROM runs ORDER BY start_time_unix_nano")
    tree = asked("show", "last", "--database", str(database))

    assert [(row["name"], row["duration_ms"]) for row in found] == [
        ("child", -2.0),
        ("parent", 1.0),
    ]
    assert tree.returncode == 0
    assert [name in tree.stdout for name in (b"parent", b"child")] == [True, True]


@pytest.mark.failure("strange-trees")
@pytest.mark.parametrize(
    ("parents", "detached"),
    [
        # Each run's parent, by its place; 9 is one that never comes.
        ({0: None, 1: 0, 2: 9}, {"run 2"}),
        ({0: None, 1: 2, 2: 1}, {"run 1"}),
        ({0: None, 1: 1, 2: 0}, {"run 1"}),
    ],
    ids=["orphan", "two are each other's parents", "one is its own parent"],
)
def test_each_span_of_a_strange_tree_is_shown_once(
    parents: dict[int, int | None],
    detached: set[str],
    database: Path,
    collector: RunningCollector,
) -> None:
    ids = [bytes(7) + bytes([number + 1]) for number in range(10)]
    sent = [
        span(
            name=f"run {number}",
            span_id=ids[number],
            parent_span_id=b"" if parent is None else ids[parent],
            start_time_unix_nano=START + number,
        )
        for number, parent in parents.items()
    ]
    assert send(collector, "traces", "grpc", request(*sent)).rejected == 0

    tree = asked("show", "last", "--database", str(database)).stdout.decode()
    rows_of_trace = asked("query", "trace", "--database", str(database), "--format", "json")

    assert [tree.count(each.name) for each in sent] == [1, 1, 1]
    found = json.loads(rows_of_trace.stdout)
    assert {row["name"] for row in found if row["detached"]} == detached


@pytest.mark.failure("conflicting-keys")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_keys_that_look_alike_do_not_touch_each_other(
    transport: str, collector: RunningCollector
) -> None:
    number = KeyValue(key="size", value=AnyValue(int_value=1))
    first = span(
        name="first",
        attributes=[text("code.function", "f"), text("code.function.name", "g"), number],
    )
    first.events.add(name="one", attributes=[text("k", "1")])
    first.events.add(name="two", attributes=[text("k", "2")])
    second = span(
        name="second", kind=3, attributes=[text("size", "large"), text("service.name", "x")]
    )

    assert send(collector, "traces", transport, request(first, second)).rejected == 0

    found = {row["name"]: row for row in rows(collector, "SELECT * FROM spans")}
    assert found["first"]["attributes"] == {
        "code.function": "f",
        "code.function.name": "g",
        "size": 1,
    }
    assert found["second"]["attributes"] == {"size": "large", "service.name": "x"}
    assert {row["resource_attributes"]["service.name"] for row in found.values()} == {"shop"}
    assert {row["service_name"] for row in found.values()} == {"shop"}
    assert [event["attributes"] for event in found["first"]["events"]] == [{"k": "1"}, {"k": "2"}]
    assert (found["first"]["kind"], found["second"]["kind"]) == (0, 3)


@pytest.mark.failure("hungry-reads")
def test_endless_questions_do_not_hold_up_what_arrives(
    database: Path, start_collector: Start
) -> None:
    collector = start_collector(database, "--query-seconds", "3")
    question = json.dumps({"sql": ENDLESS})
    as_json = {"content-type": "application/json"}
    stored = 0

    with ThreadPoolExecutor(4) as threads:
        asking = [
            threads.submit(ask, collector, "POST", "/sql", question, as_json) for _ in range(4)
        ]
        while not all(each.done() for each in asking):
            assert send(collector, "traces", "grpc", request(*(span() for _ in range(10)))).ok
            stored += 10

    answers = [each.result() for each in asking]
    assert [status for status, _, _ in answers] == [400] * 4
    assert all(b"longer than 3 seconds" in body for _, _, body in answers), answers
    assert count(collector) == stored
