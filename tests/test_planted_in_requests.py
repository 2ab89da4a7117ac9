"""Secrets in every place of every OTLP message, from senders that do not redact; none is kept."""

import http.client
import json
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import otelchain.provider
from otelchain import OtelCallbackHandler, Redactor, configure
from otelchain.redaction.places import _KEYS
from otelchain_collector.signals import SIGNALS, Signal
from planted_places import PLACES, found, use_every_place
from planted_requests import Planter, as_otlp_json

POLICIES = {
    "the default": "",
    "hashes": '[[rules]]\ndetectors = ["api_key", "secret"]\naction = "hash"\n'
    '[hash]\nkey_file = "key"\n',
    "removal": 'action = "remove"\n',
    "last characters": 'action = "partial"\n',
    "withheld": 'preset = "strict"\n',
}


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


def policy_file(folder: Path, name: str) -> list[str]:
    (folder / "key").write_text("0123456789abcdef0123456789abcdef")
    (folder / "policy.toml").write_text(POLICIES[name])
    return ["--redaction", str(folder / "policy.toml")] if POLICIES[name] else []


def post(collector: Any, signal: Signal, body: bytes, media_type: str) -> bytes:
    connection = http.client.HTTPConnection(collector.http)
    connection.request("POST", signal.path, body, {"Content-Type": media_type})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    assert response.status == 200, answer
    return answer


def send_http(collector: Any, signal: Signal, request: Any) -> bytes:
    return post(collector, signal, request.SerializeToString(), "application/x-protobuf")


def send_json(collector: Any, signal: Signal, request: Any) -> bytes:
    body = json.dumps(as_otlp_json(request)).replace("sk-proj", "\\u0073k-\\u0070roj")
    return post(collector, signal, body.encode(), "application/json")


def send_grpc(collector: Any, signal: Signal, request: Any) -> bytes:
    with grpc.insecure_channel(collector.grpc) as channel:
        export = channel.unary_unary(f"/{signal.service}/Export")
        answer: bytes = export(request.SerializeToString(), timeout=30)
    return answer


SENDERS = {"http": send_http, "json": send_json, "grpc": send_grpc}


def everything_said(collector: Any) -> bytes:
    """Return the answers of the collector about itself and about all that it stored."""
    said = []
    for path in ("/metrics", "/readyz"):
        with urllib.request.urlopen(f"http://{collector.http}{path}", timeout=30) as response:
            said.append(response.read())
    for table in ("spans", "logs", "metric_points", "rejected_records", "redaction_findings"):
        connection = http.client.HTTPConnection(collector.http)
        body = json.dumps({"sql": f"FROM {table}"})
        connection.request("POST", "/sql", body, {"Content-Type": "application/json"})
        said.append(connection.getresponse().read())
        connection.close()
    return b"".join(said)


def everything_kept(folder: Path) -> bytes:
    """Return the bytes of the database, its log, the collector's log, and what else is there."""
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert {"traces.duckdb", "traces.duckdb.wal"} <= {path.name for path in kept}
    return b"".join(path.read_bytes() for path in kept)


@pytest.mark.parametrize(
    ("policy", "transport"),
    [*((policy, "http") for policy in POLICIES), ("the default", "json"), ("the default", "grpc")],
)
def test_no_secret_in_any_field_of_any_signal_is_kept_or_told(
    policy: str, transport: str, start_collector: Any, tmp_path: Path
) -> None:
    arguments = policy_file(tmp_path, policy)
    collector = start_collector(tmp_path / "traces.duckdb", *arguments)
    planter = Planter()
    answers = [SENDERS[transport](collector, signal, planter.request(signal)) for signal in SIGNALS]
    said = everything_said(collector)
    collector.kill()

    assert len(planter.places) > 200
    assert len(said) > 10_000
    assert planter.found_in(said + b"".join(answers) + everything_kept(tmp_path)) == []


@pytest.mark.parametrize("transport", SENDERS)
def test_without_redaction_each_of_them_is_found(
    transport: str, start_collector: Any, tmp_path: Path
) -> None:
    """The test above can fail."""
    collector = start_collector(tmp_path / "traces.duckdb", "--redaction", "off")
    planter = Planter()
    for signal in SIGNALS:
        SENDERS[transport](collector, signal, planter.request(signal))
    collector.kill()

    found = planter.found_in(everything_kept(tmp_path))
    # What the store has no column for (a summary has no exemplars, an entity none in metrics' …).
    missing = set(planter.places) - set(found)
    assert missing == set()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_what_a_handler_lets_through_the_collector_takes_out(
    protocol: str, start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    address = collector.grpc if protocol == "grpc" else collector.http
    provider = configure("app", f"http://{address}", protocol=protocol, set_global=False)
    use_every_place([OtelCallbackHandler(provider, redactor=Redactor(preset="off"))])
    provider.shutdown()
    said = everything_said(collector)
    collector.kill()

    content = said + everything_kept(tmp_path)
    assert found(content, PLACES) == set()


def foreign_keys() -> list[str]:
    """Return the attribute keys of every dialect that are known to hold content."""
    globs = " ".join(_KEYS.values()).split()
    return sorted({glob.replace("*", "0.x") for glob in globs})


def test_content_of_every_dialect_from_a_plain_sdk_is_redacted(
    start_collector: Any, tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "traces.duckdb")
    planter = Planter()
    provider = TracerProvider()
    exporter = OTLPSpanExporter(f"http://{collector.http}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for scope in ("openinference.instrumentation.langchain", "opentelemetry.instrumentation.x"):
        tracer = trace.get_tracer(scope, tracer_provider=provider)
        attributes = {key: planter.secret(key) for key in foreign_keys()}
        with tracer.start_as_current_span("step", attributes=attributes) as span:
            span.add_event("note", {"text": planter.secret("event")})
            span.record_exception(ValueError(planter.secret("exception")))
            span.set_status(trace.StatusCode.ERROR, planter.secret("status"))
    provider.shutdown()
    said = everything_said(collector)
    collector.kill()

    assert planter.found_in(said + everything_kept(tmp_path)) == []
