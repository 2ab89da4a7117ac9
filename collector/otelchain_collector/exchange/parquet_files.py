"""Parquet: tables of the store as files, and such files → requests."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otelchain_collector.arrow_tables import SQL_TYPES
from otelchain_collector.exchange.delivery import Request
from otelchain_collector.exchange.otlp_json_files import parts
from otelchain_collector.exchange.pages import RELATIONS, Ask, ExportError, Filters, pages
from otelchain_collector.exchange.requests import request
from otelchain_collector.exchange.sources import ImportFailed
from otelchain_collector.exchange.targets import target
from otelchain_collector.rows import LogRow, MetricPointRow, SpanRow
from otelchain_collector.signals import LOGS, METRICS, TRACES, Signal

TABLES = {TRACES.name: "spans", LOGS.name: "logs", METRICS.name: "metric_points"}
_ROWS: dict[str, Any] = {TRACES.name: SpanRow, LOGS.name: LogRow, METRICS.name: MetricPointRow}
# Columns that no other table has, by which a file is recognised.
_MARKS = (
    (TRACES, {"trace_id", "span_id", "start_time_unix_nano", "links"}),
    (LOGS, {"record_time_unix_nano", "severity_number", "body"}),
    (METRICS, {"bucket_counts", "quantiles", "exemplars"}),
)
_TYPES = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{table}'"
_BATCH_ROWS = 500


def write_parquet(
    signals: Iterable[Signal],
    ask: Ask,
    filters: Filters,
    folder: Path,
    advance: Callable[[int], None],
) -> None:
    """Write one file per table into a folder, which is created when it does not exist.

    Runs that have not ended are in ``spans.parquet``, with their status ``pending``.

    Raises:
        ExportError: The folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"cannot create the folder {folder}: {error.strerror}") from error
    for signal in signals:
        schema = _schema(ask, signal)
        with (
            target(folder / f"{TABLES[signal.name]}.parquet") as stream,
            pq.ParquetWriter(stream, schema, compression="zstd") as writer,
        ):
            for rows in pages(ask, RELATIONS[signal.name], filters):
                writer.write_table(_table(rows, schema))
                advance(len(rows))


def _schema(ask: Ask, signal: Signal) -> pa.Schema:
    types = ask(_TYPES.format(table=TABLES[signal.name]))
    found = {row["column_name"]: SQL_TYPES[row["data_type"]] for row in types}
    return pa.schema([(name, found[name]) for name in _ROWS[signal.name]._fields])


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(
        [
            pa.array([_number(row[field.name], field.type) for row in rows], field.type)
            for field in schema
        ],
        schema=schema,
    )


def _number(value: Any, kind: pa.DataType) -> Any:
    """Return doubles, which come as text, as numbers."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_list(kind) and pa.types.is_floating(kind.value_type):
        return [float(item) for item in value]
    return value


def requests_in_parquet(path: Path, advance: Callable[[int], None]) -> Iterator[Request]:
    """Yield requests that give the rows of a file; ``advance`` is told how many rows were read.

    Raises:
        ImportFailed: It is no Parquet file of ours.
    """
    try:
        with pq.ParquetFile(path) as file:
            signal = _signal(path, set(file.schema_arrow.names))
            for rows in _whole_times(file, signal):
                for part in parts(signal, rows):
                    yield Request(signal, request(signal, part), str(path), len(part))
                advance(len(rows))
    except (pa.ArrowException, OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ImportFailed(f"cannot read {path}: {why}") from error


def count_rows(path: Path) -> int:
    """Return how many rows a file has; 0 when it cannot be read."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return 0


def _signal(path: Path, columns: set[str]) -> Signal:
    for signal, marks in _MARKS:
        if marks <= columns:
            needed = set(_ROWS[signal.name]._fields) & _SENT[signal.name]
            if missing := sorted(needed - columns):
                raise ImportFailed(f"{path} lacks the column {missing[0]}; export it whole")
            return signal
    if {"run_type", "dotted_order"} <= columns:
        raise ImportFailed(f"{path} is a bulk export of LangSmith; use: otelchain import langsmith")
    raise ImportFailed(
        f"{path} is not a file that 'otelchain export parquet' wrote: it has the columns of none "
        "of spans, logs and metric_points"
    )


def _whole_times(file: pq.ParquetFile, signal: Signal) -> Iterator[list[Mapping[str, Any]]]:
    """Yield rows in batches; those of one time, which stand together, are not divided."""
    time = RELATIONS[signal.name].time
    names = [name for name in _ROWS[signal.name]._fields if name in _SENT[signal.name]]
    waiting: list[Mapping[str, Any]] = []
    for batch in file.iter_batches(_BATCH_ROWS, columns=names):
        waiting += batch.to_pylist()
        last = waiting[-1][time]
        whole = [row for row in waiting if row[time] != last]
        if whole:
            yield whole
            waiting = [row for row in waiting if row[time] == last]
    if waiting:
        yield waiting


# Columns that a request is made of; the others are read out of it again.
_AROUND = {
    *("scope_name", "scope_version", "scope_attributes", "scope_dropped_attributes_count"),
    *("scope_schema_url", "resource_attributes", "resource_dropped_attributes_count"),
    *("resource_schema_url", "resource_entity_refs"),
}
_SENT = {
    TRACES.name: {*SpanRow._fields[: SpanRow._fields.index("scope_name")], *_AROUND},
    LOGS.name: {*LogRow._fields} - {"record_id", "service_name", "received_time_unix_nano"},
    METRICS.name: {*MetricPointRow._fields}
    - {"record_id", "service_name", "received_time_unix_nano"},
}
