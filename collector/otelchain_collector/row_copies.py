"""Copy the rows of one attached database into another, table by table, counted.

A piece that cannot be read, because a block of the file is damaged, is halved until what cannot be
read stands alone; then it is left out where the caller wants that.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import duckdb

from otelchain_collector.damage import ROW_GROUP_ROWS, VECTOR_ROWS, halves, is_damage
from otelchain_collector.errors import StoreError

#: Takes a table's name and some of its rows (a pyarrow.Table); returns as many rows instead.
Change = Callable[[str, Any], Any]
#: How many rows of each table were left out, because they cannot be read.
LeftOut = dict[str, int]
#: Hears how many rows are written, and how many there are.
Progress = Callable[[int, int], None]

_END: Final = 'SELECT coalesce(max(rowid) + 1, 0) FROM source."{table}"'
_ROWS: Final = 'SELECT * FROM source."{table}" WHERE rowid >= {first} AND rowid < {end}'
_INSERT: Final = 'INSERT INTO draft."{table}" BY NAME {rows}'
_COUNT: Final = 'SELECT count(*) FROM {database}."{table}"'
# Rows go through Python when they are changed: usually 3 KB each, but some have payloads.
_CHANGED_AT_A_TIME: Final = 1_024


def fill(
    connection: duckdb.DuckDBPyConnection,
    change: Change | None,
    progress: Progress,
    left_out: LeftOut | None,
) -> None:
    """Copy all tables from the database ``source`` into ``draft``, which has them empty.

    Args:
        connection: Both are attached to it.
        change: What becomes of the rows on the way.
        progress: Called now and then.
        left_out: Counts the rows that cannot be read, by table; None: they are an error.

    Raises:
        StoreError: The numbers of rows do not agree.
        duckdb.Error: It did not work.
    """
    tables = _tables(connection)
    counts = {table: _count(connection, "source", table) for table in tables}
    whole, written = sum(counts.values()), 0
    progress(0, whole)
    for table in tables:
        for rows in _copied(connection, table, change, left_out):
            written += rows
            progress(written, whole)
        found = _count(connection, "draft", table)
        if found + (left_out or {}).get(table, 0) != counts[table]:
            raise StoreError(
                f"the new file has {found} rows of {table} instead of {counts[table]}; "
                "nothing was changed"
            )
    connection.execute("CHECKPOINT draft")


def _copied(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    change: Change | None,
    left_out: LeftOut | None,
) -> Iterator[int]:
    """Copy a table in the order of its rows; yield how many rows each piece had."""
    [(end,)] = connection.execute(_END.format(table=table)).fetchall()
    step = ROW_GROUP_ROWS if change is None else _CHANGED_AT_A_TIME
    for first in range(0, end, step):
        yield _copy_rows(connection, table, change, left_out, first, first + step)
        if change is not None and (first + step) % ROW_GROUP_ROWS == 0:
            # Small pieces go through the log, which would grow as large as the table.
            connection.execute("CHECKPOINT draft")


def _copy_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    change: Change | None,
    left_out: LeftOut | None,
    first: int,
    end: int,
) -> int:
    rows = _ROWS.format(table=table, first=first, end=end)
    try:
        if change is not None:
            connection.register("changed", change(table, connection.sql(rows).to_arrow_table()))
            rows = "SELECT * FROM changed"
        [(inserted,)] = connection.execute(_INSERT.format(table=table, rows=rows)).fetchall()
    except duckdb.Error as error:
        if left_out is None or not is_damage(str(error)):
            raise
        if end - first > VECTOR_ROWS:
            return sum(
                _copy_rows(connection, table, change, left_out, *half)
                for half in halves(first, end)
            )
        left_out[table] = left_out.get(table, 0) + _count(
            connection, "source", table, f"WHERE rowid >= {first} AND rowid < {end}"
        )
        return 0
    return int(inserted)


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'source' AND NOT internal "
        "ORDER BY table_name"
    ).fetchall()
    return [str(table) for (table,) in found]


def _count(
    connection: duckdb.DuckDBPyConnection, database: str, table: str, where: str = ""
) -> int:
    count = f"{_COUNT.format(database=database, table=table)} {where}"
    [(rows,)] = connection.execute(count).fetchall()
    return int(rows)
