"""An answer → a Parquet file with its types; an Arrow answer → JSON values."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from otelchain.cli.written import write_file
from otelchain.reading.frames import table
from otelchain_collector.answer import Answer, ArrowAnswer, Column
from otelchain_collector.json_values import json_rows

_TYPES: Final = {
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
}


def write_parquet(found: Answer | ArrowAnswer, file: Path) -> None:
    """Write an answer with its types as Parquet.

    Raises:
        OutputError: The file cannot be written.
    """
    rows = _typed(found) if isinstance(found, Answer) else table(found)
    write_file(file, lambda stream: pq.write_table(rows, stream))


def json_answer(found: Answer | ArrowAnswer, *, for_people: bool = False) -> Answer:
    """Return the answer with JSON values; with ``for_people`` NaN and infinities too."""
    if isinstance(found, Answer):
        return found
    rows = table(found)
    columns = tuple(Column(field.name, _kind(field.type)) for field in rows.schema)
    return Answer(
        columns, list(json_rows(rows.to_batches(), for_people=for_people)), found.has_more
    )


def _typed(answer: Answer) -> pa.Table:
    """Return rows that no database has given, by the types that they say they have."""
    return pa.table(
        {
            column.name: pa.array((row[place] for row in answer.rows), _TYPES[column.type])
            for place, column in enumerate(answer.columns)
        }
    )


def _kind(kind: pa.DataType) -> str:
    """Return DuckDB's name for a type as far as it matters whether it is a number."""
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_integer(kind):
        return "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    return "DECIMAL" if pa.types.is_decimal(kind) else str(kind).upper()
