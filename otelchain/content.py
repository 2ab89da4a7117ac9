"""The one choke point: whatever can carry content becomes an attribute value here, or nowhere.

Stands between the facts of a run and its span: snapshot, then redaction, then JSON text.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson
from opentelemetry.util.types import AttributeValue

from otelchain.attributes import TRUNCATED_SUFFIX
from otelchain.redaction import Redactor
from otelchain.snapshot import quick_json, snapshot

Attributes = dict[str, AttributeValue]

# Texts up to here are names or like names: 4,096 of them are remembered with what the redactor
# makes of them, since they come again and again.
_QUICK_CHARS = 256
# Payloads are remembered for a moment: the input of a run is often that of its parent, or what its
# sibling has just put out. Redacting 1 KB costs 4 µs, finding it again 0.2. At most 2 MiB each.
_SHORT_BYTES, _SHORT_KEPT, _LONG_KEPT = 4_096, 256, 8


def text_length(attributes: Attributes) -> int:
    """Count the characters of the texts in attributes."""
    length = 0
    for value in attributes.values():
        if type(value) is str:
            length += len(value)
    return length


def name_texts(attributes: Attributes) -> Attributes:
    """Replace the long texts in attributes by their size and hash, as a JSON text."""
    named: Attributes = {}
    for key, value in attributes.items():
        if type(value) is str and len(value) > _QUICK_CHARS:
            encoded = value.encode(errors="replace")
            digest = sha256(encoded).hexdigest()
            value = f'"[over the span\'s budget: {len(encoded)} bytes, sha256 {digest}]"'
            named[key + TRUNCATED_SUFFIX] = True
        named[key] = value
    return named


def _of_json(redactor: Redactor) -> Callable[[bytes], str]:
    return lambda encoded: redactor.text(encoded.decode())


class ContentGate:
    """Turn values of the application into attributes without secrets, or into nothing.

    Args:
        redactor: The policy every text passes.
        capture: False drops content; what is not content still passes the redactor.
        max_value_bytes: Budget of one value, in bytes of UTF-8.
    """

    def __init__(self, redactor: Redactor, *, capture: bool, max_value_bytes: int) -> None:
        self.redactor = redactor
        self._known = lru_cache(maxsize=4_096)(redactor.text)
        self._short = lru_cache(maxsize=_SHORT_KEPT)(_of_json(redactor))
        self._long = lru_cache(maxsize=_LONG_KEPT)(_of_json(redactor))
        self.start_facts: dict[bytes, Attributes] = {}
        """Facts of starts that were seen lately; see `otelchain.run_facts`."""
        self.capture = capture
        self.max_value_bytes = max_value_bytes

    def json(self, key: str, value: object) -> Attributes:
        """Content as JSON text under one key, with a mark when the budget cut it."""
        if not self.capture:
            return {}
        return self.fact_json(key, value)

    def fact_json(self, key: str, value: object) -> Attributes:
        """Like `json`, for values that are recorded also with content capture off."""
        quick = self._quick_json(value)
        if quick is not None:
            return {key: quick}
        taken = snapshot(value, self.max_value_bytes, self.redactor.text)
        text = orjson.dumps(self.redactor.value(taken.tree)).decode()
        if taken.truncated:
            return {key: text, key + TRUNCATED_SUFFIX: True}
        return {key: text}

    def _quick_json(self, value: object) -> str | None:
        """Write a small, plain value as `snapshot` would, ten times faster; None for the others."""
        if isinstance(value, str):  # langchain-core's texts of messages are of a subclass
            if len(value) > _QUICK_CHARS or not value.isascii():
                return None
            return orjson.dumps(self._known(str.__str__(value))).decode()
        if not self.redactor.reads_json_text:
            return None
        encoded = quick_json(value, self.max_value_bytes)
        if encoded is None or len(encoded) > self.max_value_bytes:
            return None
        return (self._short if len(encoded) <= _SHORT_BYTES else self._long)(encoded)

    def text(self, key: str, value: str) -> Attributes:
        """Content that is a plain text."""
        return {key: self.fact(value)} if self.capture else {}

    def texts(self, key: str, values: Sequence[object]) -> Attributes:
        """Content that is a list of texts."""
        if not self.capture:
            return {}
        return {key: [self.fact(str(value)) for value in values]}

    def fact(self, value: str) -> str:
        """Redact and cut a text that the user chose but that is no content: a name, an id."""
        if len(value) <= _QUICK_CHARS and value.isascii():
            return self._known(value)
        taken = snapshot(value, self.max_value_bytes, self.redactor.text)
        return self.redactor.text(str(taken.tree))

    def facts(self, values: Mapping[str, Any]) -> Attributes:
        """Redact attributes that the user chose: names, ids and lists of them."""
        return {key: self._fact_of_any_type(value) for key, value in values.items()}

    def _fact_of_any_type(self, value: Any) -> AttributeValue:
        if type(value) is str:
            return self.fact(value)
        if isinstance(value, (int, float)):  # and bool
            return value
        if type(value) is list and all(type(each) is str for each in value):
            return [self.fact(each) for each in value]
        redacted: AttributeValue = self.redactor.value(snapshot(value, self.max_value_bytes).tree)
        return redacted
