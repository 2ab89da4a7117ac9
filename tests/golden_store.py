"""A store whose spans are written by hand, for answers worked out by hand."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from otelchain_collector.arrow_tables import SQL_TYPES
from otelchain_collector.schema import migrate
from otelchain_queries import load

TEN_O_CLOCK = datetime(2026, 11, 30, 10, 0)  # noqa: DTZ001 - DuckDB answers in naive UTC
TEN_O_CLOCK_UNIX_NANO = 1_796_032_800 * 10**9

T1, T2, T3, T4, T5 = ("1" * 32, "2" * 32, "3" * 32, "4" * 32, "5" * 32)

Row = dict[str, Any]

_AROUND: Row = {
    "attributes": "{}",
    "scope_name": "otelchain",
    "scope_version": "",
    "scope_attributes": "{}",
    "scope_dropped_attributes_count": 0,
    "scope_schema_url": "",
    "resource_attributes": "{}",
    "resource_dropped_attributes_count": 0,
    "resource_schema_url": "",
}


def at(ms: float) -> datetime:
    return TEN_O_CLOCK + timedelta(milliseconds=ms)


def spans(rows: list[Row]) -> list[str]:
    return [row["span_id"] for row in rows]


class GoldenStore:
    """Times are milliseconds after ten o'clock; in memory unless there is a path."""

    def __init__(self, path: Path | None = None) -> None:
        self._connection = duckdb.connect(
            ":memory:" if path is None else str(path),
            config={"storage_compatibility_version": "v1.5.0"},
        )
        migrate(self._connection)
        self._waiting: dict[str, list[Row]] = {}
        self._pending = 0
        #: Goes into every trace id, so that traces of several themes stay apart.
        self.theme = ""

    def turn_around(self) -> None:
        """Let the rows that wait arrive in the opposite order."""
        for rows in self._waiting.values():
            rows.reverse()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, with every row in its table: together they are written in one go."""
        for table, rows in self._waiting.items():
            described = self._connection.execute(f"DESCRIBE {table}").fetchall()
            batch = pa.table(
                {
                    column: pa.array([row.get(column) for row in rows], SQL_TYPES[kind])
                    for column, kind, *_ in described
                }
            )
            self._connection.register("batch", batch)
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
            self._connection.unregister("batch")
        self._waiting.clear()
        return self._connection

    def add(
        self,
        trace: str,
        span: str,
        parent: str | None = None,
        *,
        name: str = "step",
        kind: str | None = "chain",
        status: str = "ok",
        start_ms: int = 0,
        end_ms: int | None = None,
        inputs: str | None = None,
        outputs: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> None:
        start = TEN_O_CLOCK_UNIX_NANO + start_ms * 10**6
        end = start if end_ms is None else TEN_O_CLOCK_UNIX_NANO + end_ms * 10**6
        payload = {"otelchain.input": inputs, "otelchain.output": outputs, **(attributes or {})}
        row: Row = {
            "trace_id": trace[: 32 - len(self.theme)] + self.theme,
            "span_id": span,
            "parent_span_id": parent,
            "trace_state": "",
            "flags": 0,
            "name": name,
            "kind": 1,
            "start_time_unix_nano": start,
            "end_time_unix_nano": end,
            "status_code": 2 if status == "error" else 0,
            "status_message": columns.get("error") or "",
            "attributes": json.dumps({k: v for k, v in payload.items() if v is not None}),
            "dropped_attributes_count": 0,
            "events": "[]",
            "dropped_events_count": 0,
            "links": "[]",
            "dropped_links_count": 0,
            "scope_name": "otelchain",
            "scope_version": "",
            "scope_attributes": "{}",
            "scope_dropped_attributes_count": 0,
            "scope_schema_url": "",
            "resource_attributes": "{}",
            "resource_dropped_attributes_count": 0,
            "resource_schema_url": "",
            "dialect": "otelchain",
            "service_name": "shop",
            "run_type": kind,
            "run_status": status,
            "inputs_attribute": None if inputs is None else "otelchain.input",
            "outputs_attribute": None if outputs is None else "otelchain.output",
            "received_time_unix_nano": end,
            **columns,
        }
        table = "spans"
        if status == "pending":
            self._pending += 1
            table, row["row_id"] = "pending_spans", -self._pending
        self._waiting.setdefault(table, []).append(row)

    def add_log(self, record: str, *, at_ms: int = 0, delay_ms: int = 0, **columns: Any) -> None:
        time = TEN_O_CLOCK_UNIX_NANO + at_ms * 10**6
        row: Row = {
            **_AROUND,
            "record_id": record,
            "record_time_unix_nano": time,
            "time_unix_nano": time,
            "observed_time_unix_nano": time,
            "severity_number": 9,
            "severity_text": "",
            "event_name": "",
            "dropped_attributes_count": 0,
            "flags": 0,
            "service_name": "shop",
            "received_time_unix_nano": time + delay_ms * 10**6,
            **columns,
        }
        self._waiting.setdefault("logs", []).append(row)

    def add_point(self, record: str, *, at_ms: int = 0, delay_ms: int = 0, **columns: Any) -> None:
        time = TEN_O_CLOCK_UNIX_NANO + at_ms * 10**6
        row: Row = {
            **_AROUND,
            "record_id": record,
            "name": "requests",
            "description": "",
            "unit": "1",
            "metadata": "{}",
            "kind": "gauge",
            "start_time_unix_nano": 0,
            "time_unix_nano": time,
            "flags": 0,
            "value_int": 1,
            "exemplars": "[]",
            "service_name": "shop",
            "received_time_unix_nano": time + delay_ms * 10**6,
            **columns,
        }
        self._waiting.setdefault("metric_points", []).append(row)

    def reject(self, reason: str, *, received_ms: int = 0, **columns: Any) -> None:
        received = TEN_O_CLOCK_UNIX_NANO + received_ms * 10**6
        row = {"received_time_unix_nano": received, "reason": reason, "service_name": "shop"}
        row = {**row, "signal": "traces", **columns}
        self._waiting.setdefault("rejected_records", []).append(row)

    def ask(self, query_name: str, **values: str) -> list[Row]:
        query = load(query_name)
        answer = self.connection.execute(query.sql, query.bind(values))
        columns = [column[0] for column in answer.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
