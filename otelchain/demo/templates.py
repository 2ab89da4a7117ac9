"""Turns of the made-up services, as rows that the collector's own decoder made of their spans."""

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

import pyarrow as pa
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode

from otelchain.demo.services import SERVICES, Service
from otelchain.demo.spellings import SPELLINGS
from otelchain.demo.turns import Step, Stopped, Texts, Turn
from otelchain_collector.decode import decode
from otelchain_collector.rows import SpanRow
from otelchain_collector.span_table import rows_of, span_table

# Each with how many turns are made for it; the second one is out for the last day only.
RELEASES: Final = (("2.3.0", 700), ("2.4.0", 500))
BASE_UNIX_NANO: Final = 1_767_225_600 * 10**9
PHANTOM_PLACE: Final = 2**32


class Templates(NamedTuple):
    """What is copied.

    Attributes:
        spans: Rows of table ``spans``. A trace id is twice the turn's number, or one more in a
            turn's second trace, counted from 2; a span id is the place in the turn, counted from
            1; times count from `BASE_UNIX_NANO`.
        ranges: For each service and release the first turn's number and how many there are.
    """

    spans: pa.Table
    ranges: list[tuple[int, int, int, int]]


def templates(seed: int) -> Templates:
    """Make the same turns for the same seed."""
    choose = Random(seed)  # noqa: S311 - the same for everybody, on purpose
    texts = Texts(choose)
    rows: list[SpanRow] = []
    ranges: list[tuple[int, int, int, int]] = []
    first = 1
    for number, service in enumerate(SERVICES):
        for release, (_, all_turns) in enumerate(RELEASES):
            turns = all_turns * service.percent // 100
            for turn in range(first, first + turns):
                rows += _rows(
                    _spans(turn, service, release, _steps(service, release, choose, texts))
                )
            ranges.append((number, release, first, turns))
            first += turns
    return Templates(span_table(rows), ranges)


def _steps(service: Service, release: int, choose: Random, texts: Texts) -> list[Step]:
    turn = Turn(choose, texts)
    with suppress(Stopped):
        service.turn(turn, release == 1)
    return turn.steps


def _rows(spans: Iterator[ReadableSpan]) -> list[SpanRow]:
    wire = encode_spans(list(spans)).SerializeToString()
    decoded = decode(ExportTraceServiceRequest.FromString(wire), BASE_UNIX_NANO)
    assert not decoded.rejected
    return [*rows_of(decoded.rows), *rows_of(decoded.pending)]


def _spans(turn: int, service: Service, release: int, steps: list[Step]) -> Iterator[ReadableSpan]:
    spelling = SPELLINGS[service.dialect]
    resource = Resource(
        {
            "service.name": service.name,
            "service.version": RELEASES[release][0],
            "telemetry.sdk.language": "python",
            "host.name": f"{service.name}-0",
        }
    )
    for step in steps:
        yield ReadableSpan(
            name=spelling.name(step),
            context=_context(turn, step.trace, step.place),
            parent=_parent(turn, step, service),
            resource=resource,
            attributes=spelling.attributes(step),
            events=_events(step),
            status=_status(step),
            start_time=_unix_nano(step.start_ms),
            end_time=_unix_nano(step.end_ms),
            instrumentation_scope=InstrumentationScope(spelling.scope, "1.0"),
        )


def _context(turn: int, trace: int, place: int) -> SpanContext:
    return SpanContext(turn * 2 + trace, place + 1, is_remote=False)


def _parent(turn: int, step: Step, service: Service) -> SpanContext | None:
    if step.parent is not None:
        return _context(turn, step.trace, step.parent)
    return _context(turn, step.trace, PHANTOM_PLACE) if service.dialect == "langsmith" else None


def _events(step: Step) -> list[Event]:
    if step.status != "error":
        return []
    stack = f"Traceback (most recent call last):\n  {step.error_type}: {step.error}"
    said = {
        "exception.type": step.error_type,
        "exception.message": step.error,
        "exception.stacktrace": stack,
    }
    return [Event("exception", said, _unix_nano(step.end_ms))]


def _status(step: Step) -> Status:
    if step.status in ("error", "handled_error"):
        return Status(StatusCode.ERROR, step.error)
    return Status()


def _unix_nano(ms: float) -> int:
    return BASE_UNIX_NANO + int(ms * 1e6)
