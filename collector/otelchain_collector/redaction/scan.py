"""Go through what a file or a running collector has stored, page by page (for ``redact scan``)."""

from collections.abc import Callable
from typing import Any, Protocol

from otelchain_collector.answer import Answer, QueryFailed
from otelchain_collector.redaction.report import Report
from otelchain_collector.redaction.stored import StoredColumn, StoredRedaction, holds_content

#: Called with how many more rows have been looked at.
Progress = Callable[[int], None]

# Some 15 MB of usual spans. What is larger than an answer may be is asked for in smaller pages.
_PAGE_ROWS = 4_000
COLUMNS = """
SELECT table_name, column_name, data_type
FROM duckdb_columns()
JOIN duckdb_tables() USING (database_name, schema_name, table_name)
WHERE database_name = current_database() AND NOT duckdb_tables.internal
ORDER BY table_name, column_index
"""


class Asked(Protocol):
    """Whoever answers a SELECT: a file or a collector."""

    def sql(self, sql: str, max_rows: int) -> Answer:
        """Answer one SELECT."""
        ...


def scan(asked: Asked, redaction: StoredRedaction, progress: Progress) -> Report:
    """Report what the policy finds in every column of text of every table.

    What comes while it runs may or may not be looked at.

    Raises:
        Exception: What ``asked`` raises.
    """
    tables = _tables(asked)
    lasts = {table: _last_row_id(asked, table) for table in tables}
    report = Report()
    for table, columns in tables.items():
        first = 0
        while first <= lasts[table]:
            rows, count = _page(asked, table, columns, first)
            for span_id, *row in rows:
                changes = redaction.changes(columns, row)
                if changes:
                    found = ((columns[place], change) for place, change in changes.items())
                    report.add(found, span_id)
            first += count
            progress(count)
    return report


def text_columns(columns: list[StoredColumn]) -> dict[str, list[StoredColumn]]:
    """Return the columns that are looked at, by table."""
    tables: dict[str, list[StoredColumn]] = {}
    for column in columns:
        if holds_content(column):
            tables.setdefault(column.table, []).append(column)
    return tables


def _tables(asked: Asked) -> dict[str, list[StoredColumn]]:
    rows = asked.sql(COLUMNS, 100_000).rows
    return text_columns([StoredColumn(*map(str, row)) for row in rows])


def _page(
    asked: Asked, table: str, columns: list[StoredColumn], first: int
) -> tuple[list[list[Any]], int]:
    """Return the rows from a row id on, each with its span id, and how many row ids they span."""
    has_span = table in ("spans", "pending_spans", "logs", "rejected_records")
    span_id = "span_id" if has_span else "NULL"
    # JSON as the text that it is.
    chosen = ", ".join(
        f'"{column.name}"' if column.type == "VARCHAR[]" else f'"{column.name}"::VARCHAR'
        for column in columns
    )
    count = _PAGE_ROWS
    while True:
        sql = (
            f"SELECT {span_id} AS span_id, {chosen} FROM {table} "  # noqa: S608 - our own names
            f"WHERE rowid BETWEEN {first} AND {first + count - 1}"
        )
        try:
            return [list(row) for row in asked.sql(sql, count).rows], count
        except QueryFailed:
            if count == 1:
                raise
            count = max(1, count // 8)


def _last_row_id(asked: Asked, table: str) -> int:
    [[last]] = asked.sql(f"SELECT coalesce(max(rowid), -1) FROM {table}", 1).rows  # noqa: S608
    assert isinstance(last, int)
    return last
