"""LangSmith exports (JSON lines) → requests with spans."""

import json
from collections.abc import Iterable, Iterator

from otelchain_collector.exchange.delivery import Complain, Request
from otelchain_collector.exchange.langsmith_runs import BadRunError, Json, OpenRuns, read_run
from otelchain_collector.exchange.langsmith_spans import span_of
from otelchain_collector.exchange.sources import Document
from otelchain_collector.signals import TRACES

_REQUEST_RUNS = 500
_REQUEST_BYTES = 4 * 1024 * 1024


def requests_of(documents: Iterable[Document], complain: Complain) -> Iterator[Request]:
    """Yield requests with the spans of all runs; a bad line is a complaint and costs no other."""
    opened = OpenRuns()
    try:
        yield from _gathered(_placed_spans(documents, opened, complain))
    finally:
        opened.close()


def _placed_spans(
    documents: Iterable[Document], opened: OpenRuns, complain: Complain
) -> Iterator[tuple[str, str | None, bytes]]:
    for document in documents:
        place = f"{document.file}:{document.line}"
        try:
            if document.fault is not None:
                raise BadRunError(document.fault)
            whole = opened.joined(place, document.tree)
            if whole is not None:
                yield place, *_span(whole)
        except BadRunError as error:
            complain(place, 1, str(error))
    for place, fields in opened.rest():
        try:
            yield place, *_span(fields)
        except BadRunError as error:
            complain(place, 1, str(error))


def _span(fields: Json) -> tuple[str | None, bytes]:
    """Return the project of a run and its span."""
    project = fields.get("session_name")
    span = span_of(read_run(fields))
    return project if isinstance(project, str) else None, json.dumps(span).encode()


def _gathered(spans: Iterable[tuple[str, str | None, bytes]]) -> Iterator[Request]:
    projects: dict[str | None, list[bytes]] = {}
    first = last = ""
    count = size_bytes = 0
    for place, project, span in spans:
        projects.setdefault(project, []).append(span)
        first, last = first or place, place
        count, size_bytes = count + 1, size_bytes + len(span)
        if count == _REQUEST_RUNS or size_bytes > _REQUEST_BYTES:
            yield _request(projects, first, last)
            projects, first, count, size_bytes = {}, "", 0, 0
    if projects:
        yield _request(projects, first, last)


def _request(projects: dict[str | None, list[bytes]], first: str, last: str) -> Request:
    count = sum(map(len, projects.values()))
    place = first if first == last else f"{first} to {last}"
    return Request(
        TRACES,
        b'{"resourceSpans":['
        + b",".join(_resource(project, spans) for project, spans in projects.items())
        + b"]}",
        place,
        count,
    )


def _resource(project: str | None, spans: list[bytes]) -> bytes:
    value = {"stringValue": project}
    attributes = [{"key": "service.name", "value": value}] if project else []
    resource = json.dumps({"attributes": attributes}).encode()
    scope = b'{"scope":{"name":"langsmith"},"spans":[' + b",".join(spans) + b"]}"
    return b'{"resource":' + resource + b',"scopeSpans":[' + scope + b"]}"
