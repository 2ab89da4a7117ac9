"""Redact one protobuf message of OTLP in place: every text, key and value in it (for stage).

The walk follows the descriptors, so that a field that OTLP will get is not forgotten.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otelchain.redaction import Redactor
from otelchain.redaction.places import OTHER, Place, fact_place, foreign_place
from otelchain.redaction.tally import Tally
from otelchain.redaction.trees import number_text
from otelchain_collector.redaction.trees import fill, tree_of

_TEXT = FieldDescriptor.TYPE_STRING
_PlaceOf = Callable[[str], Place]


class Removed(NamedTuple):
    """What was found in one attribute or field."""

    attribute: str
    tally: Tally


def resource_place(key: str) -> Place:
    """Return the place of an attribute of a resource."""
    return Place("resource", key)


def scope_place(key: str) -> Place:
    """Return the place of an attribute of a scope."""
    return Place("scope", key)


_ATTRIBUTE_PLACES: dict[str, _PlaceOf] = {
    Resource.DESCRIPTOR.full_name: resource_place,
    InstrumentationScope.DESCRIPTOR.full_name: scope_place,
}
#: Fields that are no attributes but hold text; what is not here is a fact under its own name.
FIELD_PLACES = {
    "Span.name": fact_place("span.name"),
    "Event.name": fact_place("event.name"),
    "Status.message": Place("errors", "status.message"),
    "LogRecord.body": Place(OTHER, "log.body"),
    "InstrumentationScope.name": scope_place("scope.name"),
    "InstrumentationScope.version": scope_place("scope.version"),
}


def field_place(message_name: str, field_name: str) -> Place:
    """Return the place of a field that is no attribute."""
    name = f"{message_name}.{field_name}"
    return FIELD_PLACES.get(name) or fact_place(f"{message_name.lower()}.{field_name}")


class Texts(NamedTuple):
    """What a policy looks at in messages.

    Attributes:
        texts: Every text, also in bytes of attributes, and every number of an attribute.
        keys: The keys of attributes, and of key-value lists in them.
    """

    texts: list[str]
    keys: set[str]


def gather(message: Message, into: Texts) -> None:
    """Add the texts and keys of a message."""
    texts, keys = into
    for field, value in message.ListFields():
        if field.type == _TEXT:
            if isinstance(value, str):
                texts.append(value)
            else:
                texts.extend(value)
        elif field.message_type is None:
            continue
        elif field.message_type.name == "KeyValue":
            for attribute in value:
                keys.add(attribute.key)
                _gather_value(attribute.value, into)
        elif field.message_type.name == "AnyValue":
            for inner in [value] if isinstance(value, AnyValue) else value:
                _gather_value(inner, into)
        else:
            for inner in [value] if isinstance(value, Message) else value:
                gather(inner, into)


def _gather_value(value: AnyValue, into: Texts) -> None:
    text = value.string_value
    if text:  # nine in ten
        into.texts.append(text)
        return
    kind = value.WhichOneof("value")
    if kind == "int_value" or kind == "double_value":
        into.texts.append(number_text(getattr(value, kind)))
    elif kind == "bytes_value":
        into.texts.append(value.bytes_value.decode(errors="replace"))
    elif kind == "array_value" or kind == "kvlist_value":
        gather(getattr(value, kind), into)


def redact(message: Message, redactor: Redactor) -> list[Removed]:
    """Redact a message in place.

    Returns:
        What was found; nothing where the message is as it was.
    """
    removed: list[Removed] = []
    name = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        if field.type == _TEXT:
            removed += _redact_field(message, field.name, value, redactor)
        elif field.message_type is None:
            continue  # numbers, ids and flags
        elif field.message_type.name == "KeyValue":
            place_of = _ATTRIBUTE_PLACES.get(message.DESCRIPTOR.full_name, foreign_place)
            removed += _redact_attributes(value, place_of, redactor)
        elif isinstance(value, AnyValue):
            removed += _redact_value(value, field_place(name, field.name), redactor)
        else:
            for inner in [value] if isinstance(value, Message) else value:
                removed += redact(inner, redactor)
    return removed


def _redact_field(message: Message, name: str, value: Any, redactor: Redactor) -> Iterator[Removed]:
    place = field_place(message.DESCRIPTOR.name, name)
    tally = Tally()
    scrubber = redactor.at(place)
    if isinstance(value, str):
        redacted = scrubber.text(value, tally)
        if tally:
            setattr(message, name, redacted)
    else:
        texts = [scrubber.text(text, tally) for text in value]
        if tally:
            del value[:]
            value.extend(texts)
    if tally:
        yield Removed(place.key, tally)


def _redact_value(value: AnyValue, place: Place, redactor: Redactor) -> Iterator[Removed]:
    tally = Tally()
    tree = tree_of(value)
    redacted = redactor.at(place).attribute(place.key, tree, tally)
    if tally:
        fill(value, None if redacted is None else redacted.value)
        yield Removed(place.key, tally)


def _redact_attributes(
    attributes: Any, place_of: _PlaceOf, redactor: Redactor
) -> Iterator[Removed]:
    gone: list[int] = []
    taken = {attribute.key for attribute in attributes}
    for number, attribute in enumerate(attributes):
        tally = Tally()
        tree = tree_of(attribute.value)
        redacted = redactor.at(place_of(attribute.key)).attribute(attribute.key, tree, tally)
        if not tally:
            continue
        if redacted is None:
            gone.append(number)
            yield Removed(redactor.text(attribute.key), tally)
            continue
        if redacted.key != attribute.key:
            attribute.key = _unique(redacted.key, taken)
            taken.add(attribute.key)
        if redacted.value is not tree:
            fill(attribute.value, redacted.value)
        yield Removed(attribute.key, tally)
    for number in reversed(gone):
        del attributes[number]


def _unique(key: str, taken: set[str]) -> str:
    """Return a key that no other attribute has, because of two equal ones the store keeps one."""
    unique, number = key, 1
    while unique in taken:
        number += 1
        unique = f"{key}#{number}"
    return unique
