"""Distinct secrets through sync and async applications; none is in anything that comes out.

What comes out: the store's files, its exports, the collector's log, metrics and answers, and the
handler's metrics, log events, payload files and log lines.
"""

import asyncio
import json
import logging
import socket
import urllib.request
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import pytest
from langchain_core.runnables import RunnableLambda
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import otelchain.provider
import otelchain_queries
from collector_process import RunningCollector
from exchanged import TABLES, export
from fakes import FakeRetriever
from otelchain import (
    OtelCallbackHandler,
    PayloadStore,
    Redactor,
    configure,
    nest_spans,
    payload_store,
    unnest_spans,
)
from otelchain.redaction import PolicyRule
from otelchain.spool.sender import Sender
from planted_places import (
    ASYNC_PLACES,
    MODES,
    PLACES,
    found,
    planted,
    use_every_place,
    use_every_place_async,
)

logs = pytest.importorskip("opentelemetry.sdk._logs")
logs_export = pytest.importorskip("opentelemetry.sdk._logs.export")
if not hasattr(logs_export, "InMemoryLogRecordExporter"):
    pytest.skip("this OpenTelemetry has no log events", allow_module_level=True)

LARGE = "large payload"  # Beyond the budget of a span: whole in the payload store alone.
EVERY_PLACE = {*PLACES, *ASYNC_PLACES, LARGE}
# Names and ids that the application chose stay facts with content off and in strict: there the
# detectors alone guard them, and MODES switches those off.
CHOSEN = {
    "run name",
    "session",
    "run name of the async run",
    "session of the async run",
}

# Events and the parameters of a request are no columns of the view `runs`.
NOT_IN_RUNS = {
    *("custom event", "async node event", "stop sequence", "tool definition"),
    *(place for place in ASYNC_PLACES if place.startswith("progress ")),
}


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


@pytest.fixture(name="start")
def _start(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> Callable[[str], RunningCollector]:
    """Start a collector with a policy, its store in a folder of its own."""

    def start(policy: str) -> RunningCollector:
        (tmp_path / "store").mkdir()
        database = tmp_path / "store" / "traces.duckdb"
        return start_collector(database, "--redaction", policy, "--log-level", "debug")

    return start


def without_redaction(*provider: Any, **arguments: Any) -> OtelCallbackHandler:
    return OtelCallbackHandler(*provider, redactor=Redactor(preset="off"), **arguments)


def use_everything(handler: OtelCallbackHandler) -> None:
    use_every_place([handler])
    asyncio.run(use_every_place_async([handler]))
    large = f"{'word ' * 40_000}{planted(LARGE)}"
    RunnableLambda(str.upper).invoke(large, {"callbacks": [handler]})


def what_comes_out(
    make: Callable[..., OtelCallbackHandler],
    collector: RunningCollector,
    protocol: str,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> dict[str, bytes]:
    """Run the applications and return all that can be read afterwards, by where it was found."""
    address = collector.grpc if protocol == "grpc" else collector.http
    provider = configure("app", f"http://{address}", protocol=protocol, set_global=False)
    reader, log_records = InMemoryMetricReader(), logs_export.InMemoryLogRecordExporter()
    logger_provider = logs.LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(logs_export.SimpleLogRecordProcessor(log_records))
    payloads = PayloadStore.in_directory(folder / "payloads")
    with caplog.at_level(logging.DEBUG, "otelchain"):
        handler = make(
            provider,
            meter_provider=MeterProvider([reader], shutdown_on_exit=False),
            logger_provider=logger_provider,
            payload_store=payloads,
        )
        use_everything(handler)
        payloads.close()
        provider.shutdown()
    metrics = reader.get_metrics_data()
    assert metrics is not None
    return {
        "handler's metrics": metrics.to_json().encode(),
        "log events": "".join(
            repr((each.log_record.body, dict(each.log_record.attributes), each.resource.attributes))
            for each in log_records.get_finished_logs()
        ).encode(),
        "payload files": joined(folder / "payloads"),
        "our log lines": own_lines(caplog),
        **collector_answers(collector),
        **files_and_exports(collector, folder),
    }


def collector_answers(collector: RunningCollector) -> dict[str, bytes]:
    def ask(path: str, body: Any = None) -> bytes:
        request = urllib.request.Request(
            f"http://{collector.http}{path}",
            None if body is None else json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            content: bytes = response.read()
        return content

    tables = ("runs", *TABLES)
    return {
        "/sql": b"".join(ask("/sql", {"sql": f"SELECT * FROM {table}"}) for table in tables),
        "/queries": b"".join(ask(f"/queries/{name}", {}) for name in otelchain_queries.names()),
        "/metrics": ask("/metrics"),
        "/readyz": ask("/readyz"),
    }


def files_and_exports(collector: RunningCollector, folder: Path) -> dict[str, bytes]:
    # Killed, so that the write-ahead log stays beside the file and is searched too.
    collector.kill()
    store = joined(collector.database.parent)
    export("parquet", collector.database, "-o", str(folder / "parquet"))
    parquet = b"".join(
        repr(duckdb.sql(f"FROM '{path}'").fetchall()).encode()  # Its pages are compressed.
        for path in (folder / "parquet").iterdir()
    )
    return {
        "store": store,
        "parquet": parquet + joined(folder / "parquet"),
        **{name: export(name, collector.database) for name in ("otlp-json", "csv", "langsmith")},
        "collector's log": collector.log.read_bytes(),
    }


def joined(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def own_lines(caplog: pytest.LogCaptureFixture) -> bytes:
    return "\n".join(
        f"{record.getMessage()} {record.exc_text or ''}"
        for record in caplog.records
        if record.name.startswith("otelchain")
    ).encode()


# Each policy once, the transports in turn.
@pytest.mark.parametrize(
    ("mode", "protocol"), list(zip(MODES, cycle(["grpc", "http/protobuf"]), strict=False))
)
def test_no_planted_secret_is_in_anything_that_comes_out(
    mode: str, protocol: str, start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # A collector that redacts nothing itself: what the handler lets through would be found.
    outlets = what_comes_out(MODES[mode], start("off"), protocol, tmp_path, caplog)

    chosen = CHOSEN if mode in ("content off", "strict") else set()
    leaks = {name: found(content, EVERY_PLACE) - chosen for name, content in outlets.items()}
    assert {name: places for name, places in leaks.items() if places} == {}


def test_nothing_that_the_collector_took_out_comes_out_of_it(
    start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector = start("secrets")

    outlets = what_comes_out(without_redaction, collector, "http/protobuf", tmp_path, caplog)

    of_the_application = {"handler's metrics", "log events", "payload files"}
    leaks = {name: found(content, EVERY_PLACE) for name, content in outlets.items()}
    assert {name for name, places in leaks.items() if places} == of_the_application
    # It took something out, and says so.
    assert b'otelchain_redaction_findings_total{rule="' in outlets["/metrics"]


def test_the_search_finds_every_secret_that_is_there(
    start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The tests above can fail: without redaction every place leaks, everywhere it can."""
    outlets = what_comes_out(without_redaction, start("off"), "grpc", tmp_path, caplog)

    missed = {name: EVERY_PLACE - found(content, EVERY_PLACE) for name, content in outlets.items()}
    for whole in ("store", "/sql", "otlp-json", "parquet"):
        assert missed[whole] == {LARGE}, whole
    for of_runs in ("csv", "langsmith"):
        assert missed[of_runs] == {LARGE, *NOT_IN_RUNS}, of_runs
    assert EVERY_PLACE - missed["payload files"] == {LARGE}
    assert EVERY_PLACE - missed["handler's metrics"] == {"run name", "run name of the async run"}
    for outlet, places in {
        "log events": {"plain prompt", "output astream", "async model error", "tool definition"},
        "/queries": {"run name", "session", "error text", "async node error", "async interrupt"},
    }.items():
        assert places & missed[outlet] == set(), outlet


@pytest.mark.parametrize("redacted", [True, False], ids=["redacted", "control"])
def test_spans_that_wait_for_the_collector_hold_no_secret(
    redacted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # Nobody comes back: no long retries.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound and not listening: every connection is refused.
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        provider = configure("app", endpoint, set_global=False, spool=tmp_path)
        use_everything((OtelCallbackHandler if redacted else without_redaction)(provider))
        provider.shutdown()

    waiting = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(waiting) > 10_000
    assert found(waiting, EVERY_PLACE) == (set() if redacted else EVERY_PLACE - {LARGE})


def broken(*content: Any, **more: Any) -> Any:
    raise ValueError(f"cannot take {content} {more} {planted('error text')}")


def test_our_log_lines_about_a_run_that_broke_hold_no_content(
    tracer_provider: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each fault says the content in its error, and is told without it."""
    payload_store._warn_once.cache_clear()
    rule = PolicyRule(name="own", callable=broken)
    handlers = [
        OtelCallbackHandler(tracer_provider, redactor=Redactor(rules=[rule])),
        OtelCallbackHandler(tracer_provider, payload_store=(store := PayloadStore(broken))),
        (failing := OtelCallbackHandler(tracer_provider)),
    ]
    monkeypatch.setattr(failing._recorder, "end", broken)
    monkeypatch.setattr(failing._recorder, "fail", broken)
    with caplog.at_level(logging.DEBUG, "otelchain"):
        for handler in handlers:
            use_everything(handler)
        store.close()
        assert nest_spans()
        try:
            with pytest.raises(KeyboardInterrupt):
                FakeRetriever(error=KeyboardInterrupt(planted("stack"))).invoke(
                    planted("query"), {"callbacks": [failing]}
                )
        finally:
            unnest_spans()

    said = own_lines(caplog)
    assert b"payloads could not be stored (ValueError)" in said
    assert b"could not record a run (on_chain_end: ValueError)" in said
    assert b"could not end a run (ValueError)" in said
    assert found(said, EVERY_PLACE) == set()


@pytest.mark.parametrize(
    ("part", "method", "told"),
    [
        (OTLPSpanExporter, "export", b"pending runs could not be sent (ValueError)"),
        (OTLPSpanExporter, "export", b"the OTLP exporter failed (ValueError)"),
        (Sender, "_send_attempt", b"the spool's sender failed (ValueError)"),
    ],
    ids=["live", "spool", "sender"],
)
def test_our_log_lines_about_spans_that_could_not_be_sent_hold_no_content(
    part: type,
    method: str,
    told: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As an encoder's error may quote an attribute."""
    monkeypatch.setattr(part, method, broken)
    provider = configure("app", "http://127.0.0.1:9", set_global=False, spool=tmp_path, live=True)
    with caplog.at_level(logging.DEBUG, "otelchain"):
        use_everything(handler := without_redaction(provider))
        # While a run is open, so that there is one to send.
        flush = RunnableLambda(lambda _: provider.force_flush(1_000))
        flush.invoke(planted("input"), {"callbacks": [handler]})
        provider.shutdown()

    said = own_lines(caplog)
    assert told in said
    assert found(said, EVERY_PLACE) == set()
