"""Every row of every table, read once: which cannot be, because a block of the file is damaged."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from otelchain.cli.doctor.finding import Finding
from otelchain.cli.place import Place
from otelchain.cli.progress import in_percent, progress
from otelchain.reading.opening import open_source
from otelchain.reading.source import SourceError
from otelchain_collector.answer import QueryFailed
from otelchain_collector.damage import Unreadable, end_of, tables, unreadable

_REMEDY: Final = (
    "look at the disk; put a snapshot in its place, or stop the collector and let 'otelchain "
    "compact --leave-out-damaged' write a file with the other rows"
)


def blocks(place: Place) -> Iterator[Finding]:
    """Read everything, through the collector that has the file or in the file itself."""
    if place.endpoint is None and not place.database.exists():
        return  # That has been said.
    try:
        source = open_source(place)

        def ask(sql: str) -> list[list[Any]]:
            return source.sql(sql, 1_000).rows

        found = _read_all(ask)
    except (SourceError, QueryFailed) as error:
        yield Finding("blocks", "error", f"not everything was read: {error}")
        return
    if not found:
        yield Finding("blocks", "ok", "every row of every table can be read")
    for table, pieces in found.items():
        yield Finding("blocks", "error", _told(table, pieces), _REMEDY)


def _read_all(ask: Any) -> dict[str, list[Unreadable]]:
    names = tables(ask)
    ends = {name: end_of(ask, name) for name in names}
    whole, done = sum(ends.values()), 0
    found: dict[str, list[Unreadable]] = defaultdict(list)
    with progress("Reading", lambda: 100) as advance:
        tell = in_percent(advance)

        def read(rows: int) -> None:
            nonlocal done
            done += rows
            tell(min(done, whole), whole)

        for name in names:
            for piece in unreadable(ask, name, read):
                found[name].append(piece)
    return found


def _told(table: str, pieces: list[Unreadable]) -> str:
    rows = sum(piece.rows for piece in pieces)
    columns = sorted({column for piece in pieces for column in piece.columns})
    groups = ", ".join(f"{piece.first}-{piece.end - 1}" for piece in pieces[:5])
    more = f" and {len(pieces) - 5} more" if len(pieces) > 5 else ""
    return (
        f"{rows} rows of {table} cannot be read whole (row ids {groups}{more}; columns "
        f"{', '.join(columns)}): a part of the file is damaged"
    )
