"""Redact rows that are stored already (for ``otelchain redact scan`` and ``apply``).

A row has passed the decoder, so its attributes are JSON objects, and what the normaliser read out
of them stands in columns of its own. Every column of text of every table is looked at, also of
tables that this module has never heard of.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from otelchain.redaction import Redactor
from otelchain.redaction.places import OTHER, Place, fact_place, foreign_place
from otelchain.redaction.tally import Tally
from otelchain.redaction.trees import texts_and_names
from otelchain_collector.redaction.messages import Removed, resource_place, scope_place
from otelchain_collector.redaction.trees import BytesText

#: Types of columns that may hold text, as DuckDB names them.
TEXT_TYPES = ("VARCHAR", "JSON", "VARCHAR[]")
# Hex digits that the decoder wrote. What was rejected is kept as it arrived.
_IDS = {"trace_id", "span_id", "parent_span_id", "record_id"}
_REJECTED = "rejected_records"
# Of our own words.
_SKIPPED = {
    ("schema_migrations", "name"),
    ("redaction_findings", "rule"),
    ("redaction_findings", "signal"),
}

_PlaceOf = Callable[[str], Place]

_MAPS: dict[str, _PlaceOf] = {
    "attributes": foreign_place,
    "filtered_attributes": foreign_place,
    "scope_attributes": scope_place,
    "resource_attributes": resource_place,
}
_LISTS = {"events", "links", "exemplars", "resource_entity_refs"}
_PLACES = {
    "name": fact_place("span.name"),
    "status_message": Place("errors", "status.message"),
    "error": Place("errors", "error"),
    "tags": Place("tags", "otelchain.tags"),
    "metadata": Place("metadata", "otelchain.metadata"),
    "inputs_built": Place("inputs", "otelchain.input"),
    "outputs_built": Place("outputs", "otelchain.output"),
    "body": Place(OTHER, "log.body"),
}


class StoredColumn(NamedTuple):
    """A column that may hold text; ``type`` is one of TEXT_TYPES."""

    table: str
    name: str
    type: str


class Change(NamedTuple):
    """What a column of a row is to be, and why."""

    value: Any
    removed: list[Removed]


def holds_content(column: StoredColumn) -> bool:
    """Tell whether a column is looked at."""
    if column.type not in TEXT_TYPES or (column.table, column.name) in _SKIPPED:
        return False
    return column.name not in _IDS or column.table == _REJECTED


class StoredRedaction:
    """Applies a policy to rows; for one thread.

    Args:
        redactor: The policy.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._look = redactor.first_look
        # Resources and scopes are the same in every row.
        self._known = lru_cache(maxsize=1024)(self._change)

    def changes(self, columns: Sequence[StoredColumn], row: Sequence[Any]) -> dict[int, Change]:
        """Return what has to change in a row, by the position of the column; none when clean."""
        changes: dict[int, Change] = {}
        for position, (column, value) in enumerate(zip(columns, row, strict=True)):
            if value is None or value == "" or value == "{}" or value == "[]":
                continue
            given = tuple(value) if isinstance(value, list) else value
            is_around = column.name.startswith(("resource_", "scope_", "service_"))
            change = (self._known if is_around else self._change)(column, given)
            if change is not None:
                changes[position] = change
        return changes

    def _change(self, column: StoredColumn, value: Any) -> Change | None:
        tree: Any = list(value) if column.type == "VARCHAR[]" else value
        if column.type == "JSON":
            tree = _decoded(orjson.loads(value))
        if self._is_clean(tree):
            return None
        redacted, removed = self._redacted(column, tree)
        if not removed:
            return None
        if column.type == "JSON":
            redacted = orjson.dumps(_encoded(redacted)).decode()
        elif column.type == "VARCHAR[]" and not isinstance(redacted, list):
            redacted = [redacted]
        return Change(redacted, removed)

    def _is_clean(self, tree: Any) -> bool:
        if not self._look.tells:
            return False
        try:
            texts, names = texts_and_names(tree)
        except TypeError:  # bytes
            return False
        return not any(map(self._look.is_named, names)) and self._look.is_clean([*texts, *names])

    def _redacted(self, column: StoredColumn, tree: Any) -> tuple[Any, list[Removed]]:
        is_metric = column.table == "metric_points"
        if isinstance(tree, dict) and (
            column.name in _MAPS or (is_metric and column.name == "metadata")
        ):
            return self._attributes(tree, _MAPS.get(column.name, foreign_place))
        if isinstance(tree, list) and column.name in _LISTS:
            return self._entries(tree, column.name.rstrip("s"))
        tally = Tally()
        place = _PLACES.get(column.name) or fact_place(column.name)
        redacted = self._redactor.at(place).attribute(place.key, tree, tally)
        value = "" if redacted is None else redacted.value
        return value, [Removed("", tally)] if tally else []

    def _attributes(self, tree: dict[str, Any], place_of: _PlaceOf) -> tuple[Any, list[Removed]]:
        kept: dict[str, Any] = {}
        removed: list[Removed] = []
        for key, value in tree.items():
            tally = Tally()
            redacted = self._redactor.at(place_of(key)).attribute(key, value, tally)
            new_key = key if redacted is None else redacted.key
            if redacted is not None:
                while new_key in kept or (new_key != key and new_key in tree):
                    new_key += "#2"
                kept[new_key] = redacted.value
            if tally:
                removed.append(Removed(new_key, tally))
        return kept, removed

    def _entries(self, entries: list[Any], kind: str) -> tuple[Any, list[Removed]]:
        """Redact a list of objects: events, links, exemplars."""
        kept: list[Any] = []
        removed: list[Removed] = []
        for entry in entries:
            new: dict[str, Any] = {}
            for name, value in entry.items():
                if name in _MAPS and isinstance(value, dict):
                    new[name], found = self._attributes(value, _MAPS[name])
                    removed += found
                elif name in _IDS:
                    new[name] = value
                else:
                    place = fact_place(f"{kind}.{name}")
                    tally = Tally()
                    new[name] = self._redactor.at(place).value(value, tally)
                    removed += [Removed(place.key, tally)] if tally else []
            kept.append(new)
        return kept, removed


def _decoded(tree: Any) -> Any:
    """Put what bytes say in the place of their Base64; anyvalue.py says how they are written."""
    if isinstance(tree, list):
        return [_decoded(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.keys() == {"@bytes"} and isinstance(tree["@bytes"], str):
        try:
            return BytesText(base64.b64decode(tree["@bytes"], validate=True))
        except binascii.Error:
            return tree
    return {name: _decoded(item) for name, item in tree.items()}


def _encoded(tree: Any) -> Any:
    if isinstance(tree, BytesText):
        return {"@bytes": base64.b64encode(tree.content).decode()}
    if isinstance(tree, list):
        return [_encoded(item) for item in tree]
    if isinstance(tree, dict):
        return {name: _encoded(item) for name, item in tree.items()}
    # A lone surrogate may come out of the escapes of JSON.
    return tree.encode(errors="replace").decode() if isinstance(tree, str) else tree


def rules_of(change: Change) -> Iterator[tuple[str, str, bool, int]]:
    """Yield attribute, rule, whether it failed, and how often."""
    for attribute, tally in change.removed:
        for rule, count in tally.findings.items():
            yield attribute, rule, False, count
        for rule, count in tally.failures.items():
            yield attribute, rule, True, count
