"""OTLP/JSON files, as the OpenTelemetry Collector's file exporter writes them: a request a line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from otelchain_collector.exchange.delivery import Request
from otelchain_collector.exchange.pages import RELATIONS, Ask, Filters, pages
from otelchain_collector.exchange.requests import request
from otelchain_collector.exchange.sources import Document
from otelchain_collector.json_document import MAX_BRACKETS
from otelchain_collector.record_limit import MAX_RECORDS
from otelchain_collector.signals import SIGNALS, TRACES, Signal

# What a receiver takes without thinking, and an editor opens.
_LINE_BYTES = 4 * 1024 * 1024
# Well below what a collector takes at most by default.
REQUEST_BYTES = 16 * 1024 * 1024
# A quarter of what a collector takes: each may have a resource and a scope of its own, and events.
REQUEST_RECORDS = MAX_RECORDS // 4


def write_otlp_json(
    signals: Iterable[Signal],
    ask: Ask,
    filters: Filters,
    stream: IO[bytes],
    advance: Callable[[int], None],
) -> None:
    """Write stored records, one request per line; ``advance`` is told how many were written."""
    for signal in signals:
        for rows in pages(ask, RELATIONS[signal.name], filters):
            for part in parts(signal, rows):
                stream.write(request(signal, part) + b"\n")
            advance(len(rows))


def parts(signal: Signal, rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Cut rows in the order of their times into requests of some megabytes.

    Rows of one time stay together unless they are spans: an equal log record in another request
    would be taken for a resend (content_id.py).
    """
    part: list[Mapping[str, Any]] = []
    size_bytes = 0
    time = RELATIONS[signal.name].time
    for row in rows:
        if size_bytes > _LINE_BYTES and (signal is TRACES or row[time] != part[-1][time]):
            yield part
            part, size_bytes = [], 0
        part.append(row)
        size_bytes += sum(len(value) for value in row.values() if isinstance(value, str))
    if part:
        yield part


class _Placed(NamedTuple):
    """A record with what is around it, as far as it is needed to build a request again."""

    resource: dict[str, Any]
    scope: dict[str, Any]
    record: Any


def requests_in(document: Document, complain: Callable[[str, int, str], None]) -> Iterator[Request]:
    """Yield the requests of a document; what it cannot be read for is a complaint."""
    place = f"{document.file}:{document.line}"
    found = False
    if document.fault is None and isinstance(document.tree, dict):
        for signal in SIGNALS:
            if _resources(signal) in document.tree:
                found = True
                yield from _requests(signal, document.tree, place)
    if found:
        return
    fault = document.fault or "it has none of resourceSpans, resourceLogs and resourceMetrics"
    if isinstance(document.tree, dict) and "resourceProfiles" in document.tree:
        fault = "profiles are not stored"
    complain(place, 1, fault)


def _requests(signal: Signal, tree: dict[str, Any], place: str) -> Iterator[Request]:
    # json, because it writes NaN and half surrogate pairs, which the decoder knows about.
    try:
        body = json.dumps({_resources(signal): tree[_resources(signal)]}).encode()
    except RecursionError:  # orjson reads more brackets than json writes.
        tree = _shallow(tree, MAX_BRACKETS)
        body = json.dumps({_resources(signal): tree[_resources(signal)]}).encode()
    records = list(_flat(signal, tree))
    if len(body) <= REQUEST_BYTES and len(records) <= REQUEST_RECORDS:
        # What is not even a list of resources is one that cannot be read.
        empty = tree[_resources(signal)] in ([], None)
        yield Request(signal, body, place, _count(records) or (0 if empty else 1))
        return
    part: list[_Placed] = []
    size_bytes = 0
    for placed in records:
        record_bytes = len(json.dumps(placed.record))
        too_large = size_bytes + record_bytes > REQUEST_BYTES or len(part) == REQUEST_RECORDS
        if part and too_large:
            yield Request(signal, _joined(signal, part), place, _count(part))
            part, size_bytes = [], 0
        part.append(placed)
        size_bytes += record_bytes
    if part:
        yield Request(signal, _joined(signal, part), place, _count(part))


def _shallow(tree: Any, brackets: int) -> Any:
    """Put null in the place of everything inside more brackets, as `load_json` does."""
    if not isinstance(tree, (dict, list)):
        return tree
    if brackets == 0:
        return None
    copy = tree.copy()
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        copy[key] = _shallow(tree[key], brackets - 1)
    return copy


def _count(records: Iterable[_Placed]) -> int:
    """Count spans and log records, and the data points of metrics."""
    return sum(_points(placed.record) for placed in records)


def _points(record: Any) -> int:
    if not isinstance(record, dict):
        return 1
    data = [value for value in record.values() if isinstance(value, dict) and "dataPoints" in value]
    return sum(len(_listed(value["dataPoints"])) for value in data) if data else 1


def _flat(signal: Signal, tree: dict[str, Any]) -> Iterator[_Placed]:
    for resource in _objects(tree.get(_resources(signal))):
        for scope in _objects(resource.get(_name(signal.scopes))):
            for record in _listed(scope.get(_name(signal.records))):
                yield _Placed(resource, scope, record)


def _joined(signal: Signal, part: Iterable[_Placed]) -> bytes:
    resources: list[dict[str, Any]] = []
    last: _Placed | None = None
    scopes: list[dict[str, Any]] = []
    for placed in part:
        if last is None or placed.resource is not last.resource:
            scopes = []
            resources.append(placed.resource | {_name(signal.scopes): scopes})
        if not scopes or last is None or placed.scope is not last.scope:
            scopes.append(placed.scope | {_name(signal.records): []})
        scopes[-1][_name(signal.records)].append(placed.record)
        last = placed
    return json.dumps({_resources(signal): resources}).encode()


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in _listed(value) if isinstance(entry, dict)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _resources(signal: Signal) -> str:
    return _name(signal.resources)


def _name(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word.title() for word in others)
