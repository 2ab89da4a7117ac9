"""Cut attribute values that are too long, one by one, in a decoded OTLP request (from ingest)."""

import re
from hashlib import sha256
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otelchain_collector.anyvalue import to_json, value_of


def cut_long_values(message: Message, max_bytes: int) -> int:
    """Cut every value of more than ``max_bytes`` below a message, in place; return how many.

    A value that is cut becomes text: the start of its own text, or of its JSON, and a marker with
    the size and the SHA-256 of the whole, as otelchain's own handler writes it. Everything around
    it stays. Values in lists are not looked at alone: an attribute is cut as one.
    """
    count = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in [value] if isinstance(value, Message) else value:
            # Most of a large request is small; its size tells without looking into it.
            if inner.ByteSize() <= max_bytes:
                continue
            if isinstance(inner, (KeyValue, AnyValue)):
                count += _cut(inner.value if isinstance(inner, KeyValue) else inner, max_bytes)
            else:
                count += cut_long_values(inner, max_bytes)
    return count


def _cut(value: AnyValue, max_bytes: int) -> bool:
    whole = _text_of(value).encode()
    if len(whole) <= max_bytes or _is_cut(whole, max_bytes):
        return False
    kept = whole[:max_bytes].decode(errors="ignore")  # not half a character
    value.string_value = f"{kept}… [cut: {len(whole)} bytes, sha256 {sha256(whole).hexdigest()}]"
    return True


def _is_cut(whole: bytes, max_bytes: int) -> bool:
    """Tell whether a value was cut before, and comes back out of an export."""
    marker = _MARKER.search(whole[-_MARKER_BYTES:])
    return marker is not None and len(whole) - len(marker[0]) <= max_bytes


# The size has 20 digits at most.
_MARKER = re.compile(rb"\xe2\x80\xa6 \[cut: \d{1,20} bytes, sha256 [0-9a-f]{64}\]\Z")
_MARKER_BYTES = 130


def _text_of(value: Any) -> str:
    decoded = value_of(value)
    return decoded if isinstance(decoded, str) else to_json(decoded)
