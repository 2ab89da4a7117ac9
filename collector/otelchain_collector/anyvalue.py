"""OTLP's AnyValue as a Python value, and Python values as canonical JSON text; lossless.

JSON cannot say everything that an AnyValue can, so three values become an object with one key that
starts with ``@``, and keys of nested lists that start with ``@`` get one more, to stay apart:

=====================  ==============================
AnyValue               JSON
=====================  ==============================
int64                  integer, exact
double                 number with ``.`` or exponent
NaN, ±Infinity         ``{"@double": "NaN"}``
bytes                  ``{"@bytes": "<base64>"}``
kvlist key ``@x``      ``"@@x"``
empty                  ``null``
=====================  ==============================

An attribute map itself (of a span, event, link, scope or resource) is always an object, so its own
keys are written as they are.
"""

import base64
import math
from collections.abc import Iterable
from typing import Any

import orjson
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    KeyValue,
    KeyValueList,
)

# orjson writes NaN as null without asking, but asks about subclasses with this option.
_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS


class NonFinite(float):
    """NaN or an infinity."""


class EscapedKeys(dict[str, Any]):
    """A key-value list that has a key starting with ``@``."""


def attributes_of(key_values: Iterable[KeyValue]) -> dict[str, Any]:
    """Decode an attribute list. Of two equal keys the last wins."""
    return {key_value.key: value_of(key_value.value) for key_value in key_values}


def value_of(any_value: AnyValue) -> Any:
    """Decode one value: str, int, float, bool, bytes, list, dict or None (empty)."""
    # Nine values in ten are text, and this saves them the look-up of the oneof.
    text = any_value.string_value
    if text:
        return text
    kind = any_value.WhichOneof("value")
    if kind in _PLAIN:
        return getattr(any_value, kind)
    if kind == "double_value":
        number = any_value.double_value
        return number if math.isfinite(number) else NonFinite(number)
    if kind == "array_value":
        return array_of(any_value.array_value)
    if kind == "kvlist_value":
        return kvlist_of(any_value.kvlist_value)
    # Empty, or an index into a string table that only profiles have: common.proto says that a
    # receiver treats those as absent.
    return None


def array_of(array_value: ArrayValue) -> list[Any]:
    """Decode a list."""
    return [value_of(item) for item in array_value.values]


def kvlist_of(kvlist_value: KeyValueList) -> dict[str, Any]:
    """Decode a key-value list. Of two equal keys the last wins."""
    values = attributes_of(kvlist_value.values)
    return EscapedKeys(values) if any(key.startswith("@") for key in values) else values


_PLAIN = {"string_value", "int_value", "bool_value", "bytes_value"}


def to_json(tree: Any) -> str:
    """Write decoded values as canonical JSON text.

    Raises:
        orjson.JSONEncodeError: The tree is deeper than 254 levels.
    """
    return orjson.dumps(tree, default=_special, option=_OPTIONS).decode()


def _special(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"@bytes": base64.b64encode(value).decode()}
    if isinstance(value, EscapedKeys):
        return {"@" + key if key.startswith("@") else key: item for key, item in value.items()}
    if isinstance(value, NonFinite):
        return {"@double": _NAMES.get(float(value), "NaN")}
    raise TypeError(f"not an attribute value: {type(value).__name__}")


_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}
