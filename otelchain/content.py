"""The one choke point: whatever can carry content becomes an attribute value here, or nowhere.

Stands between the facts of a run and its span: snapshot, then redaction, then JSON text.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson
from opentelemetry.util.types import AttributeValue

from otelchain.attributes import TRUNCATED_SUFFIX
from otelchain.original import original
from otelchain.payload_store import PayloadStore
from otelchain.redaction import Redactor
from otelchain.snapshot import quick_json, snapshot

Attributes = dict[str, AttributeValue]

# Texts up to here are written without a walk and, where they repeat, redacted once.
_QUICK_CHARS = 256


def text_length(attributes: Attributes) -> int:
    """Count the characters of the texts in attributes."""
    return sum(len(value) for value in attributes.values() if type(value) is str)


def name_texts(attributes: Attributes, store: PayloadStore | None = None) -> Attributes:
    """Replace the long texts in attributes by their size and hash, as a JSON text.

    What is replaced has passed the redactor, so a store keeps it as it is.
    """
    named: Attributes = {}
    for key, value in attributes.items():
        if type(value) is str and len(value) > _QUICK_CHARS:
            encoded = value.encode(errors="replace")
            digest = sha256(encoded).hexdigest()
            value = f'"[over the span\'s budget: {len(encoded)} bytes, sha256 {digest}]"'
            named[key + TRUNCATED_SUFFIX] = True
            if store is not None:
                named.update(store.keep_redacted(key, attributes[key]))  # type: ignore[arg-type]
        named[key] = value
    return named


class ContentGate:
    """Turn values of the application into attributes without secrets, or into nothing.

    Args:
        redactor: The policy every text passes.
        capture: False drops content; what is not content still passes the redactor.
        max_value_bytes: Budget of one value, in bytes of UTF-8.
        store: Keeps what is beyond the budget.
    """

    def __init__(
        self,
        redactor: Redactor,
        *,
        capture: bool,
        max_value_bytes: int,
        store: PayloadStore | None = None,
    ) -> None:
        self.redactor = redactor
        self.store = store
        # Run names, tags and ids come again and again.
        self._known = lru_cache(maxsize=4_096)(redactor.text)
        self.capture = capture
        self.max_value_bytes = max_value_bytes

    def without_content(self) -> "ContentGate":
        """Make the gate of runs whose content is switched off."""
        return ContentGate(self.redactor, capture=False, max_value_bytes=self.max_value_bytes)

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
            return {key: text, key + TRUNCATED_SUFFIX: True, **self._whole(key, value)}
        return {key: text}

    def _whole(self, key: str, value: object) -> Attributes:
        """Say where the whole of a value that was cut is kept, else only how large it is."""
        if self.store is not None:
            kept = self.store.keep(key, value, self.redactor)
            if kept:
                return kept
        return original(key, value)

    def _quick_json(self, value: object) -> str | None:
        """Write a small, plain value as `snapshot` would, ten times faster; None for the others."""
        if type(value) is str:
            if len(value) > _QUICK_CHARS or not value.isascii():
                return None
            return orjson.dumps(self._known(value)).decode()
        if not self.redactor.reads_json_text:
            return None
        encoded = quick_json(value, self.max_value_bytes)
        if encoded is None or len(encoded) > self.max_value_bytes:
            return None
        return self.redactor.text(encoded.decode())

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
