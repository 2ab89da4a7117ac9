"""Logs and metrics: stored once, after the commit, with the bad ones rejected alone."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from collector_process import RunningCollector, readiness
from otelchain_collector.content_id import ContentIds
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.decode_metrics import decode_metrics
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_clients import TRANSPORTS, rows, send
from otlp_requests import START, TRACE_ID, log_record, logs_request, metrics_request, point, text

RECEIVED = START + 5
Start = Callable[..., RunningCollector]


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    import collector_process

    folder = tmp_path_factory.mktemp("signals")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


@pytest.fixture(name="store")
def _store() -> Iterator[Store]:
    store = Store.open(":memory:")
    yield store
    store.close()


def count(store: Store, table: str) -> int:
    with store.database.cursor() as cursor:
        [(found,)] = cursor.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(found)


# --- identity ----------------------------------------------------------------------------------


def test_a_resend_of_logs_and_metrics_adds_nothing_also_after_a_restart(tmp_path: Path) -> None:
    logs = decode_logs(logs_request(*(log_record() for _ in range(50))), RECEIVED).logs
    points = decode_metrics(metrics_request(*(point() for _ in range(50))), RECEIVED).metric_points
    store = Store.open(tmp_path / "t.duckdb")
    assert (store.insert_logs(logs[:30]), store.insert_metric_points(points[:30])) == (
        (30, 0),
        (30, 0),
    )
    assert store.insert_logs(logs[:30]) == (0, 30)
    store.close()

    store = Store.open(tmp_path / "t.duckdb")

    assert (store.insert_logs(logs), store.insert_metric_points(points)) == ((20, 30), (20, 30))
    assert (count(store, "logs"), count(store, "metric_points")) == (50, 50)
    store.close()


def test_a_resend_that_is_received_later_is_the_same_record(store: Store) -> None:
    request = logs_request(log_record())

    store.insert_logs(decode_logs(request, RECEIVED).logs)

    assert store.insert_logs(decode_logs(request, RECEIVED + 10**9).logs) == (0, 1)


def test_equal_records_of_one_request_are_all_stored_and_their_resend_is_known(
    store: Store,
) -> None:
    same = log_record(body=AnyValue(string_value="retrying"))
    request = logs_request(same, same, same)

    assert store.insert_logs(decode_logs(request, RECEIVED).logs) == (3, 0)
    assert store.insert_logs(decode_logs(request, RECEIVED).logs) == (0, 3)


def test_records_without_any_time_are_stored_once(store: Store) -> None:
    request = logs_request(log_record(time_unix_nano=0), log_record())
    first = decode_logs(request, RECEIVED).logs
    assert store.insert_logs(first) == (2, 0)
    store._logs._recent.clear()

    assert store.insert_logs(first) == (0, 2)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (0.0, -0.0), (None, float("nan")), ("1", 1), (True, 1)]
)
def test_values_that_python_calls_equal_have_identities_of_their_own(one: Any, other: Any) -> None:
    assert ContentIds().of((one,)) != ContentIds().of((other,))


def test_what_lies_around_a_record_is_part_of_its_identity(store: Store) -> None:
    record = log_record()

    for service in ("shop", "bank"):
        store.insert_logs(decode_logs(logs_request(record, service=service), RECEIVED).logs)

    assert count(store, "logs") == 2


# --- what is kept, what is rejected ------------------------------------------------------------


def test_a_log_record_uses_the_observed_time_where_it_has_no_other() -> None:
    request = logs_request(log_record(time_unix_nano=0, observed_time_unix_nano=START + 7))

    [row] = decode_logs(request, RECEIVED).logs

    assert (row.record_time_unix_nano, row.time_unix_nano) == (START + 7, 0)


@pytest.mark.parametrize("trace_id", [b"", bytes(16), b"short"])
def test_a_log_record_with_an_id_that_is_not_valid_belongs_to_no_trace(trace_id: bytes) -> None:
    request = logs_request(log_record(trace_id=trace_id, span_id=b"12345678"))

    [row] = decode_logs(request, RECEIVED).logs

    assert (row.trace_id, row.span_id) == (None, b"12345678".hex())


def test_a_body_that_is_empty_is_told_apart_from_none() -> None:
    empty, none = log_record(body=AnyValue()), log_record()
    none.ClearField("body")

    found = decode_logs(logs_request(empty, none), RECEIVED).logs

    assert [row.body for row in found] == ["null", None]


def test_a_metric_without_data_has_no_points() -> None:
    request = metrics_request()
    request.resource_metrics[0].scope_metrics[0].metrics.add(name="of the future")

    assert decode_metrics(request, RECEIVED).metric_points == []


def test_a_point_without_a_recorded_value_is_kept_as_such() -> None:
    sent = point(flags=1)
    sent.ClearField("as_int")

    [row] = decode_metrics(metrics_request(sent), RECEIVED).metric_points

    assert (row.flags, row.value_int, row.value_double) == (1, None, None)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_log_record_too_late_for_the_store_is_rejected_alone(
    transport: str, collector: RunningCollector
) -> None:
    late = log_record(time_unix_nano=2**64 - 1, event_name=f"late {transport}", trace_id=TRACE_ID)
    good = log_record(event_name=f"good {transport}")

    answer = send(collector, "logs", transport, logs_request(late, good))

    assert (answer.ok, answer.rejected) == (True, 1)
    assert answer.message.startswith("1 log records rejected: time_unix_nano is after 2262-04-11")
    [kept] = rows(collector, f"SELECT name FROM rejected_records WHERE name = 'late {transport}'")
    assert kept == {"name": f"late {transport}"}
    assert len(rows(collector, f"SELECT 1 FROM logs WHERE event_name = 'good {transport}'")) == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", ["gauge", "sum", "histogram", "exponential_histogram", "summary"])
def test_a_data_point_too_late_for_the_store_is_rejected_alone(
    kind: str, transport: str, collector: RunningCollector
) -> None:
    request = metrics_request()
    name = f"{kind} {transport}"
    metric = request.resource_metrics[0].scope_metrics[0].metrics.add(name=name)
    points = getattr(metric, kind).data_points
    points.add(time_unix_nano=START)
    points.add(time_unix_nano=2**63 - 1)

    answer = send(collector, "metrics", transport, request)

    assert (answer.ok, answer.rejected) == (True, 1)
    [bad] = rows(collector, f"SELECT * FROM rejected_records WHERE name = '{name}'")
    assert bad["signal"] == "metrics"
    assert bad["service_name"] == "shop"
    [good] = rows(collector, f"SELECT kind FROM metric_points WHERE name = '{name}'")
    assert good == {"kind": kind}


def test_the_one_row_that_the_store_refuses_is_rejected_alone(store: Store) -> None:
    from otelchain_collector.budget import ByteBudget

    decoded = decode_logs(logs_request(*(log_record() for _ in range(9))), RECEIVED)
    decoded.logs[4] = decoded.logs[4]._replace(body="{not json: secret", event_name="bad")
    measured = decode_metrics(metrics_request(*(point() for _ in range(9))), RECEIVED)
    measured.metric_points[7] = measured.metric_points[7]._replace(metadata="{not json")
    writer = Writer(store)
    outcomes = [writer.submit(each, ByteBudget(1).reserve()) for each in (decoded, measured)]
    writer.start()
    writer.close()

    assert [future.result(0).rejected for future in outcomes] == [1, 1]
    assert (count(store, "logs"), count(store, "metric_points")) == (8, 8)
    assert (writer.counts.logs, writer.counts.metric_points, writer.counts.rejected) == (8, 8, 2)
    with store.database.cursor() as cursor:
        kept = cursor.execute("SELECT signal, name FROM rejected_records ORDER BY ALL").fetchall()
    assert kept == [("logs", "bad"), ("metrics", "load")]


# --- as a process ------------------------------------------------------------------------------


@pytest.mark.otlp("duplicates")
def test_logs_and_metrics_acknowledged_survive_a_kill_and_their_resend_is_stored_once(
    start_collector: Start, tmp_path: Path
) -> None:
    database = tmp_path / "t.duckdb"
    logs, points = logs_request(log_record(), log_record()), metrics_request(point(), point())
    first = start_collector(database)
    for transport in TRANSPORTS:
        assert send(first, "logs", transport, logs).ok
        assert send(first, "metrics", transport, points).ok
    first.kill()

    second = start_collector(database)
    assert send(second, "logs", "grpc", logs).ok
    assert send(second, "metrics", "http-json", points).ok

    found = readiness(second)
    assert (found["log_records_stored"], found["data_points_stored"]) == (0, 0)
    assert found["records_duplicate"] == 4
    assert len(rows(second, "FROM logs")) == len(rows(second, "FROM metric_points")) == 2


APPLICATION = """
import logging
from opentelemetry import metrics, trace
logging.getLogger("shop").warning("out of %s", "tea")
metrics.get_meter("shop").create_counter("sold", unit="1").add(3, {"what": "tea"})
metrics.get_meter("shop").create_histogram("price").record(2.5)
with trace.get_tracer("shop").start_as_current_span("order"):
    logging.getLogger("shop").error("no tea")
"""


@pytest.mark.otlp("default-settings")
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_an_application_with_the_sdks_standard_settings_sends_all_three_signals_without_an_error(
    protocol: str, collector: RunningCollector, tmp_path: Path
) -> None:
    # What opentelemetry-instrument does; its distribution sets the exporters to otlp.
    configure = (
        "from opentelemetry.sdk._configuration import _OTelSDKConfigurator\n"
        "_OTelSDKConfigurator().configure(setup_logging_handler=True)\n"
    )
    script = tmp_path / "application.py"
    script.write_text(configure + APPLICATION)
    service = f"standard {protocol}"
    address = collector.grpc if protocol == "grpc" else collector.http
    environment = {
        **os.environ,
        "OTEL_SERVICE_NAME": service,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        **{f"OTEL_{signal}_EXPORTER": "otlp" for signal in ("TRACES", "LOGS", "METRICS")},
    }

    ended = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, "")
    assert "Failed" not in ended.stderr
    assert "Traceback" not in ended.stderr
    where = f"WHERE service_name = '{service}'"
    [span] = rows(collector, f"SELECT trace_id, span_id, name FROM spans {where}")
    logged = rows(collector, f"SELECT body, trace_id, span_id FROM logs {where} ORDER BY ALL")
    assert logged == [
        {"body": "no tea", "trace_id": span["trace_id"], "span_id": span["span_id"]},
        {"body": "out of tea", "trace_id": None, "span_id": None},
    ]
    measured = rows(
        collector,
        f"SELECT name, kind, value_int, count, sum FROM metric_points {where} ORDER BY ALL",
    )
    assert measured == [
        {"name": "price", "kind": "histogram", "value_int": None, "count": 1, "sum": 2.5},
        {"name": "sold", "kind": "sum", "value_int": 3, "count": None, "sum": None},
    ]


def test_content_of_rejected_records_is_not_logged(collector: RunningCollector) -> None:
    secret = log_record(time_unix_nano=2**64 - 1, attributes=[text("password", "hunter2")])

    assert send(collector, "logs", "grpc", logs_request(secret)).rejected == 1

    log = collector.log.read_text()
    assert "rejected 1 records: time_unix_nano" in log
    assert "hunter2" not in log
