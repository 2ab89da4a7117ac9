"""An Arrow answer → a pandas DataFrame: nanoseconds stay, whole numbers stay whole.

Times become ``datetime64[ns, UTC]``, whole numbers and booleans pandas' nullable types, lists and
objects Python's; NULL is pandas' missing value.
"""

import json
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from otelchain_collector.answer import ArrowAnswer
from otelchain_collector.json_values import json_values

#: Columns that hold JSON as text, decoded on request.
JSON_COLUMNS: Final = frozenset(
    {
        "attributes",
        "events",
        "inputs",
        "links",
        "metadata",
        "outputs",
        "resource_attributes",
        "scope_attributes",
    }
)
_NULLABLE: Final = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}
# Of a column without a value pandas would make another type than of one with texts.
_TEXT: Final = pd.Series(["text"]).dtype


def table(answer: ArrowAnswer) -> pa.Table:
    """Return the rows as an Arrow table."""
    with pa.ipc.open_stream(answer.stream) as reader:
        return reader.read_all()


def frame(rows: pa.Table, *, decode_json: bool) -> pd.DataFrame:
    """Return the rows as a DataFrame; columns of the same name stay apart.

    Args:
        rows: The rows.
        decode_json: Decode the columns `JSON_COLUMNS`; text that is not JSON stays text.
    """
    columns = {}
    for place, name in enumerate(rows.column_names):
        column = rows.column(place)
        decodes = decode_json and name in JSON_COLUMNS and pa.types.is_string(column.type)
        columns[place] = _decoded(column) if decodes else _series(column)
    found: pd.DataFrame = pd.DataFrame(columns, index=pd.RangeIndex(rows.num_rows))
    found.columns = pd.Index(rows.column_names)
    return found


def _series(column: pa.ChunkedArray) -> pd.Series:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _times(column)
    if pa.types.is_nested(kind):
        return _objects([value for chunk in column.chunks for value in json_values(chunk)])
    if pa.types.is_decimal(kind) and kind.scale == 0:
        column = _whole(column)
    series: pd.Series = column.to_pandas(types_mapper=_NULLABLE.get)
    return series.astype(_TEXT) if pa.types.is_string(kind) else series


def _times(column: pa.ChunkedArray) -> pd.Series:
    try:
        column = column.cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:  # outside the years 1677 to 2262
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    series: pd.Series = column.to_pandas()
    return series


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return DuckDB's 128-bit sums of whole numbers in 64 bits, where they fit."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def _decoded(column: pa.ChunkedArray) -> pd.Series:
    return _objects([_from_json(text) for text in column.to_pylist()])


def _from_json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _objects(values: list[Any]) -> pd.Series:
    # Filled one by one: pandas would make numbers of a list of numbers, and NaN of their None.
    series = pd.Series([None] * len(values), dtype=object)
    for place, value in enumerate(values):
        series.iat[place] = value
    return series
