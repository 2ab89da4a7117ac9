"""The one choke point: whatever can carry content becomes an attribute value here, or nowhere.

Stands between the facts of a run and its span: snapshot, then redaction, then JSON text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from opentelemetry.util.types import AttributeValue

from otelchain.attributes import TRUNCATED_SUFFIX
from otelchain.redaction import Redactor
from otelchain.snapshot import snapshot

Attributes = dict[str, AttributeValue]


class ContentGate:
    """Turn values of the application into attributes without secrets, or into nothing.

    Args:
        redactor: The policy every text passes.
        capture: False drops content; what is not content still passes the redactor.
        max_value_bytes: Budget of one value, in bytes of UTF-8.
    """

    def __init__(self, redactor: Redactor, *, capture: bool, max_value_bytes: int) -> None:
        self.redactor = redactor
        self.capture = capture
        self.max_value_bytes = max_value_bytes

    def json(self, key: str, value: object) -> Attributes:
        """Content as JSON text under one key, with a mark when the budget cut it."""
        if not self.capture:
            return {}
        return self.fact_json(key, value)

    def fact_json(self, key: str, value: object) -> Attributes:
        """Like `json`, for values that are recorded also with content capture off."""
        taken = snapshot(value, self.max_value_bytes, self.redactor.text)
        text = orjson.dumps(self.redactor.value(taken.tree)).decode()
        if taken.truncated:
            return {key: text, key + TRUNCATED_SUFFIX: True}
        return {key: text}

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
        taken = snapshot(value, self.max_value_bytes, self.redactor.text)
        return self.redactor.text(str(taken.tree))

    def facts(self, values: Mapping[str, Any]) -> Attributes:
        """Redact attributes that the user chose (names, ids), all in one pass."""
        tree = snapshot(values, self.max_value_bytes, self.redactor.text).tree
        redacted: Attributes = self.redactor.value(tree)
        return redacted
