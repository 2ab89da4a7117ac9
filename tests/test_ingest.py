"""Between receivers and writer: what a request leaves behind."""

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from otelchain_collector.budget import ByteBudget, Reservation
from otelchain_collector.decoding import EncodedRequest
from otelchain_collector.ingest import Ingest
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.signals import TRACES
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_requests import body, span


class Message:
    """Refers to itself, as grpc.aio's do."""

    def __init__(self) -> None:
        self.itself = self


def test_a_request_that_refers_to_itself_goes_once_there_are_enough_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = body(span())
    monkeypatch.setattr("otelchain_collector.ingest._GARBAGE_BYTES", len(sent))
    store = Store.open(tmp_path / "t.duckdb")
    writer = Writer(store)
    writer.start()
    ingest = Ingest(writer, ByteBudget(1_000_000), 1_000_000, None)
    messages: list[weakref.ref[Message]] = []

    def read(_: Reservation) -> EncodedRequest:
        messages.append(weakref.ref(Message()))
        return EncodedRequest(sent, parse_protobuf)

    def gone() -> list[bool]:
        asyncio.run(ingest.accept(TRACES, read, ingest.budget.reserve()))
        return [message() is None for message in messages]

    gc.disable()
    try:
        assert gone() == [False]
        assert gone() == [True, True]
    finally:
        gc.enable()
        ingest.close()
        writer.close()
        store.close()
