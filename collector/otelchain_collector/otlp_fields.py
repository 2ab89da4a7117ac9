"""Set the fields of protobuf messages from JSON objects, by OTLP's rules (for otlp_json)."""

import base64
import binascii
import math
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from otelchain_collector.json_document import NOT_UTF8

# protobuf's own limit for the binary form, so that a span is acceptable in both or in none.
_MAX_DEPTH = 100
_HEX_FIELDS = {"trace_id", "span_id", "parent_span_id"}
_SURROGATES = re.compile("[\ud800-\udfff]")


class WrongValueError(Exception):
    """A value does not fit its field; the text says which and why."""


def as_object(value: Any, where: str) -> dict[str, Any]:
    """Return a value that has to be an object.

    Raises:
        WrongValueError: It is something else.
    """
    if not isinstance(value, dict):
        raise WrongValueError(f"{where} is not an object")
    return value


def as_array(value: Any, where: str) -> list[Any]:
    """Return a value that has to be an array; null is an empty one.

    Raises:
        WrongValueError: It is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise WrongValueError(f"{where} is not an array")
    return value


def whole_text(value: Any) -> str | None:
    """Return a text with U+FFFD where it has half a surrogate pair, or bytes that are not UTF-8."""
    if not isinstance(value, str):
        return None
    return _SURROGATES.sub("\ufffd", value.replace(NOT_UTF8, "\ufffd"))


def fill(message: Message, entry: dict[str, Any], depth: int) -> None:
    """Set every field of a message that the JSON object names; null means not set.

    Args:
        message: The message.
        entry: The object.
        depth: How many messages are around this one.

    Raises:
        WrongValueError: A value does not fit, or is nested too deep.
    """
    if depth > _MAX_DEPTH:
        raise WrongValueError(f"values are nested more than {_MAX_DEPTH} messages deep")
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
            fill(inner, as_object(value, key), depth + 1)
        else:
            _put(partial(setattr, message, field.name), field, value)


def _fill_list(message: Message, field: FieldDescriptor, value: Any, depth: int) -> None:
    target = getattr(message, field.name)
    for item in as_array(value, field.json_name):
        if field.message_type is None:
            _put(target.append, field, item)
        else:
            fill(target.add(), as_object(item, field.json_name), depth + 1)


def _put(put: Callable[[Any], None], field: FieldDescriptor, value: Any) -> None:
    try:
        put(_scalar(field, value))
    except (ValueError, OverflowError) as error:  # protobuf knows the range of each integer type.
        raise WrongValueError(f"{field.json_name} is out of range") from error


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
        raise WrongValueError(f"{field.json_name} is not hexadecimal") from None


def _base64(field: FieldDescriptor, value: Any) -> bytes:
    text = _text(field, value).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise WrongValueError(f"{field.json_name} is not base64") from None


def _text(field: FieldDescriptor, value: Any) -> str:
    if not isinstance(value, str):
        raise WrongValueError(f"{field.json_name} is not a string")
    if NOT_UTF8 in value:
        raise WrongValueError(f"{field.json_name} is not UTF-8")
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
        raise WrongValueError(f"{field.json_name} is not an integer")
    return value


def _double(field: FieldDescriptor, value: Any) -> float:
    if isinstance(value, str):
        if value in _NON_FINITE:
            return _NON_FINITE[value]
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", value):
            raise WrongValueError(f"{field.json_name} is not a number")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongValueError(f"{field.json_name} is not a number")
    number = float(value)  # An integer beyond every double raises OverflowError, a text does not.
    if isinstance(value, str) and math.isinf(number):
        raise OverflowError
    return number


def _boolean(field: FieldDescriptor, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError(f"{field.json_name} is not true or false")
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
