"""Dialect: a table of attribute names, read the same way for every instrumentation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from otelchain_collector.dialects.flattened import unflatten
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.values import Reader, as_json, json_of_bytes

Columns = Mapping[str, tuple[Reader, tuple[str, ...]]]
"""Column → (reader, attribute names); the first name whose value the reader accepts wins."""

Found = dict[str, Any]
"""Column → value, for the columns that the span says something about."""


def _nothing(_span: SpanFacts, _found: Found) -> None:
    """Complete nothing: the table says it all."""


@dataclass(frozen=True)
class Dialect:
    """How one instrumentation writes a run into a span.

    Args:
        name: Value of the column ``dialect``.
        columns: Where each column's value is.
        inputs: Attributes that hold the whole input; the first that is there is named.
        outputs: The same for the output.
        inputs_flattened: Prefixes of inputs spread over ``PREFIX.0.role``-like attributes, put
            together when none of ``inputs`` is there.
        outputs_flattened: The same for outputs.
        complete: Adds what no table can say.
    """

    name: str
    columns: Columns
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    inputs_flattened: tuple[str, ...] = ()
    outputs_flattened: tuple[str, ...] = ()
    complete: Callable[[SpanFacts, Found], None] = field(default=_nothing)

    def read(self, span: SpanFacts) -> Found:
        """Return the columns the span says something about; never raises."""
        attributes = span.attributes
        found: Found = {"dialect": self.name}
        # A span has fewer attributes than a table has columns: 4 µs this way round, 8 the other.
        single = self._single
        for name, value in attributes.items():
            rule = single.get(name)
            if rule is not None:
                column, reader = rule
                read = reader(value)
                if read is not None:
                    found[column] = read
        for column, reader, names in self._several:
            for name in names:
                if name in attributes:
                    read = reader(attributes[name])
                    if read is not None:
                        found[column] = read
                        break
        _payload("inputs", attributes, self.inputs, self.inputs_flattened, found)
        _payload("outputs", attributes, self.outputs, self.outputs_flattened, found)
        self.complete(span, found)
        return found

    @cached_property
    def _single(self) -> dict[str, tuple[str, Reader]]:
        """Attribute name → column, for the columns with one name."""
        return {
            names[0]: (column, reader)
            for column, (reader, names) in self.columns.items()
            if len(names) == 1
        }

    @cached_property
    def _several(self) -> list[tuple[str, Reader, tuple[str, ...]]]:
        return [
            (column, reader, names)
            for column, (reader, names) in self.columns.items()
            if len(names) > 1
        ]


def _payload(
    side: str,
    attributes: Mapping[str, Any],
    names: tuple[str, ...],
    prefixes: tuple[str, ...],
    found: Found,
) -> None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, bytes):  # LangSmith 0.4 writes its JSON so
            found[f"{side}_built"] = json_of_bytes(value)
            return
        if value not in (None, ""):
            found[f"{side}_attribute"] = name
            return
    for prefix in prefixes:
        items = unflatten(attributes, prefix)
        if items:
            found[f"{side}_built"] = as_json(items)
            return
