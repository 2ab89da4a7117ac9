"""Distinct secrets in every place that can carry content; none may reach the file or its WAL."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

import otelchain.provider
from otelchain import OtelCallbackHandler, Redactor, configure
from planted_places import MODES, PLACES, found, planted, use_every_place


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("mode", MODES)
def test_no_planted_secret_is_in_the_bytes_of_the_file(
    mode: str, protocol: str, start_collector: Any, tmp_path: Path
) -> None:
    # One that redacts nothing itself: what the handler lets through would be found.
    collector = start_collector(tmp_path / "traces.duckdb", "--redaction", "off")
    address = collector.grpc if protocol == "grpc" else collector.http
    provider = configure("app", f"http://{address}", protocol=protocol, set_global=False)
    use_every_place([MODES[mode](provider)])
    provider.shutdown()
    # Killed, so that the write-ahead log stays beside the file and is searched too.
    collector.kill()

    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sum(map(len, files.values())) > 10_000, files.keys()
    # Names and ids that the application chose (run name, session) stay facts with content off and
    # in strict: there the detectors alone guard them, and they were switched off here.
    chosen = {"run name", "session"} if mode in ("content off", "strict") else set()
    leaked = {
        (place, name)
        for name, content in files.items()
        for place in found(content, PLACES) - chosen
    }
    assert leaked == set()


def test_the_search_finds_a_secret_that_is_there(start_collector: Any, tmp_path: Path) -> None:
    """The test above can fail: without redaction every place leaks."""
    collector = start_collector(tmp_path / "traces.duckdb", "--redaction", "off")
    provider = configure("app", f"http://{collector.http}", set_global=False)
    use_every_place([OtelCallbackHandler(provider, redactor=Redactor(detectors=[]))])
    provider.shutdown()
    collector.kill()

    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert set(PLACES) - found(content, PLACES) == set()


def test_a_secret_keeps_its_pseudonym_from_span_to_span(
    tracer_provider: Any, finished_spans: Any
) -> None:
    redactor = Redactor(action="hash", hash_key="k" * 32)
    handler = OtelCallbackHandler(tracer_provider, redactor=redactor)
    for _ in range(2):
        RunnableLambda(str).invoke(f"key {planted('input')}", {"callbacks": [handler]})

    first, second = [
        json.loads(span.attributes["otelchain.input"]) for span in finished_spans.all()
    ]
    assert first == second
    assert planted("input") not in first
