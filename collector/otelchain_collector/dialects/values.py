"""Readers: an attribute's value in, a column's value out, None for what does not fit.

Attributes of foreign spans come with wrong types, empty texts and broken JSON. A reader never
raises, so the worst a bad attribute can do is to leave its own column NULL.
"""

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any

import orjson

Reader = Callable[[Any], Any]

MAX_BIGINT = 2**63 - 1
MAX_INTEGER = 2**31 - 1


def text(value: Any) -> str | None:
    """Return a text that is not empty."""
    return value if isinstance(value, str) and value else None


def identifier(value: Any) -> str | None:
    """Return a text; whole numbers are accepted because thread ids often are numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(value)


def integer(value: Any) -> int | None:
    """Return a whole number that fits a BIGINT; doubles without a fraction are accepted."""
    # JavaScript exporters write whole numbers as doubles.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -MAX_BIGINT <= value <= MAX_BIGINT else None


def count(value: Any) -> int | None:
    """Return a whole number that is not negative."""
    number = integer(value)
    return number if number is not None and number >= 0 else None


def small_count(value: Any) -> int | None:
    """Return a count that fits an INTEGER column."""
    number = count(value)
    return number if number is not None and number <= MAX_INTEGER else None


def seconds_as_ms(value: Any) -> float | None:
    """Return a duration in milliseconds, read from seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value * 1000.0 if math.isfinite(value) and value >= 0 else None


def amount(value: Any) -> float | None:
    """Return a sum of money: a number that is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def text_list(value: Any) -> list[str] | None:
    """Return a list of texts, also when it is written as JSON."""
    items = parsed(value)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return None
    return items


def known_texts(value: Any) -> list[str] | None:
    """Return the texts of a list that say something: some writers fill gaps with ``unknown``."""
    return [item for item in text_list(value) or () if item not in ("", "unknown")] or None


def comma_list(value: Any) -> list[str] | None:
    """Return the texts of a comma-separated list."""
    if not isinstance(value, str):
        return text_list(value)
    return [item for item in map(str.strip, value.split(",")) if item] or None


def one_of(meanings: Mapping[str, str]) -> Reader:
    """Return a reader that translates the texts it knows and drops all others."""
    return lambda value: meanings.get(value) if isinstance(value, str) else None


def other_than(reader: Reader, *placeholders: str) -> Reader:
    """Return a reader that takes some texts, in any case, for no answer at all."""

    def read(value: Any) -> Any:
        found = reader(value)
        return None if isinstance(found, str) and found.lower() in placeholders else found

    return read


def parsed(value: Any) -> Any:
    """Return JSON text as a value, and any other value as it is; None when it is not JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def parsed_or_text(value: Any) -> Any:
    """Return JSON text as a value and every other text unchanged."""
    found = parsed(value)
    return value if found is None else found


def json_object(value: Any) -> dict[str, Any]:
    """Return an object, also when it is written as JSON; empty when it is something else."""
    found = parsed(value)
    return found if isinstance(found, dict) else {}


def json_text(value: Any) -> str | None:
    """Return JSON text that DuckDB accepts; a text must be JSON already."""
    if isinstance(value, str):
        # Valid text is kept as it is: numbers too big for Python's encoder survive.
        return None if parsed(value) is None else value
    return None if value is None else as_json(value)


def as_json(value: Any) -> str | None:
    """Return a value as JSON text, or None when JSON cannot hold it."""
    try:
        return orjson.dumps(value, default=_encode_bytes).decode()
    except TypeError:  # a lone surrogate, an integer beyond 64 bits, or too deep
        return None


def json_of_bytes(value: bytes) -> str | None:
    """Return bytes that hold JSON as its text, other UTF-8 as a JSON text, the rest as base64."""
    try:
        written = value.decode()
    except UnicodeDecodeError:
        return as_json(value)
    return as_json(written) if parsed(written) is None else written


def _encode_bytes(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"@bytes": base64.b64encode(value).decode()}
    raise TypeError(f"no JSON form for {type(value).__name__}")
