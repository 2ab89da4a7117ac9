"""Refuse a request of too many parts (before decoding): its bytes alone say little of its cost.

An empty span is two bytes on the wire, and some 700 bytes and 5 µs here; an empty attribute or
event is the same two bytes. So parts are counted as well as bytes, before memory is taken for them.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from otelchain_collector.signals import LOGS, METRIC_KINDS, METRICS, TRACES, Signal

#: Resources, scopes and records (spans, log records, metrics and data points) of a request, and the
#: events, links and exemplars in them. An SDK sends 512 spans at once, a Collector 8,192.
MAX_RECORDS: Final = 200_000
#: All messages in a request: these and their attributes and values. 20,000 spans with 30 attributes
#: have 1.2 million.
MAX_PARTS: Final = 1_500_000
# Of JSON, brackets, colons and commas: an attribute is two objects and has six more of them.
_MAX_TOKENS: Final = 4 * MAX_PARTS

# protobuf refuses what is deeper.
_MAX_DEPTH: Final = 100
# No part takes less on the wire.
_LEAST_PART_BYTES: Final = 2
_PIECE_BYTES: Final = 256 * 1024


class TooManyRecordsError(Exception):
    """The request has too many parts, whatever its size; the text says how many it may have."""


def check_record_count(count: int) -> None:
    """Refuse a request with so many resources, scopes, records, and events, links and exemplars.

    Raises:
        TooManyRecordsError: They are too many.
    """
    if count > MAX_RECORDS:
        raise TooManyRecordsError(
            f"the request has more than {MAX_RECORDS} records, counted with their resources, "
            "scopes, events, links and exemplars; send it in smaller batches"
        )


def check_protobuf(signal: Signal, body: bytes) -> None:
    """Refuse a binary request that has too many records or parts.

    Raises:
        TooManyRecordsError: It has.
    """
    if len(body) <= _LEAST_PART_BYTES * MAX_RECORDS:
        return
    array = np.frombuffer(body, np.uint8)
    count = _count(body, _RECORDS[signal.name], MAX_RECORDS)
    if signal is TRACES and count + _most(array, _is_event_or_link) > MAX_RECORDS:
        count = _count(body, _RECORDS_AND_EVENTS, MAX_RECORDS)
    check_record_count(count)
    # What is packed has no tag of its own, and only metrics have that.
    if signal is METRICS or _most(array, _is_part) > MAX_PARTS:
        _check_parts(_count(body, _parts_of(signal.request.DESCRIPTOR), MAX_PARTS))


def check_json(body: bytes) -> None:
    """Refuse a JSON request with too many objects; its records are counted when it is read.

    Raises:
        TooManyRecordsError: It has.
    """
    if len(body) <= MAX_PARTS:
        return
    objects, tokens = _tokens(np.frombuffer(body, np.uint8))
    if objects > MAX_PARTS or tokens > _MAX_TOKENS:
        objects, tokens = _tokens_outside_texts(body)
    _check_parts(objects if tokens <= _MAX_TOKENS else MAX_PARTS + 1)


def _check_parts(count: int) -> None:
    if count > MAX_PARTS:
        raise TooManyRecordsError(
            f"the request has more than {MAX_PARTS} records, attributes and values; send it in "
            "smaller batches"
        )


# --- protobuf ----------------------------------------------------------------------------------


class _Field(NamedTuple):
    """How a field counts: ``each`` time, by ``bytes_each`` where it is packed, and its parts."""

    each: int
    bytes_each: int
    parts: "dict[int, _Field]"


def _field(each: int = 0, parts: "dict[int, _Field] | None" = None) -> _Field:
    return _Field(each, 0, parts or {})


def _records(record: _Field) -> dict[int, _Field]:
    # The numbers are the same for every signal.
    return {1: _field(1, {2: _field(1, {2: record})})}


_EXEMPLARS: Final = {"gauge": 5, "sum": 5, "histogram": 8, "exponential_histogram": 11}
_DATA: Final = {
    number: _field(0, {1: _field(1, {_EXEMPLARS[kind]: _field(1)} if kind in _EXEMPLARS else {})})
    for kind, number in METRIC_KINDS.items()
}
_RECORDS: Final = {
    TRACES.name: _records(_field(1)),
    LOGS.name: _records(_field(1)),
    METRICS.name: _records(_field(1, _DATA)),
}
_EVENTS, _LINKS = 11, 13
_RECORDS_AND_EVENTS: Final = _records(_field(1, {_EVENTS: _field(1), _LINKS: _field(1)}))


@cache
def _parts_of(descriptor: Descriptor) -> dict[int, _Field]:
    known: dict[str, dict[int, _Field]] = {}

    def parts(of: Descriptor) -> dict[int, _Field]:
        if of.full_name not in known:
            found = known[of.full_name] = {}  # Before its fields: values hold values.
            for field in of.fields:
                if field.message_type is not None:
                    found[field.number] = _field(1, parts(field.message_type))
                elif _is_repeated(field):
                    is_text = field.type == FieldDescriptor.TYPE_STRING
                    found[field.number] = _Field(is_text, 0 if is_text else 2, {})
        return known[of.full_name]

    return parts(descriptor)


def _is_repeated(field: FieldDescriptor) -> bool:
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(getattr(field, "label", None) == 3)  # LABEL_REPEATED, protobuf before 6.31


def _most(array: Any, could_begin: Callable[[Any], Any]) -> int:
    """Return how many there can be at most: as many as bytes that could begin one."""
    return sum(
        int(np.count_nonzero(could_begin(array[start : start + _PIECE_BYTES])))
        for start in range(0, len(array), _PIECE_BYTES)
    )


def _is_part(piece: Any) -> Any:
    # Wire type 2. The highest bit says that the number of the field goes on, which it may do in
    # vain; so it is left out here.
    return (piece & 7) == 2


def _is_event_or_link(piece: Any) -> Any:
    tags = piece & 0x7F
    return (tags == _EVENTS << 3 | 2) | (tags == _LINKS << 3 | 2)


def _count(body: bytes, fields: dict[int, _Field], enough: int) -> int:
    """Count the parts of a message that ``fields`` names, until there are more than enough.

    What protobuf would refuse ends the message that it is in, and no other: so the decoders see it.
    """
    count = position = 0
    end = len(body)
    around: list[tuple[int, int, dict[int, _Field]]] = []
    try:
        while count <= enough:
            if position >= end:
                if not around:
                    break
                position, end, fields = around.pop()
                continue
            tag = body[position]
            position += 1
            if tag >= 0x80:
                tag, position = _varint(body, position - 1)
            field = fields.get(tag >> 3)
            kind = tag & 7
            if kind == 2:
                length = body[position]
                position += 1
                if length >= 0x80:
                    length, position = _varint(body, position - 1)
                if length > end - position:
                    position = end
                elif field is None:
                    position += length
                else:
                    count += field.each
                    if field.bytes_each:
                        count += length // field.bytes_each
                    elif field.parts and length and len(around) < _MAX_DEPTH:
                        around.append((position + length, end, fields))
                        end, fields = position + length, field.parts
                        continue
                    position += length
                continue
            if field is not None and field.bytes_each:
                count += 1
            if kind == 0:
                while body[position] >= 0x80:
                    position += 1
                position += 1
            elif kind in _FIXED_BYTES:
                position += _FIXED_BYTES[kind]
            elif kind > 5:
                position = end
            # Groups, 3 and 4, are of fields that nobody knows; what is in them is counted here.
    except IndexError:  # The body ends in the middle of something; there is nothing behind.
        pass
    return count


_FIXED_BYTES: Final = {1: 8, 5: 4}


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := body[position]) >= 0x80 and shift < 63:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift, position + 1


# --- JSON --------------------------------------------------------------------------------------


def _tokens(array: Any) -> tuple[int, int]:
    """Count opening brackets, and these with all colons and commas."""
    objects = others = 0
    for start in range(0, len(array), _PIECE_BYTES):
        piece = array[start : start + _PIECE_BYTES]
        # "[" and "{" are 32 apart.
        objects += int(np.count_nonzero((piece & 0xDF) == ord("[")))
        others += int(np.count_nonzero(piece == ord(":")) + np.count_nonzero(piece == ord(",")))
    return objects, objects + others


def _tokens_outside_texts(body: bytes) -> tuple[int, int]:
    # Without escapes, every quote begins or ends a text.
    array = np.frombuffer(body.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    objects = tokens = inside = 0
    for start in range(0, len(array), _PIECE_BYTES):
        piece = array[start : start + _PIECE_BYTES]
        quotes = np.bitwise_xor.accumulate((piece == ord('"')).view(np.uint8)) ^ inside
        inside = quotes[-1]
        found = _tokens(piece[quotes == 0])
        objects, tokens = objects + found[0], tokens + found[1]
    return objects, tokens
