"""HUGEINT in Arrow: DuckDB says decimal128(38, 0), also of numbers that have 39 digits."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

_SAID: Final = pa.decimal128(38, 0)
_EXACT: Final = pa.decimal256(39, 0)


def exact(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return an answer in which each number fits the type of its column.

    A column keeps the type that everybody reads unless a number in it is too long for it.
    """
    places = [place for place, field in enumerate(schema) if _wider(field.type) != field.type]
    if not places:
        return schema, iter(batches)
    # A stream begins with its types: all of it has to be there before.
    held = list(batches)
    for place in places:
        if any(not _fits(batch.column(place)) for batch in held):
            field = schema.field(place)
            schema = schema.set(place, field.with_type(_wider(field.type)))
    return schema, _cast(held, schema)


def _cast(held: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    held.reverse()
    while held:
        yield held.pop().cast(schema)


def _fits(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _wider(kind: Any) -> Any:
    if kind == _SAID:
        return _EXACT
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind[place].with_type(_wider(kind[place].type)) for place in range(len(kind))]
        )
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_wider(kind.key_type)),
            kind.item_field.with_type(_wider(kind.item_type)),
        )
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_wider(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_wider(kind.value_type)))
    return kind
