"""The view ``runs`` as CSV, for people and spreadsheets."""

import csv
import io
import json
from collections.abc import Callable
from typing import IO, Any

from otelchain_collector.exchange.pages import Ask, Filters, Relation, pages


def write_csv(
    ask: Ask, filters: Filters, stream: IO[bytes], advance: Callable[[int], None]
) -> None:
    """Write one line per run as RFC 4180 has it: CRLF, NULL as an empty field, lists as JSON."""
    names = _names(ask)
    runs = Relation("runs", ", ".join(names), "start_time_unix_nano", "trace_id, span_id")
    stream.write(_lines([names]))
    for rows in pages(ask, runs, filters):
        stream.write(_lines([[_field(row[name]) for name in names] for row in rows]))
        advance(len(rows))


def _names(ask: Ask) -> list[str]:
    found = ask(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = 'runs' "
        "AND column_name NOT IN ('row_id') ORDER BY column_index"
    )
    return [row["column_name"] for row in found]


def _lines(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _field(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
