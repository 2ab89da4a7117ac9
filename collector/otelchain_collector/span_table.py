"""Rows of table ``spans`` as an Arrow table (for the store), and back."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, get_type_hints

import pyarrow as pa
import pyarrow.compute

from otelchain_collector.rows import SpanRow

#: Arrow's functions; they are made at run time, so type checkers do not know them.
pc: Any = pyarrow.compute

#: Spans on their way to the store: rows of the plain decoder, or a table with SPAN_SCHEMA.
Spans: TypeAlias = Sequence[SpanRow] | pa.Table

#: What table_of raises for a value that is not of its column's type.
ARROW_FAULTS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError)

_TYPES = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    list[str]: pa.list_(pa.string()),
}


def schema_of(row: type[NamedTuple]) -> pa.Schema:
    """Return the Arrow types of a row; INTEGER columns are 64 bits wide, and DuckDB checks them."""
    return pa.schema(
        [
            (name, next(kind for python, kind in _TYPES.items() if hint in (python, python | None)))
            for name, hint in get_type_hints(row).items()
        ]
    )


SPAN_SCHEMA = schema_of(SpanRow)


def table_of(rows: Sequence[tuple[Any, ...]], columns: pa.Schema) -> pa.Table:
    """Make a table of rows.

    Raises:
        One of ARROW_FAULTS: A value is not of its column's type.
    """
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(values, columns, strict=True)],
        schema=columns,
    )


def span_table(spans: Spans) -> pa.Table:
    """Return spans as a table; raises as table_of does."""
    return spans if isinstance(spans, pa.Table) else table_of(spans, SPAN_SCHEMA)


def rows_of(rows: Any) -> list[Any]:
    """Return spans as SpanRow; other rows stay as they are."""
    if isinstance(rows, pa.Table):
        return list(map(SpanRow._make, zip(*(c.to_pylist() for c in rows.columns), strict=True)))
    return list(rows)


def joined(parts: Sequence[Any]) -> Any:
    """Return the rows of several requests in their order; a table when they are one."""
    parts = [part for part in parts if len(part)]
    if any(isinstance(part, pa.Table) for part in parts):
        # If Arrow refuses a row, the store will, and whoever gave it the rows finds out which.
        with contextlib.suppress(*ARROW_FAULTS):
            return pa.concat_tables(map(span_table, parts))
    return [row for part in parts for row in rows_of(part)]
