"""Payloads beyond the budget, kept whole and redacted where the user wants them."""

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest
from langchain_core.callbacks.manager import dispatch_custom_event
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import TracerProvider

from fakes import FinishedSpans
from otelchain import (
    ConfigurationError,
    OtelCallbackHandler,
    PayloadStore,
    Redactor,
    payload_store,
)
from otelchain.redaction import PolicyRule

SECRET = "sk-proj-0Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9StUvWxYz"
ROWS = [{"id": number, "key": SECRET, "name": "née"} for number in range(200)]


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.fixture(autouse=True)
def _small_budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OTELCHAIN_MAX_VALUE_BYTES", "1000")
    payload_store.store_in.cache_clear()
    payload_store._warn_once.cache_clear()
    yield
    payload_store.store_in.cache_clear()


@pytest.fixture(name="kept")
def _kept() -> dict[str, bytes]:
    return {}


@pytest.fixture(name="store")
def _store(kept: dict[str, bytes]) -> Iterator[PayloadStore]:
    store = PayloadStore(kept.__setitem__, "s3://bucket/traces/")
    yield store
    store.close()


def returning(value: Any, provider: TracerProvider, **arguments: Any) -> None:
    handler = OtelCallbackHandler(provider, **arguments)
    RunnableLambda(lambda _: value).invoke(1, {"callbacks": [handler]})


def last_facts(finished_spans: FinishedSpans) -> dict[str, Any]:
    return dict(finished_spans.all()[-1].attributes or {})


def test_what_is_cut_is_kept_whole_and_redacted_and_named_by_size_and_hash(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    store: PayloadStore,
    kept: dict[str, bytes],
) -> None:
    returning(ROWS, tracer_provider, payload_store=store)

    assert store.flush(10)
    facts = last_facts(finished_spans)
    digest = sha256(compact(ROWS)).hexdigest()
    (name,) = kept
    assert name.startswith(f"{digest}-")
    assert facts["otelchain.output.reference"] == f"s3://bucket/traces/{name}"
    assert facts["otelchain.output.original_bytes"] == len(compact(ROWS))
    assert facts["otelchain.output.original_sha256"] == digest
    assert facts["otelchain.output.truncated"] is True
    (whole,) = kept.values()
    assert SECRET not in whole.decode()
    rows = json.loads(whole)
    assert [row["id"] for row in rows] == list(range(200))
    assert all("REDACTED" in row["key"] for row in rows)
    assert store.stored == 1


def test_what_one_place_or_policy_lets_pass_is_not_kept_for_another(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans, tmp_path: Path
) -> None:
    rows = [{"customer": "Bob", "id": number} for number in range(200)]
    only_outputs = PolicyRule(name="person", paths=["**.customer"], places=["outputs"])
    everywhere = PolicyRule(name="person", paths=["**.customer"])

    for rule in (only_outputs, everywhere):
        store = PayloadStore.in_directory(tmp_path)  # as a restarted process makes it
        redactor = Redactor(rules=[rule])
        handler = OtelCallbackHandler(tracer_provider, redactor=redactor, payload_store=store)
        RunnableLambda(lambda _: rows).invoke(rows, {"callbacks": [handler]})
        assert store.flush(10)
        store.close()
        facts = last_facts(finished_spans)
        whole = {
            side: (tmp_path / facts[f"otelchain.{side}.reference"].rpartition("/")[2]).read_text()
            for side in ("input", "output")
        }
        assert "Bob" not in whole["output"]
        assert ("Bob" in whole["input"]) is (rule is only_outputs)


def test_a_long_text_is_kept_too(
    tracer_provider: TracerProvider, store: PayloadStore, kept: dict[str, bytes]
) -> None:
    text = f"{'word ' * 1000}{SECRET} end"

    returning(text, tracer_provider, payload_store=store)

    assert store.flush(10)
    (whole,) = kept.values()
    assert SECRET not in whole.decode()
    assert json.loads(whole).startswith("word " * 1000)
    assert json.loads(whole).endswith(" end")


def test_what_fits_is_not_kept_twice_and_the_same_payload_once(
    tracer_provider: TracerProvider, store: PayloadStore, kept: dict[str, bytes]
) -> None:
    returning({"small": 1}, tracer_provider, payload_store=store)
    for _ in range(3):
        returning(ROWS, tracer_provider, payload_store=store)

    assert store.flush(10)
    assert len(kept) == store.stored == 1


@pytest.mark.parametrize(
    ("arguments", "config"),
    [({"capture_content": False}, {}), ({}, {"tags": ["otelchain.capture=false"]})],
    ids=["handler", "run"],
)
def test_with_content_off_nothing_is_kept(
    tracer_provider: TracerProvider,
    store: PayloadStore,
    kept: dict[str, bytes],
    arguments: Any,
    config: Any,
) -> None:
    handler = OtelCallbackHandler(tracer_provider, payload_store=store, **arguments)

    RunnableLambda(lambda _: ROWS).invoke(ROWS, {"callbacks": [handler], **config})

    assert store.flush(10)
    assert kept == {}


def test_what_is_beyond_the_budget_of_the_span_is_kept_as_well(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    store: PayloadStore,
    kept: dict[str, bytes],
) -> None:
    monkeypatch.setenv("OTELCHAIN_MAX_SPAN_BYTES", "1000")

    def step(value: Any) -> Any:
        for number in range(4):
            dispatch_custom_event("progress", {"text": f"{number}" + "x" * 600})
        return value

    handler = OtelCallbackHandler(tracer_provider, payload_store=store)
    RunnableLambda(step).invoke(1, {"callbacks": [handler]})

    assert store.flush(10)
    events = finished_spans.all()[-1].events
    references = [
        (event.attributes or {}).get("otelchain.event.data.reference") for event in events
    ]
    assert references[0] is None
    last = str(references[-1]).removeprefix("s3://bucket/traces/")
    assert json.loads(kept[last]) == {"text": "3" + "x" * 600}


def test_a_directory_holds_files_of_this_user_that_the_reference_leads_to(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path / "new" / "payloads"
    monkeypatch.setenv("OTELCHAIN_PAYLOAD_DIRECTORY", str(directory))

    returning(ROWS, tracer_provider)

    assert payload_store.store_in(str(directory)).flush(10)
    file = Path(
        url2pathname(urlparse(last_facts(finished_spans)["otelchain.output.reference"]).path)
    )
    assert len(json.loads(file.read_bytes())) == 200
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in directory.iterdir()] == [file.name]


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(ConfigurationError, match="payloads cannot be kept in"):
        PayloadStore.in_directory(tmp_path / "file" / "payloads")


def test_a_full_directory_takes_no_more_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(payload_store, "MAX_DIRECTORY_BYTES", 300)
    store = PayloadStore.in_directory(tmp_path)
    with caplog.at_level(logging.WARNING, "otelchain"):
        for letter in "abc":
            store.keep_redacted("k", letter * 120)
            assert store.flush(10)
    store.close()

    assert (store.stored, store.failed) == (2, 1)
    assert len(list(tmp_path.iterdir())) == 2
    assert "their references lead nowhere" in caplog.text


def test_a_store_that_hangs_holds_up_nobody_and_what_waits_is_bounded(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(payload_store, "MAX_WAITING_BYTES", 20_000)
    go_on = threading.Event()
    store = PayloadStore(lambda name, data: go_on.wait(30))
    for number in range(10):
        returning([number, *ROWS[:100]], tracer_provider, payload_store=store)

    assert len(finished_spans.all()) == 10
    assert store.dropped >= 7
    facts = last_facts(finished_spans)
    assert "otelchain.output.reference" not in facts
    assert facts["otelchain.output.original_sha256"]  # dropped, and still honest
    go_on.set()
    store.close()


def test_a_store_that_raises_costs_the_payload_only_and_it_is_tried_again(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []

    def put(name: str, data: bytes) -> None:
        calls.append(name)
        raise ConnectionError(SECRET)

    store = PayloadStore(put)
    with caplog.at_level(logging.WARNING, "otelchain"):
        for _ in range(2):
            returning(ROWS, tracer_provider, payload_store=store)
            assert store.flush(10)
    store.close()

    assert len(calls) == store.failed == 2
    assert len(finished_spans.all()) == 2
    assert SECRET not in caplog.text
    assert caplog.text.count("could not be stored (ConnectionError)") == 1


def test_a_payload_beyond_the_largest_is_not_written(
    store: PayloadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_store, "MAX_PAYLOAD_BYTES", 1_000)

    assert store.keep("k", ROWS, redactor=None) == {}  # type: ignore[arg-type]
    assert store.dropped == 1


def test_what_waits_at_the_exit_of_the_process_is_stored(tmp_path: Path) -> None:
    program = (
        "from langchain_core.runnables import RunnableLambda\n"
        "from otelchain import OtelCallbackHandler\n"
        "rows = [{'id': n} for n in range(500)]\n"
        "RunnableLambda(lambda _: rows).invoke(1, {'callbacks': [OtelCallbackHandler()]})\n"
    )
    environment = {
        **os.environ,
        "OTELCHAIN_PAYLOAD_DIRECTORY": str(tmp_path),
        "OTEL_SDK_DISABLED": "false",
    }
    recording = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider())\n"
    )

    subprocess.run([sys.executable, "-c", recording + program], env=environment, check=True)

    (file,) = tmp_path.iterdir()
    assert len(json.loads(file.read_bytes())) == 500


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_stores_its_own(tmp_path: Path) -> None:
    program = f"""
import os
from otelchain import PayloadStore
store = PayloadStore.in_directory({str(tmp_path)!r})
store.keep_redacted("k", "parent"); assert store.flush(10)
child = os.fork()
store.keep_redacted("k", "child" if child == 0 else "parent again")
assert store.flush(10)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""

    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)

    found = sorted(file.read_text() for file in tmp_path.iterdir())
    assert found == ["child", "parent", "parent again"]
