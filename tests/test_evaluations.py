"""The view `evaluations`: gen_ai.evaluation.result as log record and as span event, with its run.

Names: open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-events.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import set_span_in_context

from otelchain_collector.decode import decode
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.store import Store
from otlp_clients import rows
from otlp_requests import START, log_record, logs_request, request, span, text

EVENT = "gen_ai.evaluation.result"


@pytest.fixture(name="store")
def _store() -> Iterator[Store]:
    store = Store.open(":memory:")
    yield store
    store.close()


def evaluations(store: Store) -> list[dict[str, Any]]:
    with store.database.cursor() as cursor:
        answer = cursor.execute("SELECT * FROM evaluations ORDER BY time_unix_nano")
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def result(score: float = 0.5, **attributes: str) -> list[KeyValue]:
    return [
        text("gen_ai.evaluation.name", "relevance"),
        KeyValue(key="gen_ai.evaluation.score.value", value=AnyValue(double_value=score)),
        *(text(name.replace("__", "."), value) for name, value in attributes.items()),
    ]


def test_a_log_record_is_joined_to_the_span_that_it_is_parented_to(store: Store) -> None:
    judged, other = span(name="chat"), span(name="other")
    store.insert(decode(request(judged, other), START).rows)
    record = log_record(
        event_name=EVENT,
        time_unix_nano=START + 7,
        trace_id=judged.trace_id,
        span_id=judged.span_id,
        attributes=result(
            gen_ai__evaluation__score__label="pass",
            gen_ai__evaluation__explanation="on topic",
            gen_ai__response__id="resp-1",
        ),
    )
    store.insert_logs(decode_logs(logs_request(record, log_record()), START).logs)

    [found] = evaluations(store)

    assert (found["name"], found["score_value"], found["score_label"], found["explanation"]) == (
        *("relevance", 0.5, "pass", "on topic"),
    )
    assert (found["response_id"], found["source"], found["time_unix_nano"]) == (
        *("resp-1", "log", START + 7),
    )
    assert (found["trace_id"], found["span_id"]) == (judged.trace_id.hex(), judged.span_id.hex())
    assert (found["run_name"], found["service_name"]) == ("chat", "shop")


def test_a_span_event_belongs_to_its_span(store: Store) -> None:
    judged = span(name="chat", attributes=[text("gen_ai.response.id", "resp-2")])
    judged.events.add(name="unrelated", time_unix_nano=START)
    judged.events.add(name=EVENT, time_unix_nano=START + 1, attributes=result(0.25))
    judged.events.add(name=EVENT, time_unix_nano=START + 2, attributes=result(float("nan")))
    mentions = span(attributes=[text("note", EVENT)])
    mentions.events.add(name="note", attributes=[text("about", EVENT)])
    store.insert(decode(request(judged, mentions), START).rows)

    first, second = evaluations(store)

    assert (first["source"], first["score_value"], first["response_id"], first["span_id"]) == (
        *("span_event", 0.25, "resp-2", judged.span_id.hex()),
    )
    assert second["score_value"] != second["score_value"]


def test_a_record_without_a_span_finds_it_by_the_response_id(store: Store) -> None:
    judged = span(name="chat", attributes=[text("gen_ai.response.id", "resp-3")])
    twins = [span(attributes=[text("gen_ai.response.id", "resp-4")]) for _ in range(2)]
    store.insert(decode(request(judged, *twins), START).rows)
    records = [
        log_record(event_name=EVENT, attributes=result(gen_ai__response__id=response))
        for response in ("resp-3", "resp-4", "resp-5")
    ]
    store.insert_logs(decode_logs(logs_request(*records), START).logs)

    found = evaluations(store)

    assert [(each["response_id"], each["span_id"], each["run_name"]) for each in found] == [
        ("resp-3", judged.span_id.hex(), "chat"),
        ("resp-4", None, None),
        ("resp-5", None, None),
    ]


def test_a_verdict_stays_when_its_span_is_not_stored(store: Store) -> None:
    record = log_record(event_name=EVENT, trace_id=b"t" * 16, span_id=b"s" * 8, attributes=result())
    store.insert_logs(decode_logs(logs_request(record), START).logs)

    [found] = evaluations(store)

    assert (found["span_id"], found["run_name"]) == ((b"s" * 8).hex(), None)
    assert found["service_name"] == "shop"


def test_a_label_without_a_score_and_a_failed_evaluator_have_no_score(store: Store) -> None:
    attributes = [
        text("event.name", EVENT),
        text("gen_ai.evaluation.name", "tone"),
        text("gen_ai.evaluation.score.label", "rude"),
        text("error.type", "TimeoutError"),
    ]
    store.insert_logs(decode_logs(logs_request(log_record(attributes=attributes)), START).logs)

    [found] = evaluations(store)

    assert (found["score_value"], found["score_label"], found["error_type"]) == (
        *(None, "rude", "TimeoutError"),
    )


def test_an_event_of_the_real_sdk_is_joined_to_its_run(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    tracing, logging = (
        TracerProvider(shutdown_on_exit=False),
        LoggerProvider(shutdown_on_exit=False),
    )
    tracing.add_span_processor(
        SimpleSpanProcessor(OTLPSpanExporter(f"http://{collector.http}/v1/traces"))
    )
    logging.add_log_record_processor(
        SimpleLogRecordProcessor(OTLPLogExporter(f"http://{collector.http}/v1/logs"))
    )
    judged = tracing.get_tracer("chat").start_span("chat gpt")
    logging.get_logger("judge").emit(
        LogRecord(
            timestamp=START,
            context=set_span_in_context(judged),
            severity_number=SeverityNumber.INFO,
            event_name=EVENT,
            attributes={"gen_ai.evaluation.name": "bleu", "gen_ai.evaluation.score.value": 1.0},
        )
    )
    judged.end()
    tracing.shutdown()
    logging.shutdown()

    assert rows(collector, "SELECT name, score_value, run_name, source FROM evaluations") == [
        {"name": "bleu", "score_value": 1.0, "run_name": "chat gpt", "source": "log"}
    ]
