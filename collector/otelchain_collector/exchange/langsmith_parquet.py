"""LangSmith's bulk exports (Parquet, a row per run) → runs as the other shapes have them.

Columns: docs.langchain.com/langsmith/data-export, "Exportable fields". What is an object or a list
in JSON is a text there; times are timestamps, without a zone (v1) or with UTC (v2_beta).
"""

import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from otelchain_collector.exchange.langsmith_times import time_text
from otelchain_collector.exchange.sources import Document, ImportFailed

# Rows hold whole prompts: of 500 rows of 100 KB, 50 MB are in memory.
_BATCH_ROWS = 500
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_JSON = frozenset(
    {
        *("inputs", "outputs", "extra", "events", "serialized", "metadata"),
        *("tags", "parent_run_ids", "child_run_ids", "direct_child_run_ids"),
        *("feedback_stats", "feedbacks", "prompt_token_details", "completion_token_details"),
        *("inputs_s3_urls", "outputs_s3_urls"),
    }
)
_OF_LANGSMITH = {"run_type", "dotted_order", "parent_run_id", "parent_run_ids", "session_id"}
_WITHOUT_ID = (
    "{path} lacks the columns {missing}; export it with them (export_fields), or with all fields"
)

_Convert = Callable[[Any], Any]


def documents_in_parquet(
    name: str, path: Path, advance: Callable[[int], None]
) -> Iterator[Document]:
    """Yield the runs of a file, each with its row from 1; ``advance`` is told bytes.

    Raises:
        ImportFailed: It is no bulk export of LangSmith, or cannot be read.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check(name, set(file.schema_arrow.names))
            converts = [_convert(field) for field in file.schema_arrow]
            bytes_a_row = path.stat().st_size / max(1, file.metadata.num_rows)
            row = 0
            for batch in file.iter_batches(_BATCH_ROWS):
                for values in _rows(batch, converts):
                    row += 1
                    fields = {key: value for key, value in values.items() if value is not None}
                    yield Document(name, row, fields)
                advance(round(batch.num_rows * bytes_a_row))
    except (pa.ArrowException, OSError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ImportFailed(f"cannot read {name}: {why}") from error


def _check(path: str, columns: set[str]) -> None:
    if {"span_id", "resource_attributes"} <= columns:
        raise ImportFailed(
            f"{path} was written by 'otelchain export parquet'; use: otelchain import parquet"
        )
    if not columns & _OF_LANGSMITH:
        raise ImportFailed(f"{path} is no bulk export of LangSmith: it has other columns")
    if not columns & {"id", "run_id"}:
        raise ImportFailed(_WITHOUT_ID.format(path=path, missing="id"))
    if not columns & {"trace_id", "dotted_order"}:
        raise ImportFailed(_WITHOUT_ID.format(path=path, missing="trace_id and dotted_order"))


def _rows(batch: pa.RecordBatch, converts: list[_Convert]) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [
        [None if value is None else convert(value) for value in _values(column)]
        for column, convert in zip(batch.columns, converts, strict=True)
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: pa.Array) -> list[Any]:
    # Python's datetime has no nanoseconds.
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return list(whole.to_pylist())


def _convert(field: pa.Field) -> _Convert:
    """Return what makes a value of a column what the other shapes have there."""
    if pa.types.is_timestamp(field.type):
        return partial(_time, _NANOSECONDS[field.type.unit])
    if field.name in _JSON:
        return _parsed
    return _plain


def _time(nanoseconds: int, number: int) -> str | int:
    moment = number * nanoseconds
    # Outside the range it is told as what it is, with the row.
    return time_text(moment) if 0 <= moment < 2**63 else -1


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return _plain(value)
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # Then it is the text itself.


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return str(UUID(bytes=value)) if len(value) == 16 else value.decode(errors="replace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
