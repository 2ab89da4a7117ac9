"""A binary OTLP trace request → its spans as flat Arrow arrays (for span_columns), by ptars.

ptars writes protobuf straight into Arrow: 3 µs a span, where reading every field of protobuf's
Python messages takes 20. Arrow has no recursive types, so the two recursive fields of AnyValue are
declared as bytes here, which is the same on the wire; nested values are rare and read one by one.

Both refuse what is cut off and text that is not UTF-8. Only a group that is not closed rightly, of
a field that nobody knows, costs its span with protobuf and not with ptars.
"""

from functools import cache
from typing import Any, NamedTuple

import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_FILES = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2)
# An index into a string table that only profiles have.
_UNREAD = {("KeyValue", "key_strindex")}
_RECURSIVE = ("array_value", "kvlist_value")


class NotTakenError(Exception):
    """The plain decoder has to read this request; the text says why."""


class FlatSpans(NamedTuple):
    """The spans of a request, in its order, with the scope and the resource of each.

    ``spans``, ``scopes`` and ``resources`` are struct arrays of Span, ScopeSpans and ResourceSpans.
    ``scope_of_span`` and ``resource_of_scope`` are positions in the next one.
    """

    spans: Any
    scope_of_span: Any
    scopes: Any
    resource_of_scope: Any
    resources: Any


def flat_spans(body: bytes) -> FlatSpans:
    """Read a request.

    Raises:
        NotTakenError: It, or a text in it, is broken.
    """
    try:
        batch = _handler().list_to_record_batch([body])
    except ValueError as error:
        raise NotTakenError(str(error)) from error
    resources = batch.column(0).values
    scopes = resources.field("scope_spans")
    spans = scopes.values.field("spans")
    return FlatSpans(
        spans.values,
        spans.value_parent_indices(),
        scopes.values,
        scopes.value_parent_indices(),
        resources,
    )


@cache
def _handler() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in _FILES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            _flatten(message)
        pool.Add(file)
    request = pool.FindMessageTypeByName(
        trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR.full_name
    )
    return ptars.HandlerPool([request.file]).get_for_message(request)


def _flatten(message: descriptor_pb2.DescriptorProto) -> None:
    kept = [field for field in message.field if (message.name, field.name) not in _UNREAD]
    for field in kept:
        if message.name == "AnyValue" and field.name in _RECURSIVE:
            field.type = field.TYPE_BYTES
            field.ClearField("type_name")
            # Repeated, because protobuf merges a message that comes twice: seen, not lost.
            field.label = field.LABEL_REPEATED
            field.ClearField("oneof_index")
    message.ClearField("field")
    message.field.extend(kept)


def present(column: pa.Array) -> bool:
    """Tell whether any value of a nullable column is there."""
    return int(column.null_count) < len(column)
