"""A store with many spans, for benchmarks: a few real ones, copied under new ids and times."""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from otelchain_collector.database import STORAGE_VERSION
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.store import Store

# Earlier than all that is there, one microsecond apart. No window function and no sort: they would
# hold all copies at once.
_TEMPLATES = """
CREATE TEMP TABLE templates AS
SELECT spans.*, rowid AS place, min(start_time_unix_nano) OVER () AS first FROM spans
"""
_COPIES = """
INSERT INTO spans BY NAME
SELECT templates.* EXCLUDE (place, first) REPLACE (
    md5(trace_id || '/' || copy) AS trace_id,
    left(md5(span_id || '/' || copy), 16) AS span_id,
    first - 1000 * (copy * {templates} + place + 1) AS start_time_unix_nano,
    first - 1000 * (copy * {templates} + place + 1) + 800000000 AS end_time_unix_nano
)
FROM range({copies}) AS copies (copy), templates
LIMIT {count}
"""


def fill(database: Path, bodies: Iterable[bytes], count: int) -> None:
    """Make a database of at least so many spans out of requests."""
    store = Store.open(database)
    for body in bodies:
        store.insert(decode_columns(body, 0).rows)
    store.database.checkpoint()
    store.close()
    config = {"storage_compatibility_version": STORAGE_VERSION, "memory_limit": "2GB"}
    with duckdb.connect(str(database), config=config) as connection:
        templates = _stored(connection)
        connection.execute(_TEMPLATES)
        missing = max(0, count - templates)
        copies = -(-missing // templates)
        connection.execute(_COPIES.format(templates=templates, copies=copies, count=missing))


def _stored(connection: duckdb.DuckDBPyConnection) -> int:
    [(count,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)
