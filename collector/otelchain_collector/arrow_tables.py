"""Rows as Arrow tables with the types of the table that they go into, or why they are not."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from otelchain_collector.database import first_line
from otelchain_collector.errors import RowsRefusedError
from otelchain_collector.span_table import ARROW_FAULTS, table_of

#: Arrow's types of the types that our tables have.
SQL_TYPES = {
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "UBIGINT": pa.uint64(),
    "VARCHAR[]": pa.list_(pa.string()),
    "DOUBLE[]": pa.list_(pa.float64()),
    "UBIGINT[]": pa.list_(pa.uint64()),
}

#: What a row can be at fault for; anything else is the store's trouble and may pass.
ROW_FAULTS = (
    duckdb.DataError,
    duckdb.IntegrityError,
    duckdb.InvalidInputException,
    *ARROW_FAULTS,
)


def arrow_schema(
    connection: duckdb.DuckDBPyConnection, table: str, fields: Sequence[str]
) -> pa.Schema:
    """Return the types of the columns, in the order of the rows, which are inserted by name."""
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    types = {column[0]: SQL_TYPES[column[1]] for column in described}
    return pa.schema([(field, types[field]) for field in fields])


def arrow_table(rows: "Sequence[tuple[Any, ...]] | pa.Table", columns: pa.Schema) -> pa.Table:
    """Return rows as a table.

    Raises:
        RowsRefusedError: A value is not of its column's type.
    """
    if isinstance(rows, pa.Table):
        return rows
    try:
        return table_of(rows, columns)
    except ARROW_FAULTS as error:
        raise RowsRefusedError(without_values(error)) from error


@contextlib.contextmanager
def registered(connection: duckdb.DuckDBPyConnection, **tables: pa.Table) -> Iterator[None]:
    """Let the statements in the block see tables by their names."""
    try:
        for name, table in tables.items():
            connection.register(name, table)
        yield
    finally:
        with contextlib.suppress(duckdb.Error):  # The database is gone.
            for name in tables:
                connection.unregister(name)


def without_values(error: Exception) -> str:
    """Name the fault without the value at fault, which may be a user's text."""
    text = re.split(r"\"|'|\bInput:|with value", first_line(error))[0].strip(" .,:")
    return f"{type(error).__name__}: {text}"
