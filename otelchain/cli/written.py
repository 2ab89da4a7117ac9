"""An answer → a file, which is there whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from otelchain.errors import OtelchainError
from otelchain.reading.frames import table
from otelchain_collector.answers import Answer, ArrowAnswer, Column
from otelchain_collector.drafts import draft_of
from otelchain_collector.json_values import json_rows


class OutputError(OtelchainError):
    """A file cannot be written."""


def write_text(text: str, file: Path) -> None:
    """Write text as UTF-8.

    Raises:
        OutputError: The file cannot be written.
    """
    _write(file, lambda stream: stream.write(text.encode()))


def write_parquet(found: ArrowAnswer, file: Path) -> Answer:
    """Write an answer with its types as Parquet, and return it with JSON values.

    Raises:
        OutputError: The file cannot be written.
    """
    rows = table(found)
    _write(file, lambda stream: pq.write_table(rows, stream))
    columns = tuple(Column(field.name, _kind(field.type)) for field in rows.schema)
    return Answer(columns, list(json_rows(rows.to_batches())), found.has_more)


def _kind(kind: pa.DataType) -> str:
    """Return DuckDB's name for a type as far as it matters whether it is a number."""
    if pa.types.is_integer(kind):
        return "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    return "DECIMAL" if pa.types.is_decimal(kind) else str(kind).upper()


def _write(file: Path, write: Callable[[IO[bytes]], Any]) -> None:
    # A pipe or a device, which nothing can take the place of, is written to as it is.
    is_special = file.exists() and not file.is_file()
    try:
        # Beside the file, since a name can be taken over only on the same disk.
        part = file if is_special else draft_of(file)
        try:
            with part.open("wb") as stream:
                write(stream)
            part.replace(file)
        except BaseException:
            if part != file:
                part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"cannot write {str(file)!r}: {error.strerror or error}") from error
