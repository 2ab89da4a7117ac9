"""Records of which redaction took something out: two that differed before it are two."""

import math
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar

from otelchain import Redactor
from otelchain_collector.content_id import as_they_came
from otelchain_collector.decode import Decoded
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.decode_metrics import decode_metrics
from otelchain_collector.decoding import EncodedRequest, decode_request
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.identity_key import IdentityKey, key_path
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.redaction import stage
from otelchain_collector.redaction.rewrite import rewrite
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.redaction.stored import StoredRedaction
from otelchain_collector.rows import LogRow
from otelchain_collector.signals import LOGS, METRICS
from otlp_clients import TRANSPORTS, json_bytes, rows, send
from otlp_requests import (
    START,
    log_record,
    logs_request,
    metrics_request,
    point,
    replace_once,
    text,
)

RECEIVED = START + 5
ANNA, BOB = "anna.smith@example.org", "bob.jones@example.com"
DEFAULT = Redaction(Redactor())


def decoded(message: Any, redaction: Redaction = DEFAULT, *, as_json: bool = False) -> Decoded:
    signal = LOGS if hasattr(message, "resource_logs") else METRICS
    encoded = (
        EncodedRequest(json_bytes(message), parse_json)
        if as_json
        else EncodedRequest(message.SerializeToString(), parse_protobuf)
    )
    return decode_request(signal, encoded, RECEIVED, 8 << 20, redaction)


def records(message: Any, redaction: Redaction = DEFAULT, *, as_json: bool = False) -> list[Any]:
    found = decoded(message, redaction, as_json=as_json)
    return [*found.logs, *found.metric_points]


def ids(message: Any, redaction: Redaction = DEFAULT, *, as_json: bool = False) -> list[str]:
    return [row.record_id for row in records(message, redaction, as_json=as_json)]


def one_log(**fields: Any) -> Any:
    return logs_request(log_record(**{"time_unix_nano": START, **fields}))


def one_point(**fields: Any) -> Any:
    return metrics_request(point(time_unix_nano=START, **fields))


def a_body(who: str) -> Any:
    return one_log(body=AnyValue(string_value=f"refused: {who}"))


def a_log_attribute(who: str) -> Any:
    return one_log(attributes=[text("who", who)])


def a_log_key(who: str) -> Any:
    return one_log(attributes=[text(who, "1")])


def an_event_name(who: str) -> Any:
    return one_log(event_name=who)


def a_severity(who: str) -> Any:
    return one_log(severity_text=who)


def a_log_scope(who: str) -> Any:
    message = one_log()
    message.resource_logs[0].scope_logs[0].scope.attributes.append(text("who", who))
    return message


def a_log_resource(who: str) -> Any:
    message = one_log()
    message.resource_logs[0].resource.attributes.append(text("who", who))
    return message


def a_schema_url(who: str) -> Any:
    message = one_log()
    message.resource_logs[0].schema_url = f"https://example.org/?of={who}"
    return message


def a_point_attribute(who: str) -> Any:
    return one_point(attributes=[text("who", who)])


def an_exemplar(who: str) -> Any:
    return one_point(exemplars=[Exemplar(filtered_attributes=[text("who", who)], as_int=1)])


def a_description(who: str) -> Any:
    message = one_point()
    message.resource_metrics[0].scope_metrics[0].metrics[0].description = who
    return message


def a_metric_name(who: str) -> Any:
    message = one_point()
    message.resource_metrics[0].scope_metrics[0].metrics[0].name = who
    return message


def a_metric_resource(who: str) -> Any:
    message = one_point()
    message.resource_metrics[0].resource.attributes.append(text("who", who))
    return message


def a_point_of(kind: str) -> Callable[[str], Any]:
    def message_of(who: str) -> Any:
        message = metrics_request()
        metric = message.resource_metrics[0].scope_metrics[0].metrics[0]
        metric.Clear()
        metric.name = "load"
        data = getattr(metric, kind).data_points.add(time_unix_nano=START)
        data.attributes.append(text("who", who))
        return message

    message_of.__name__ = kind
    return message_of


PLACES = [
    a_body,
    a_log_attribute,
    a_log_key,
    an_event_name,
    a_severity,
    a_log_scope,
    a_log_resource,
    a_schema_url,
    a_point_attribute,
    an_exemplar,
    a_description,
    a_metric_name,
    a_metric_resource,
    *map(a_point_of, ("gauge", "sum", "histogram", "exponential_histogram", "summary")),
]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_taken_out_tells_two_records_apart_in_every_place_and_encoding(
    place: Callable[[str], Any],
) -> None:
    [anna], [bob] = records(place(ANNA)), records(place(BOB))

    assert anna.record_id != bob.record_id
    assert anna[1:] == bob[1:]
    assert [ids(place(who), as_json=True) for who in (ANNA, BOB)] == [
        [anna.record_id],
        [bob.record_id],
    ]


@pytest.mark.parametrize(("signal", "place"), [("logs", a_body), ("metrics", an_exemplar)])
def test_a_resend_is_known_by_every_transport_also_after_a_restart(
    signal: str, place: Callable[[str], Any], start_collector: Any, tmp_path: Path
) -> None:
    table = {"logs": "logs", "metrics": "metric_points"}[signal]
    stored = []
    for _ in range(2):
        collector = start_collector(tmp_path / "t.duckdb")
        for transport in TRANSPORTS:
            for who in (ANNA, BOB):
                assert send(collector, signal, transport, place(who)).ok
        stored += rows(collector, f"SELECT count(*) AS n FROM {table}")
        stored += rows(collector, "SELECT sum(count)::INT AS n FROM redaction_findings")
        assert collector.stop() == 0

    assert stored == [{"n": 2}] * 4


def test_records_that_redaction_does_not_change_keep_the_identity_they_have_without_it() -> None:
    clean = [log_record(), log_record(attributes=[text("a", "[REDACTED:email]")])]
    logs = logs_request(clean[0], log_record(attributes=[text("a", ANNA)]), clean[1])
    points = metrics_request(
        point(as_double=math.nan), point(as_double=-0.0), point(attributes=[text("a", ANNA)])
    )
    before = [row.record_id for row in decode_logs(logs, RECEIVED).logs]
    points_before = [row.record_id for row in decode_metrics(points, RECEIVED).metric_points]

    after, points_after = ids(logs), ids(points)

    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert [one == other for one, other in zip(points_before, points_after, strict=True)] == [
        True,
        True,
        False,
    ]


def test_equal_records_are_numbered_by_what_they_said() -> None:
    anna, bob = (
        log_record(time_unix_nano=START, body=AnyValue(string_value=who)) for who in (ANNA, BOB)
    )

    together = ids(logs_request(anna, bob, anna))

    assert len(set(together)) == 3
    assert ids(logs_request(bob)) == [together[1]]
    assert ids(logs_request(anna, anna)) == [together[0], together[2]]


def test_a_digest_of_what_was_taken_out_cannot_be_tried_out_with_the_database_alone(
    tmp_path: Path,
) -> None:
    database = tmp_path / "t.duckdb"
    here, again = (Redaction.of("", database) for _ in range(2))
    elsewhere = Redaction.of("", tmp_path / "other.duckdb")
    assert here
    assert again
    assert elsewhere

    [found] = ids(a_body(ANNA), here)

    assert [found] == ids(a_body(ANNA), again)
    assert [found] != ids(a_body(ANNA), elsewhere)
    assert found != decode_logs(a_body(ANNA), RECEIVED).logs[0].record_id
    assert stat.S_IMODE(key_path(database).stat().st_mode) == 0o600


def test_a_key_lies_beside_the_file_that_a_link_leads_to_and_only_when_it_is_needed(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "link.duckdb"
    link.symlink_to(tmp_path / "data" / "real.duckdb")
    redaction = Redaction.of("", link)
    assert redaction
    ids(logs_request(log_record()), redaction)
    assert list((tmp_path / "data").iterdir()) == []

    ids(a_body(ANNA), redaction)

    assert [each.name for each in (tmp_path / "data").iterdir()] == ["real.duckdb.identity-key"]


@pytest.mark.parametrize("content", [b"", b"\n", b"0" * 127, b"x" * 128, b"\xff" * 128])
def test_what_is_no_whole_key_is_not_taken_for_one(content: bytes, tmp_path: Path) -> None:
    path = key_path(tmp_path / "t.duckdb")
    path.write_bytes(content)

    made = IdentityKey(tmp_path / "t.duckdb").value()

    assert len(made) == 64
    assert IdentityKey(tmp_path / "t.duckdb").value() == made
    assert path.read_text() == made.hex() + "\n"


def test_while_the_key_cannot_be_kept_senders_try_again(tmp_path: Path) -> None:
    redaction = Redaction.of("", tmp_path / "folder" / "t.duckdb")
    assert redaction
    with pytest.raises(StoreUnavailableError, match="identity-key: No such file"):
        ids(a_body(ANNA), redaction)

    (tmp_path / "folder").mkdir()

    assert len(ids(a_body(ANNA), redaction)) == 1


def test_records_that_cannot_be_paired_are_stored_twice_rather_than_lost() -> None:
    row: LogRow
    [row] = decode_logs(one_log(), RECEIVED).logs

    found = as_they_came([row], [row, row], lambda: b"key")

    assert len({row.record_id, found[0].record_id}) == 2


# --- what is read in pieces --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gauge", "sum", "histogram", "exponential_histogram", "summary"])
def test_the_points_beside_one_that_cannot_be_read_are_redacted_and_told_apart(kind: str) -> None:
    def rows_of(who: str) -> Decoded:
        message = a_point_of(kind)(who)
        metric = message.resource_metrics[0].scope_metrics[0].metrics[0]
        metric.description = f"of {who}"
        points = getattr(metric, kind).data_points
        points.add(time_unix_nano=START + 1).attributes.append(text("a", "BROKEN!!"))
        points.add(time_unix_nano=START + 2).attributes.append(text("who", who))
        body = replace_once(message.SerializeToString(), b"BROKEN!!", b"BROKEN!\xff")
        encoded = EncodedRequest(body, parse_protobuf)
        return decode_request(METRICS, encoded, RECEIVED, 8 << 20, DEFAULT)

    anna, bob = rows_of(ANNA), rows_of(BOB)

    assert [
        (row.time_unix_nano, row.description, row.attributes) for row in anna.metric_points
    ] == [
        (START, "of [REDACTED:email]", '{"who":"[REDACTED:email]"}'),
        (START + 2, "of [REDACTED:email]", '{"who":"[REDACTED:email]"}'),
    ]
    assert len(anna.rejected) == 1
    assert sum(each.count for each in anna.findings) == 3
    assert len({row.record_id for row in (*anna.metric_points, *bob.metric_points)}) == 4


def test_a_fault_of_ours_costs_no_data_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(message: Any, redactor: Redactor) -> Any:
        raise KeyError(ANNA)

    monkeypatch.setattr(stage, "redact", faulty)
    message = metrics_request(
        point(time_unix_nano=START, as_int=7, attributes=[text("who", ANNA)]),
        point(time_unix_nano=START + 1, as_double=0.5),
    )
    histogram = message.resource_metrics[0].scope_metrics[0].metrics.add(name=ANNA).histogram
    histogram.data_points.add(time_unix_nano=START, bucket_counts=[1, 2], explicit_bounds=[0.5])

    found = records(message)

    assert [
        (row.time_unix_nano, row.value_int, row.value_double, row.bucket_counts) for row in found
    ] == [
        (START, 7, None, None),
        (START + 1, None, 0.5, None),
        (START, None, None, [1, 2]),
    ]
    assert ANNA not in str(found)


# --- what is taken out later -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signal", "place"),
    [("logs", a_body), ("logs", a_log_key), ("metrics", a_point_attribute)],
)
def test_what_redact_apply_changes_keeps_no_digest_of_it_and_its_resend_is_known(
    signal: str, place: Callable[[str], Any], start_collector: Any, tmp_path: Path
) -> None:
    database = tmp_path / "t.duckdb"
    table = {"logs": "logs", "metrics": "metric_points"}[signal]
    collector = start_collector(database, "--redaction", "off")
    for who in (ANNA, BOB, "nobody"):
        assert send(collector, signal, "grpc", place(who)).ok
    assert collector.stop() == 0
    plain = {who: _plain_id(place(who)) for who in (ANNA, BOB, "nobody")}

    rewrite(database, StoredRedaction(Redactor()), lambda _, __: None)

    with duckdb.connect(str(database), read_only=True) as connection:
        kept = {row[0] for row in connection.execute(f"SELECT record_id FROM {table}").fetchall()}
    assert kept & set(plain.values()) == {plain["nobody"]}
    collector = start_collector(database)
    for who in (ANNA, BOB, "nobody"):
        assert send(collector, signal, "http-json", place(who)).ok
    assert rows(collector, f"SELECT count(*) AS n FROM {table}") == [{"n": 3}]


def _plain_id(message: Any) -> str:
    decode: Callable[[Any, int], Decoded] = (
        decode_logs if hasattr(message, "resource_logs") else decode_metrics
    )
    found = decode(message, RECEIVED)
    [row] = [*found.logs, *found.metric_points]
    return row.record_id


def test_a_value_of_any_type_counts() -> None:
    number, other = 4111111111111111, 5555555555554444
    values = [KeyValue(key="n", value=AnyValue(int_value=each)) for each in (number, other)]

    [one], [two] = (ids(one_log(attributes=[each])) for each in values)

    assert one != two
