"""The one choke point: whatever can carry content becomes an attribute value here, or nowhere.

Stands between the facts of a run and its span: snapshot, then redaction, then JSON text.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson
from opentelemetry.util.types import AttributeValue

from otelchain.attributes import TRUNCATED_SUFFIX
from otelchain.original import measured, original
from otelchain.payload_store import PayloadStore
from otelchain.redaction import Redactor
from otelchain.redaction.places import content_place, fact_place, foreign_place
from otelchain.redaction.scrubber import Scrubber
from otelchain.snapshot import Snapshot, quick_json, snapshot

Attributes = dict[str, AttributeValue]

# Longest name or id: what is longer is cut, but not before the redactor has seen it.
_MAX_FACT_BYTES = 4_096
# Texts up to here are names or like names: 4,096 of them are remembered with what the redactor
# makes of them, since they come again and again.
_QUICK_CHARS = 256


def text_length(attributes: Attributes) -> int:
    """Count the characters of the texts in attributes, and in lists of them."""
    length = 0
    for value in attributes.values():
        if type(value) is str:
            length += len(value)
        elif type(value) is list:
            length += sum(len(each) for each in value if type(each) is str)
    return length


def name_texts(attributes: Attributes, store: PayloadStore | None = None) -> Attributes:
    """Replace the long texts in attributes by their size and hash, as a JSON text.

    What is replaced has passed the redactor, so a store keeps it as it is.
    """
    named: Attributes = {}
    for key, value in attributes.items():
        if type(value) is list and text_length({key: value}) > _QUICK_CHARS:
            value = [_named(orjson.dumps(value))]
            named[key + TRUNCATED_SUFFIX] = True
        elif type(value) is str and len(value) > _QUICK_CHARS:
            value = f'"{_named(value.encode(errors="replace"))}"'
            named[key + TRUNCATED_SUFFIX] = True
            if store is not None:
                named.update(store.keep_redacted(key, attributes[key]))  # type: ignore[arg-type]
        named[key] = value
    return named


def _named(encoded: bytes) -> str:
    return f"[over the span's budget: {len(encoded)} bytes, sha256 {sha256(encoded).hexdigest()}]"


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
        self._everywhere = redactor.everywhere
        self.store = store
        self.start_facts: dict[bytes, Attributes] = {}
        """Facts of starts that were seen lately; see `otelchain.run_facts`."""
        self.capture = capture
        self.max_value_bytes = max_value_bytes

    def _of_content(self, key: str) -> Scrubber:
        return self._everywhere or self.redactor.at(content_place(key))

    def _of_fact(self, key: str) -> Scrubber:
        return self._everywhere or self.redactor.at(fact_place(key))

    def shows(self, key: str) -> bool:
        """Tell whether anything of the content of an attribute is recorded but its size."""
        return self.capture and not self._of_content(key).withholds

    def without_content(self) -> "ContentGate":
        """Make the gate of runs whose content is switched off."""
        return ContentGate(self.redactor, capture=False, max_value_bytes=self.max_value_bytes)

    def json(self, key: str, value: object) -> Attributes:
        """Content as JSON text under one key, with a mark when the budget cut it."""
        if not self.capture:
            return {}
        return self._json(key, value, self._of_content(key))

    def fact_json(self, key: str, value: object, *, content: bool = False) -> Attributes:
        """Like `json`, for values that are recorded also with content capture off.

        Args:
            key: The attribute's.
            value: Anything.
            content: Whether there is content in it after all.
        """
        redactor = self._of_content(key) if content else self._of_fact(key)
        return self._json(key, value, redactor)

    def _json(self, key: str, value: object, redactor: Scrubber) -> Attributes:
        quick = self._quick_json(value, redactor)
        if quick is not None:
            return {key: quick}
        taken = self._redacted(value, redactor)
        text = orjson.dumps(taken.tree).decode()
        if taken.truncated:
            return {key: text, key + TRUNCATED_SUFFIX: True, **self._whole(key, value, redactor)}
        return {key: text}

    def _whole(self, key: str, value: object, redactor: Scrubber) -> Attributes:
        """Say where the whole of a value that was cut is kept, else only how large it is."""
        if redactor.withholds:
            return {}
        if self.store is not None:
            kept = self.store.keep(key, value, redactor)
            if kept:
                return kept
        return original(key, value)

    def _quick_json(self, value: object, redactor: Scrubber) -> str | None:
        """Write a small, plain value as `snapshot` would, ten times faster; None for the others."""
        if isinstance(value, str):  # langchain-core's texts of messages are of a subclass
            if len(value) > _QUICK_CHARS or not value.isascii():
                return None
            return orjson.dumps(redactor.known_text(str.__str__(value))).decode()
        if not redactor.reads_json_text:
            return None
        encoded = quick_json(value, self.max_value_bytes)
        if encoded is None or len(encoded) > self.max_value_bytes:
            return None
        return redactor.known_json(encoded)

    def text(self, key: str, value: str) -> Attributes:
        """Content that is a plain text."""
        if not self.capture:
            return {}
        return {key: self._text(value, self._of_content(key))}

    def texts(self, key: str, values: Sequence[object]) -> Attributes:
        """Content that is a list of texts."""
        if not self.capture:
            return {}
        redactor = self._of_content(key)
        if self._everywhere is not None:
            return {key: [self._text(str(value), redactor) for value in values]}
        # A path may name places in the list.
        redacted = self._redacted([str(value) for value in values], redactor).tree
        return {key: redacted if isinstance(redacted, list) else [redacted]}

    def fact(self, key: str, value: object) -> str:
        """Redact, then cut a text that the user chose but that is no content: a name, an id.

        What is no text is written as JSON, also what no ``str()`` takes.
        """
        redactor = self._of_fact(key)
        if type(value) is str and len(value) <= _QUICK_CHARS and value.isascii():
            return redactor.known_text(value)
        tree = snapshot(value, _MAX_FACT_BYTES, redactor.beginning).tree
        return redactor.text(tree if isinstance(tree, str) else orjson.dumps(tree).decode())

    def again(self, key: str, text: str) -> str:
        """Let a text that has passed in one place pass in another, with the rules there."""
        if self._everywhere is not None:
            return text
        redactor = self.redactor.at(foreign_place(key))
        return redactor.known_text(text) if len(text) <= _QUICK_CHARS else redactor.text(text)

    def _text(self, value: str, redactor: Scrubber) -> str:
        if len(value) <= _QUICK_CHARS and value.isascii():
            return redactor.known_text(value)
        return redactor.text(str(self._taken(value, redactor).tree))

    def _redacted(self, value: object, redactor: Scrubber) -> Snapshot:
        taken = self._taken(value, redactor)
        if taken.truncated and redactor.withholds:  # what was taken does not tell its size
            encoded, estimate = measured(value)
            whole = None if encoded is None else encoded.decode()
            return Snapshot(redactor.withheld(whole, estimate), truncated=True)
        return Snapshot(redactor.value(taken.tree), taken.truncated)

    def _taken(self, value: object, redactor: Scrubber) -> Snapshot:
        if redactor.withholds and type(value) is str:
            return Snapshot(value, truncated=False)  # for its whole size
        return snapshot(value, self.max_value_bytes, redactor.beginning)

    def facts(self, values: Mapping[str, Any]) -> Attributes:
        """Redact attributes that the user chose: names, ids and lists of them."""
        return {key: self._fact_of_any_type(key, value) for key, value in values.items()}

    def _fact_of_any_type(self, key: str, value: Any) -> AttributeValue:
        if type(value) is str:
            return self.fact(key, value)
        if isinstance(value, (int, float)):  # and bool
            return value
        if type(value) is list and all(type(each) is str for each in value):
            return [self.fact(key, each) for each in value]
        return self.fact(key, value)
