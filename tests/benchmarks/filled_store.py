"""A store with many spans, for benchmarks: a few real ones, copied under new ids and times."""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from otelchain_collector.database import STORAGE_VERSION
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.store import Store

# Earlier than all that is there, one microsecond apart.
_COPY = """
INSERT INTO spans BY NAME
SELECT * EXCLUDE (first) REPLACE (
    md5(trace_id || '/' || span_id) AS trace_id,
    left(md5(span_id || '/' || trace_id), 16) AS span_id,
    (first - 1000 * (row_number() OVER ())) AS start_time_unix_nano,
    (first - 1000 * (row_number() OVER ())) + 800000000 AS end_time_unix_nano
)
FROM (SELECT * FROM spans WHERE rowid >= {stored} - {count}),
    (SELECT min(start_time_unix_nano) AS first FROM spans)
"""


def fill(database: Path, bodies: Iterable[bytes], count: int) -> None:
    """Make a database of at least so many spans out of requests."""
    store = Store.open(database)
    for body in bodies:
        store.insert(decode_columns(body, 0).rows)
    store.checkpoint()
    store.close()
    config = {"storage_compatibility_version": STORAGE_VERSION, "memory_limit": "2GB"}
    with duckdb.connect(str(database), config=config) as connection:
        while (stored := _stored(connection)) < count:
            # A copy at a time fits into memory, and into row groups like those of a full day.
            copied = min(count - stored, stored, 200_000)
            connection.execute(_COPY.format(count=copied, stored=stored))


def _stored(connection: duckdb.DuckDBPyConnection) -> int:
    [(count,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)
