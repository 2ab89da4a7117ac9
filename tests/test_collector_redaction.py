"""A collector that redacts: its policy, what it counts, and that a resend counts nothing."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from otlp_clients import json_bytes, rows, send
from otlp_requests import log_record, logs_request, request, span, text
from stored_runs import asked
from test_collector_process import ports_free, refusal

SECRET = "sk-proj-Q77xAb2Cd3Ef4Gh5Ij6Kl7Mn8Op9Qr"
COUNTS = (
    "SELECT signal, service_name, scope_name, attribute, rule, failed, sum(count)::INT AS count "
    "FROM redaction_findings GROUP BY ALL ORDER BY ALL"
)


def leaking_span(**fields: Any) -> Any:
    return span(attributes=[text("note", f"{SECRET} bob@example.com")], **fields)


def counts(collector: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows(collector, COUNTS)]


def test_findings_are_counted_once_also_when_everything_is_sent_again(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    pending = span(attributes=[text("otelchain.run.status", "pending"), text("note", SECRET)])
    pending_id = pending.span_id
    spans = request(leaking_span(), leaking_span())
    record = log_record(body=AnyValue(string_value="bob@example.com"))
    logs = logs_request(record, log_record())
    started = request(pending)
    for _ in range(2):
        send(collector, "traces", "http-protobuf", spans)
        send(collector, "traces", "grpc", started)
        send(collector, "logs", "http-json", logs)
    collector.stop()
    # What the store remembers of the last spans is forgotten.
    collector = start_collector(tmp_path / "traces.duckdb")
    send(collector, "traces", "http-json", spans)
    send(collector, "traces", "http-protobuf", started)
    send(collector, "logs", "grpc", logs)
    half = request(spans.resource_spans[0].scope_spans[0].spans[0], leaking_span())
    send(collector, "traces", "http-protobuf", half)

    assert counts(collector) == [
        ("logs", "shop", "tests", "log.body", "email", False, 1),
        ("traces", "shop", "tests", "note", "email", False, 3),
        ("traces", "shop", "tests", "note", "openai_key", False, 4),
    ]
    [example] = rows(
        collector,
        "SELECT DISTINCT span_id FROM redaction_findings WHERE rule = "
        f"'openai_key' AND span_id = '{pending_id.hex()}'",
    )
    assert example == {"span_id": pending_id.hex()}


def test_the_query_tells_which_application_leaks_where(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    first, second = leaking_span(), leaking_span()
    send(collector, "traces", "http-protobuf", request(first, service="shop"))
    send(collector, "traces", "http-protobuf", request(second, service="bank"))
    send(collector, "traces", "http-protobuf", request(span(), service="clean"))
    collector.stop()

    answer = asked(
        *("query", "redaction-findings", "--database", str(collector.database)),
        *("--service", "bank", "--rule", "openai_key", "--format", "json"),
    )

    [row] = json.loads(answer.stdout)
    assert row.pop("first_seen") == row.pop("last_seen")
    assert row == {
        "trace_id": second.trace_id.hex(),
        "span_id": second.span_id.hex(),
        "service_name": "bank",
        "scope_name": "tests",
        "attribute": "note",
        "rule": "openai_key",
        "failed": False,
        "count": 1,
        "signal": "traces",
    }
    everything = asked(
        *("query", "redaction-findings", "--database", str(collector.database)),
        *("--format", "json"),
    )
    services = {row["service_name"] for row in json.loads(everything.stdout)}
    assert services == {"shop", "bank"}


def test_what_is_kept_of_a_record_that_cannot_be_stored_is_redacted_and_counted(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    too_late = span(name=f"late {SECRET}", end_time_unix_nano=2**63 - 1)
    send(collector, "traces", "http-protobuf", request(too_late))
    unreadable = request(span(name=f"AAAA {SECRET}")).SerializeToString()
    unreadable = unreadable.replace(b"AAAA", b"\xff\xff\xff\xff")
    answer = urllib.request.urlopen(
        urllib.request.Request(
            f"http://{collector.http}/v1/traces",
            unreadable,
            {"Content-Type": "application/x-protobuf"},
        ),
        timeout=30,
    ).read()

    names = [row["name"] for row in rows(collector, "SELECT name FROM rejected_records")]
    assert sorted(names) == ["late [REDACTED:openai_key]", "\ufffd" * 4 + " [REDACTED:openai_key]"]
    assert SECRET.encode() not in answer
    assert [row[3:] for row in counts(collector)] == [
        ("rejected", "openai_key", False, 1),
        ("span.name", "openai_key", False, 1),
    ]


def test_metrics_count_by_rule(start_collector: Any, tmp_path: Path) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    send(collector, "traces", "http-protobuf", request(leaking_span(), leaking_span()))

    with urllib.request.urlopen(f"http://{collector.http}/metrics", timeout=30) as response:
        told = response.read().decode()

    assert 'otelchain_redaction_findings_total{rule="email"} 2.0' in told
    assert 'otelchain_redaction_findings_total{rule="openai_key"} 2.0' in told
    assert SECRET not in told


def test_the_policy_comes_from_the_variable_that_the_handler_reads_too(
    start_collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "redaction.toml"
    policy.write_text('preset = "off"\n[[rules]]\nname = "ticket"\npattern = "T-[0-9]+"\n')
    monkeypatch.setenv("OTELCHAIN_REDACTION", str(policy))
    collector = start_collector(tmp_path / "traces.duckdb")
    send(collector, "traces", "grpc", request(span(attributes=[text("a", "T-12 b@example.com")])))

    [row] = rows(collector, "SELECT attributes FROM spans")
    assert row["attributes"] == {"a": "[REDACTED:ticket] b@example.com"}


def test_off_stores_what_arrives_and_says_so(start_collector: Any, tmp_path: Path) -> None:
    collector = start_collector(tmp_path / "traces.duckdb", "--redaction", "off")
    send(collector, "traces", "grpc", request(span(attributes=[text("a", SECRET)])))

    [row] = rows(collector, "SELECT attributes FROM spans")
    assert row["attributes"] == {"a": SECRET}
    assert "redaction is off" in collector.log.read_text()
    assert counts(collector) == []


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ('[[rules]]\nname = "a"\npattern = "(?=x)"\n', "rule 1 ('a')"),
        ('[[rules]]\ndetectors = ["mail"]\n', "rule 1"),
        ('action = "hash"\n', "key"),
        ("rules = 1", "rules must be a list"),
    ],
)
def test_a_collector_with_a_bad_policy_does_not_start_and_makes_no_file(
    policy: str, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "redaction.toml"
    file.write_text(policy)

    said = refusal(*ports_free(tmp_path / "traces.duckdb"), "--redaction", str(file))

    assert str(file) in said
    assert reason in said
    assert not (tmp_path / "traces.duckdb").exists()


def test_an_unknown_preset_is_refused(tmp_path: Path) -> None:
    said = refusal(*ports_free(tmp_path / "traces.duckdb"), "--redaction", "secret")

    assert "secrets" in said


def test_findings_and_spans_are_committed_together(start_collector: Any, tmp_path: Path) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    send(collector, "traces", "http-protobuf", request(leaking_span()))
    collector.kill()

    with duckdb.connect(str(tmp_path / "traces.duckdb")) as connection:
        [(stored, found)] = connection.execute(
            "SELECT (SELECT count(*) FROM spans), (SELECT sum(count) FROM redaction_findings)"
        ).fetchall()
    assert (stored, found) == (1, 2)


def test_an_import_into_a_file_passes_the_policy_too(tmp_path: Path) -> None:
    database, file = tmp_path / "traces.duckdb", tmp_path / "requests.jsonl"
    file.write_bytes(json_bytes(request(leaking_span())) + b"\n")

    answer = asked("import", "otlp-json", str(file), "--database", str(database))

    assert answer.returncode == 0
    with duckdb.connect(str(database)) as connection:
        [(stored,)] = connection.execute("SELECT attributes ->> 'note' FROM spans").fetchall()
        [(found,)] = connection.execute("SELECT sum(count) FROM redaction_findings").fetchall()
    assert (stored, found) == ("[REDACTED:openai_key] [REDACTED:email]", 2)
