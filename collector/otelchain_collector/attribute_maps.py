"""Attribute lists as Arrow arrays (from otlp_arrow) → Python dicts, equal to anyvalue's."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from otelchain_collector.anyvalue import NonFinite, array_of, kvlist_of
from otelchain_collector.otlp_arrow import NotTakenError, present
from otelchain_collector.span_table import pc

# A list takes up to three messages on the wire, and protobuf refuses more than 100 in one another;
# what stays below this is read by both decoders.
_MAX_DEPTH = 24


class AttributeLists(NamedTuple):
    """The attribute lists of many owners (spans, events, …) one after the other.

    Owner ``i`` has ``values[starts[i]:starts[i + 1]]`` under the names ``keys[i]``, which is one
    tuple for all owners that have the same names in the same order.
    """

    keys: list[tuple[str, ...]]
    values: list[Any]
    starts: list[int]

    def maps(self) -> list[dict[str, Any]]:
        """Return the attributes of each owner; of two equal keys the last wins."""
        values = self.values
        return [
            dict(zip(keys, values[first:last], strict=True))
            for keys, (first, last) in zip(self.keys, pairwise(self.starts), strict=True)
        ]

    def column(self, key: str, owners: Sequence[int]) -> list[Any]:
        """Return the values under a key that all these owners have; all have the same keys."""
        keys = self.keys[owners[0]]
        place = len(keys) - 1 - keys[::-1].index(key)
        values, starts = self.values, self.starts
        return [values[starts[owner] + place] for owner in owners]


def attribute_lists(lists: pa.ListArray) -> AttributeLists:
    """Read a list array of KeyValue.

    Raises:
        NotTakenError: Something only the plain decoder can read.
    """
    key_values = lists.values
    offsets = np.from_dlpack(lists.offsets)
    names = key_values.field("key").dictionary_encode()
    return AttributeLists(
        _keys(names.dictionary.to_pylist(), np.from_dlpack(names.indices), offsets),
        _values(key_values.field("value")),
        offsets.tolist(),
    )


def _keys(names: list[str], indices: Any, offsets: Any) -> list[tuple[str, ...]]:
    # Spans of one kind have the same keys: compared as bytes, put together once.
    text = indices.astype(np.int32, copy=False).tobytes()
    bounds = (offsets * 4).tolist()
    known: dict[bytes, tuple[str, ...]] = {}
    keys = []
    for first, last in pairwise(bounds):
        signature = text[first:last]
        found = known.get(signature)
        if found is None:
            numbers = np.frombuffer(signature, np.int32).tolist()
            found = known[signature] = tuple(names[number] for number in numbers)
        keys.append(found)
    return keys


def _values(values: pa.StructArray) -> list[Any]:
    if present(values.field("string_value_strindex")):
        raise NotTakenError("an index into a string table")
    found: list[Any] = values.field("string_value").to_pylist()
    for name, read in _KINDS.items():
        for place, value in _entries(values.field(name)):
            if found[place] is not None:
                raise NotTakenError("a value of two kinds")
            found[place] = read(value)
    return found


def _entries(column: pa.Array) -> Iterator[tuple[int, Any]]:
    """Yield the values that are there with their places."""
    if isinstance(column, pa.ListArray):
        there = pc.greater(column.value_lengths(), 0)
    elif present(column):
        there = column.is_valid()
    else:
        return iter(())
    places = pc.indices_nonzero(there).to_pylist()
    return zip(places, column.take(places).to_pylist() if places else (), strict=True)


def _same(value: Any) -> Any:
    return value


def _double(number: float) -> float:
    return number if math.isfinite(number) else NonFinite(number)


def _nested(message: type[ArrayValue | KeyValueList], read: Callable[[Any], Any]) -> Any:
    def value(chunks: Sequence[bytes]) -> Any:
        if len(chunks) > 1:
            raise NotTakenError("a list in several pieces")
        try:
            found = read(message.FromString(chunks[0]))
        except DecodeError as error:
            raise NotTakenError("a list that is broken") from error
        _check_depth(found)
        return found

    return value


def _check_depth(tree: Any) -> None:
    level = [tree]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, (list, dict))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise NotTakenError("deeply nested lists")


_KINDS: dict[str, Callable[[Any], Any]] = {
    "bool_value": _same,
    "int_value": _same,
    "double_value": _double,
    "bytes_value": _same,
    "array_value": _nested(ArrayValue, array_of),
    "kvlist_value": _nested(KeyValueList, kvlist_of),
}
