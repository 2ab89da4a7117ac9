"""Which rows of a database cannot be read, because a block of the file is not what was written.

DuckDB keeps a checksum with each block and looks at it when it reads the block, so damage is found
when a row is asked for and not when the file is opened.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

#: Answers one SELECT with its rows; raises what `is_damage` knows.
Ask = Callable[[str], list[list[Any]]]

#: What DuckDB reads together: pieces of this many rows need no block of their neighbours' but one.
VECTOR_ROWS: Final = 2_048
# A multiple of it, and DuckDB's row group.
ROW_GROUP_ROWS: Final = 122_880

_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
_COLUMNS: Final = """
SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}' AND NOT internal
ORDER BY column_index
"""
_END: Final = 'SELECT coalesce(max(rowid) + 1, 0) FROM "{table}"'
_READ: Final = 'SELECT {columns} FROM "{table}" WHERE rowid >= {first} AND rowid < {end}'
_COUNT: Final = 'SELECT count(*) FROM "{table}" WHERE rowid >= {first} AND rowid < {end}'


class Unreadable(NamedTuple):
    """Rows that cannot be read whole.

    Attributes:
        table: Their table.
        first: The first of their row ids.
        end: The row id after the last one.
        rows: How many there are.
        columns: Those that cannot be read.
    """

    table: str
    first: int
    end: int
    rows: int
    columns: tuple[str, ...]


def is_damage(said: str) -> bool:
    """Tell whether DuckDB met a block of the file that is not what was written."""
    said = said.lower()
    return "corrupt database file" in said or ("checksum" in said and "block" in said)


def hint(said: str) -> str:
    """Return what to do, to stand after what DuckDB said; empty when it is no damage."""
    if not is_damage(said):
        return ""
    return "; a part of the file is damaged: 'otelchain doctor --read-all' says which rows"


def tables(ask: Ask) -> list[str]:
    """Return the names of all tables."""
    return [str(table) for [table] in ask(_TABLES)]


def end_of(ask: Ask, table: str) -> int:
    """Return the row id after the last one of a table."""
    [[end]] = ask(_END.format(table=table))
    return int(end)


def unreadable(
    ask: Ask, table: str, read: Callable[[int], None] = lambda _: None
) -> Iterator[Unreadable]:
    """Read every row of a table; yield those that cannot be read, in stretches.

    Args:
        ask: Where the table is asked, the file or a collector.
        table: Its name.
        read: Called with the number of row ids that have been read.
    """
    columns = [str(column) for [column] in ask(_COLUMNS.format(table=table))]
    end = end_of(ask, table)
    for first in range(0, end, ROW_GROUP_ROWS):
        last = min(end, first + ROW_GROUP_ROWS)
        yield from _within(ask, table, columns, first, last)
        read(last - first)


def _within(ask: Ask, table: str, columns: list[str], first: int, end: int) -> Iterator[Unreadable]:
    bad = tuple(column for column in _suspects(ask, table, columns, first, end))
    if not bad:
        return
    if end - first > VECTOR_ROWS:
        for start, stop in halves(first, end):
            yield from _within(ask, table, list(bad), start, stop)
        return
    [[rows]] = ask(_COUNT.format(table=table, first=first, end=end))
    yield Unreadable(table, first, end, int(rows), bad)


def halves(first: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Cut a range of row ids where a vector ends."""
    middle = first + max(1, (end - first) // VECTOR_ROWS // 2) * VECTOR_ROWS
    return (first, middle), (middle, end)


def _suspects(ask: Ask, table: str, columns: list[str], first: int, end: int) -> list[str]:
    """Return the columns that cannot be read; all at once where nothing is wrong."""
    if _is_readable(ask, table, columns, first, end):
        return []
    if len(columns) == 1:
        return columns
    return [each for each in columns if not _is_readable(ask, table, [each], first, end)]


def _is_readable(ask: Ask, table: str, columns: list[str], first: int, end: int) -> bool:
    # One number for each column, so that nothing is held and every value is read.
    numbers = ", ".join(f'bit_xor(hash("{column}"))' for column in columns)
    try:
        ask(_READ.format(columns=numbers, table=table, first=first, end=end))
    except Exception as error:
        if not is_damage(str(error)):
            raise
        return False
    return True
