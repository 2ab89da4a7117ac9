"""Decode a binary trace request in columns: the fast way of decode.py, with the same rows.

What it cannot take, it leaves to the plain decoder: a request with a broken span, and what no
exporter writes.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from otelchain_collector.anyvalue import to_json
from otelchain_collector.around import LAST_TIME_UNIX_NANO
from otelchain_collector.attribute_maps import attribute_lists
from otelchain_collector.decode import Decoded
from otelchain_collector.dialects.status import PENDING
from otelchain_collector.normalise_columns import Request, normalise_columns
from otelchain_collector.otlp_arrow import FlatSpans, NotTakenError, flat_spans
from otelchain_collector.span_table import SPAN_SCHEMA, pc

_Columns = dict[str, Any]
_COUNTS = ("flags", "dropped_attributes_count", "dropped_events_count", "dropped_links_count")


def decode_columns(
    body: bytes, received_time_unix_nano: int, flat: FlatSpans | None = None
) -> Decoded:
    """Read every span of a request; the rows are tables with SPAN_SCHEMA.

    Args:
        body: The request.
        received_time_unix_nano: When it came.
        flat: Its spans, where they have been read already.

    Raises:
        NotTakenError: The plain decoder has to read it.
    """
    flat = flat or flat_spans(body)
    count = len(flat.spans)
    columns = _own_fields(flat.spans)
    try:
        columns |= _read(flat)
    except orjson.JSONEncodeError as error:
        raise NotTakenError(str(error)) from error
    columns["received_time_unix_nano"] = pa.repeat(received_time_unix_nano, count)
    arrays = [_array(columns.get(field.name), field.type, count) for field in SPAN_SCHEMA]
    return _by_status(pa.Table.from_arrays(arrays, schema=SPAN_SCHEMA))


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def _by_status(table: pa.Table) -> Decoded:
    pending = pc.equal(table.column("run_status"), PENDING)
    if not pc.any(pending).as_py():
        return Decoded(table, [])
    return Decoded(table.filter(pc.invert(pending)), [], table.filter(pending))


def _own_fields(spans: pa.StructArray) -> _Columns:
    """Return the columns that are fields of Span as they are."""
    status = spans.field("status")
    columns = {name: spans.field(name) for name in ("trace_state", "name", "kind", *_COUNTS)}
    columns["trace_id"] = _hex(spans.field("trace_id"), 16)
    columns["span_id"] = _hex(spans.field("span_id"), 8)
    columns["parent_span_id"] = _optional_hex(spans.field("parent_span_id"), 8)
    for name in ("start_time_unix_nano", "end_time_unix_nano"):
        columns[name] = _checked_time(spans.field(name))
    columns["status_code"] = status.field("code")
    columns["status_message"] = status.field("message")
    return columns


def _checked_time(column: pa.Array) -> pa.Array:
    if len(column) and pc.max(column).as_py() > LAST_TIME_UNIX_NANO:
        raise NotTakenError("a time that cannot be stored")
    return column


def _hex(ids: pa.BinaryArray, length: int) -> pa.Array:
    """Write ids as hexadecimal text."""
    if not (_lengths(ids) == length).all():
        raise NotTakenError("an id of another length")
    texts, nonzero = _hex_and_nonzero(ids, length)
    if not nonzero.all():
        raise NotTakenError("an id that is all zero")
    return texts


def _optional_hex(ids: pa.BinaryArray, length: int) -> pa.Array:
    """Write ids as hexadecimal text; one that is empty or all zero is NULL."""
    lengths = _lengths(ids)
    there = lengths == length
    if not (there | (lengths == 0)).all():
        raise NotTakenError("an id of another length")
    texts, nonzero = _hex_and_nonzero(ids.filter(pa.array(there)), length)
    places = np.maximum(np.cumsum(there) - 1, 0)
    there[there] = nonzero
    return texts.take(pa.array(places, pa.int64(), mask=~there))


def _lengths(ids: pa.BinaryArray) -> Any:
    return np.array(pc.binary_length(ids))


def _hex_and_nonzero(ids: pa.BinaryArray, length: int) -> tuple[pa.Array, Any]:
    digits = b"".join(ids.to_pylist())
    texts = pa.StringArray.from_buffers(
        len(ids),
        pa.py_buffer(np.arange(len(ids) + 1, dtype=np.int32) * (2 * length)),
        pa.py_buffer(digits.hex().encode()),
    )
    return texts, np.frombuffer(digits, np.uint8).reshape(-1, length).any(axis=1)


def _read(flat: FlatSpans) -> _Columns:
    """Return the columns that need a look at attributes."""
    spans = flat.spans
    attributes = attribute_lists(spans.field("attributes"))
    maps = attributes.maps()
    events = _events(spans.field("events"))
    resources = attribute_lists(flat.resources.field("resource").field("attributes")).maps()
    request = Request(flat, attributes, maps, events, resources)
    return {
        **_around(flat, resources),
        **normalise_columns(request),
        "attributes": _json(maps),
        "events": _json(events),
        "links": _links(spans.field("links")),
    }


def _json(trees: Sequence[Any]) -> pa.Array:
    # Texts, not orjson's bytes: however short they are, each holds on to some 4 KB.
    return pa.array(list(map(to_json, trees)), pa.string())


def _around(flat: FlatSpans, resources: list[dict[str, Any]]) -> _Columns:
    """Return the columns of ScopeSpans and ResourceSpans, one value per span."""
    scope, resource = flat.scopes.field("scope"), flat.resources.field("resource")
    if len(resource.field("entity_refs").values):
        raise NotTakenError("entities, which are in development")
    dropped = "dropped_attributes_count"
    of_scope = {
        "scope_name": scope.field("name"),
        "scope_version": scope.field("version"),
        "scope_attributes": _json(attribute_lists(scope.field("attributes")).maps()),
        "scope_dropped_attributes_count": scope.field(dropped),
        "scope_schema_url": flat.scopes.field("schema_url"),
    }
    of_resource = {
        "resource_attributes": _json(resources),
        "resource_dropped_attributes_count": resource.field(dropped),
        "resource_schema_url": flat.resources.field("schema_url"),
    }
    resource_of_span = flat.resource_of_scope.take(flat.scope_of_span)
    return {
        **{name: column.take(flat.scope_of_span) for name, column in of_scope.items()},
        **{name: column.take(resource_of_span) for name, column in of_resource.items()},
    }


def _events(lists: pa.ListArray) -> list[list[dict[str, Any]]]:
    """Return the events of each span as column ``events`` has them."""
    values = lists.values
    columns = (
        values.field("name").to_pylist(),
        values.field("time_unix_nano").to_pylist(),
        attribute_lists(values.field("attributes")).maps(),
        values.field("dropped_attributes_count").to_pylist(),
    )
    events = [
        {
            "name": name,
            "time_unix_nano": time_unix_nano,
            "attributes": attributes,
            "dropped_attributes_count": dropped,
        }
        for name, time_unix_nano, attributes, dropped in zip(*columns, strict=True)
    ]
    return [events[first:last] for first, last in pairwise(lists.offsets.to_pylist())]


def _links(lists: pa.ListArray) -> pa.Array:
    values = lists.values
    if len(values) == 0:
        return pa.repeat("[]", len(lists))
    columns = {
        "trace_id": [identifier.hex() for identifier in values.field("trace_id").to_pylist()],
        "span_id": [identifier.hex() for identifier in values.field("span_id").to_pylist()],
        "trace_state": values.field("trace_state").to_pylist(),
        "flags": values.field("flags").to_pylist(),
        "attributes": attribute_lists(values.field("attributes")).maps(),
        "dropped_attributes_count": values.field("dropped_attributes_count").to_pylist(),
    }
    trees = [dict(zip(columns, link, strict=True)) for link in zip(*columns.values(), strict=True)]
    return _json([trees[first:last] for first, last in pairwise(lists.offsets.to_pylist())])
