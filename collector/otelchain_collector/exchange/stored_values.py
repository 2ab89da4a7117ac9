"""Attribute values as they are stored (anyvalue.py) → OTLP/JSON, and → what the decoder made.

The other direction of ``to_json``: both functions undo the table in collector/README.md.
"""

import base64
import math
from collections.abc import Callable
from typing import Any

import orjson

from otelchain_collector.anyvalue import EscapedKeys, NonFinite

_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def key_values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an attribute map, read from its JSON, as OTLP/JSON's list of KeyValue."""
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def any_value(stored: Any) -> dict[str, Any]:
    """Return one stored value as OTLP/JSON's AnyValue."""
    if stored is None:
        return {}
    if isinstance(stored, list):
        return {"arrayValue": {"values": [any_value(item) for item in stored]}}
    if isinstance(stored, dict):
        marked = _marked(stored)
        if marked is None:
            return {"kvlistValue": {"values": key_values(_unescaped(stored))}}
        kind, text = marked
        return {"bytesValue" if kind == "@bytes" else "doubleValue": text}
    return _PLAIN[type(stored)](stored)


_PLAIN: dict[type, Callable[[Any], dict[str, Any]]] = {
    str: lambda text: {"stringValue": text},
    bool: lambda truth: {"boolValue": truth},
    int: lambda number: {"intValue": str(number)},
    float: lambda number: {"doubleValue": number},
}


def decoded(text: str | bytes) -> Any:
    """Return what the decoder had before it wrote this JSON."""
    return _decoded_map(orjson.loads(text))


def _decoded_map(tree: Any) -> Any:
    if isinstance(tree, dict):  # An attribute map, whose keys are as they were.
        return {key: _decoded(value) for key, value in tree.items()}
    return _decoded(tree)


def _decoded(stored: Any) -> Any:
    if isinstance(stored, list):
        return [_decoded(item) for item in stored]
    if not isinstance(stored, dict):
        return stored
    marked = _marked(stored)
    if marked is None:
        values = _decoded_map(_unescaped(stored))
        return EscapedKeys(values) if any(key.startswith("@") for key in values) else values
    kind, text = marked
    return base64.b64decode(text) if kind == "@bytes" else NonFinite(_DOUBLES[text])


def _marked(stored: dict[str, Any]) -> tuple[str, str] | None:
    """Return marker and text of an object that stands for bytes or a double."""
    if len(stored) != 1:
        return None
    [(key, text)] = stored.items()
    return (key, text) if key in ("@bytes", "@double") else None


def _unescaped(stored: dict[str, Any]) -> dict[str, Any]:
    return {key[1:] if key.startswith("@@") else key: value for key, value in stored.items()}
