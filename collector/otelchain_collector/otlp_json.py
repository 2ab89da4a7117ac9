"""Read an OTLP/JSON request (from a receiver); one broken record does not cost the others.

protobuf's own JSON reader is not OTLP's: it takes ids for base64, and accepts enum names and
snake_case keys. This one follows opentelemetry-proto/docs/specification.md, section JSON Protobuf
Encoding: lowerCamelCase keys only, hex ids in either case, enums as integers only, 64-bit integers
as text or number, other bytes as base64, unknown keys ignored.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from otelchain_collector.otlp_request import MalformedRequestError, OtlpRequest
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import LOGS, METRIC_KINDS, METRICS, Signal

# protobuf's own limit for the binary form, so that a span is acceptable in both or in none.
_MAX_DEPTH = 100
_HEX_FIELDS = {"trace_id", "span_id", "parent_span_id"}
_SURROGATES = re.compile("[\ud800-\udfff]")
# Stands for bytes that are not UTF-8 while JSON is read; no text can hold it.
_NOT_UTF8 = "\ufdd0\udc00\ud800"
_UNDECODED = re.compile("[\udc80-\udcff]+")
# A record that _MAX_DEPTH lets through has 160 brackets around its innermost value.
_MAX_BRACKETS = 400
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class _WrongValueError(Exception):
    """A value does not fit its field; the text says which and why."""


def parse_json(signal: Signal, body: bytes, received_time_unix_nano: int) -> OtlpRequest:
    """Read a request.

    Raises:
        MalformedRequestError: It is not JSON, or its envelope has not the right form.
    """
    request = OtlpRequest(signal.request(), len(body))
    try:
        document = _object(_load(body), "the body")
        for entry in _entries(document, _json_name(signal.resources)):
            _read_resource(entry, signal, request, received_time_unix_nano)
    except _WrongValueError as error:
        raise MalformedRequestError(f"the body is not OTLP/JSON: {error}") from error
    return request


class _Around(NamedTuple):
    """What is known about the records of one scope; ``broken`` says what is wrong around them."""

    signal: Signal
    broken: str | None
    service_name: str | None
    received_time_unix_nano: int


def _read_resource(
    entry: dict[str, Any], signal: Signal, request: OtlpRequest, received_time_unix_nano: int
) -> None:
    target = getattr(request.message, signal.resources).add()
    scopes = _json_name(signal.scopes)
    broken = _fill_part(target, entry, scopes, "resource", signal)
    around = _Around(signal, broken, _service_name(target), received_time_unix_nano)
    for scope_entry in _entries(entry, scopes):
        _read_scope(scope_entry, getattr(target, signal.scopes).add(), around, request)


def _read_scope(entry: dict[str, Any], target: Any, around: _Around, request: OtlpRequest) -> None:
    name = _json_name(around.signal.records)
    broken = _fill_part(target, entry, name, "scope", around.signal)
    around = around._replace(broken=around.broken or broken)
    records = getattr(target, around.signal.records)
    for record in _entries(entry, name):
        if around.signal is METRICS:
            reasons = _add_metric(record, records, around.broken)
        else:
            reason = around.broken or _add(records, record)
            reasons = [] if reason is None else [reason]
        request.unreadable.extend(_rejected(record, reason, around) for reason in reasons)


def _fill_part(
    target: Message, entry: dict[str, Any], inner: str, part: str, signal: Signal
) -> str | None:
    """Fill a resource or scope but for what is in it, or return why it cannot be read."""
    try:
        _fill(target, {key: entry[key] for key in entry.keys() - {inner}}, 2)
    except _WrongValueError as error:
        return f"the {signal.noun}'s {part} cannot be decoded: {error}"
    return None


def _add_metric(entry: dict[str, Any], metrics: Any, broken: str | None) -> list[str]:
    """Add the readable data points of a metric; return why each other one cannot be read."""
    kinds = [kind for kind in map(_json_name, METRIC_KINDS) if isinstance(entry.get(kind), dict)]
    points = [point for kind in kinds for point in _points(entry[kind])]
    without = {kind: {**entry[kind], "dataPoints": None} for kind in kinds}
    broken = broken or _add(metrics, {**entry, **without})
    if broken is not None:
        # What has no points either was a metric once.
        return [broken] * max(1, len(points))
    kind = metrics[-1].WhichOneof("data")
    target = getattr(metrics[-1], kind).data_points if kind else ()
    return [reason for point in points if (reason := _add(target, point, 5)) is not None]


def _points(data: dict[str, Any]) -> list[Any]:
    points = data.get("dataPoints")
    return points if isinstance(points, list) else [points] if points is not None else []


def _add(records: Any, entry: Any, depth: int = 3) -> str | None:
    """Add a record, or return why it cannot be read."""
    try:
        _fill(records.add(), _object(entry, "it"), depth)
    except _WrongValueError as error:
        del records[-1]
        return str(error)
    return None


def _rejected(entry: dict[str, Any], reason: str, around: _Around) -> RejectedRecord:
    return RejectedRecord(
        around.received_time_unix_nano,
        reason,
        _text_or_none(entry.get("traceId")),
        _text_or_none(entry.get("spanId")),
        _text_or_none(entry.get("eventName" if around.signal is LOGS else "name")),
        around.service_name,
        around.signal.name,
    )


def _service_name(resource_entry: Any) -> str | None:
    for attribute in resource_entry.resource.attributes:
        if attribute.key == "service.name":
            return str(attribute.value.string_value)
    return None


@cache
def _json_name(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word.title() for word in others)


def _load(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return _load_odd(body)


def _load_odd(body: bytes) -> Any:
    """Read what orjson refuses although it is JSON, or is but for one value.

    Half a surrogate pair becomes U+FFFD. Text that is not UTF-8 and values that are nested too deep
    stay recognisable, so that they cost their own record only. NaN and Infinity without quotes and
    control characters in text, which careless writers let through, are what they say.
    """
    # Raw surrogates are what this makes of bytes that are not UTF-8.
    text = _UNDECODED.sub(_NOT_UTF8, body.decode(errors="surrogateescape"))
    try:
        return json.loads(_shallow(text), strict=False)
    except (ValueError, RecursionError) as error:
        raise MalformedRequestError(f"the body is not JSON: {error}") from error


def _shallow(text: str) -> str:
    """Put null in the place of everything inside more than _MAX_BRACKETS brackets."""
    kept: list[str] = []
    depth = start = 0
    for token in _TOKENS.finditer(text):
        bracket = token[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == _MAX_BRACKETS + 1:
                kept.append(text[start : token.start()] + "null")
        elif bracket in ("]", "}"):
            if depth == _MAX_BRACKETS + 1:
                start = token.end()
            depth -= 1
    # Brackets that are never closed: the parser has to see them.
    return text if depth > _MAX_BRACKETS or not kept else "".join([*kept, text[start:]])


def _entries(parent: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = parent.get(key)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise _WrongValueError(f"{key} is not an array")
    return [_object(entry, key) for entry in entries]


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongValueError(f"{where} is not an object")
    return value


def _text_or_none(value: Any) -> str | None:
    return _SURROGATES.sub("\ufffd", value) if isinstance(value, str) else None


def _fill(message: Message, entry: dict[str, Any], depth: int) -> None:
    """Set every field of a message that the JSON object names; null means not set."""
    if depth > _MAX_DEPTH:
        raise _WrongValueError(f"values are nested more than {_MAX_DEPTH} messages deep")
    fields = _fields(message.DESCRIPTOR)
    for key, value in entry.items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        if _is_repeated(field):
            _fill_list(message, field, value, depth)
        elif field.message_type is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, _object(value, key), depth + 1)
        else:
            _set(message, field, value)


def _fill_list(message: Message, field: FieldDescriptor, value: Any, depth: int) -> None:
    if not isinstance(value, list):
        raise _WrongValueError(f"{field.json_name} is not an array")
    target = getattr(message, field.name)
    for item in value:
        if field.message_type is None:
            target.append(_scalar(field, item))
        else:
            _fill(target.add(), _object(item, field.json_name), depth + 1)


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    try:
        setattr(message, field.name, _scalar(field, value))
    except ValueError as error:  # protobuf knows the range of each integer type.
        raise _WrongValueError(f"{field.json_name} is out of range") from error


@cache
def _fields(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    return {field.json_name: field for field in descriptor.fields}


def _is_repeated(field: FieldDescriptor) -> bool:
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(getattr(field, "label", None) == 3)  # LABEL_REPEATED, protobuf before 6.31


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.name in _HEX_FIELDS:
        return _hex(field, value)
    return _READERS[field.cpp_type, field.type == FieldDescriptor.TYPE_BYTES](field, value)


def _hex(field: FieldDescriptor, value: Any) -> bytes:
    try:
        # bytes.fromhex() would skip spaces.
        return binascii.unhexlify(_text(field, value))
    except ValueError:
        raise _WrongValueError(f"{field.json_name} is not hexadecimal") from None


def _base64(field: FieldDescriptor, value: Any) -> bytes:
    text = _text(field, value).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise _WrongValueError(f"{field.json_name} is not base64") from None


def _text(field: FieldDescriptor, value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongValueError(f"{field.json_name} is not a string")
    if _NOT_UTF8 in value:
        raise _WrongValueError(f"{field.json_name} is not UTF-8")
    return _SURROGATES.sub("\ufffd", value)


def _integer(field: FieldDescriptor, value: Any) -> int:
    # int() would also take "1_0", " 1" and other scripts' digits.
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return _enum(field, value)


def _enum(field: FieldDescriptor, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _WrongValueError(f"{field.json_name} is not an integer")
    return value


def _double(field: FieldDescriptor, value: Any) -> float:
    if isinstance(value, str):
        if value in _NON_FINITE:
            return _NON_FINITE[value]
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", value):
            raise _WrongValueError(f"{field.json_name} is not a number")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _WrongValueError(f"{field.json_name} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise _WrongValueError(f"{field.json_name} is out of range") from None


def _boolean(field: FieldDescriptor, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongValueError(f"{field.json_name} is not true or false")
    return value


_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_READERS: dict[tuple[int, bool], Callable[[FieldDescriptor, Any], Any]] = {
    (FieldDescriptor.CPPTYPE_STRING, False): _text,
    (FieldDescriptor.CPPTYPE_STRING, True): _base64,
    (FieldDescriptor.CPPTYPE_BOOL, False): _boolean,
    (FieldDescriptor.CPPTYPE_DOUBLE, False): _double,
    (FieldDescriptor.CPPTYPE_ENUM, False): _enum,
    (FieldDescriptor.CPPTYPE_INT32, False): _integer,
    (FieldDescriptor.CPPTYPE_INT64, False): _integer,
    (FieldDescriptor.CPPTYPE_UINT32, False): _integer,
    (FieldDescriptor.CPPTYPE_UINT64, False): _integer,
}
