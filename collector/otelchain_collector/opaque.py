"""The messages that OTLP would have if strings and inner messages were bytes (for otlp_protobuf).

On the wire they are the same, so a request can be taken apart although a text in it is broken.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import Message

from otelchain_collector.signals import METRIC_KINDS, SIGNALS

_PACKAGE = "otelchain_collector"
# Number, name, repeated, inner message; the numbers are the same for every signal.
_MESSAGES: dict[str, list[tuple[int, str, bool, str | None]]] = {
    "Envelope": [(1, "resources", True, "OpaqueResource")],
    "OpaqueResource": [
        (1, "resource", False, None),
        (2, "scopes", True, "OpaqueScope"),
        (3, "schema_url", False, None),
    ],
    "OpaqueScope": [
        (1, "scope", False, None),
        (2, "records", True, None),
        (3, "schema_url", False, None),
    ],
    "OpaqueMetric": [
        (1, "name", False, None),
        *((number, kind, False, "OpaqueData") for kind, number in METRIC_KINDS.items()),
    ],
    "OpaqueData": [(1, "data_points", True, None)],
}


def _heads() -> dict[str, list[tuple[int, str, bool, str | None]]]:
    return {
        signal.name: [(number, name, False, None) for name, number in signal.head.items()]
        for signal in SIGNALS
    }


def _classes() -> dict[str, type[Message]]:
    messages = {**_MESSAGES, **_heads()}
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE}/opaque.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, field, repeated, inner in fields:
            message.field.add(
                name=field,
                number=number,
                label=_LABELS[repeated],
                type=_TYPES[inner is not None],
                type_name=f".{_PACKAGE}.{inner}" if inner else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in messages
    }


_LABELS = {
    False: FieldDescriptorProto.LABEL_OPTIONAL,
    True: FieldDescriptorProto.LABEL_REPEATED,
}
_TYPES = {
    False: FieldDescriptorProto.TYPE_BYTES,
    True: FieldDescriptorProto.TYPE_MESSAGE,
}
CLASSES = _classes()
Envelope = CLASSES["Envelope"]
OpaqueMetric = CLASSES["OpaqueMetric"]
