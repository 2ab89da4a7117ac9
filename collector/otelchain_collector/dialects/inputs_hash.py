"""Hash of a tool's or retriever's input: to see that it was asked the same without reading it."""

from hashlib import blake2b
from typing import Any

import orjson

from otelchain_collector.dialects.dialect import Found
from otelchain_collector.dialects.spans import SpanFacts


def inputs_hash(span: SpanFacts, found: Found) -> int | None:
    """Return 64 bits of the input's BLAKE2b; None when there is no input.

    Of JSON the keys are sorted first, since models write the same arguments in any order.
    """
    name = found.get("inputs_attribute")
    return hash_of(span.attributes.get(name) if name else found.get("inputs_built"))


def hash_of(value: Any) -> int | None:
    """Return the hash of one attribute's value."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = orjson.loads(value)
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, TypeError):  # no JSON, or none that can be written again
        content = str(value).encode(errors="replace")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True)
