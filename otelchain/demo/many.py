"""A store with as many spans as wanted, to try questions and dashboards on: ``demo --spans``.

About a thousand turns are made and decoded as the collector would (templates.py); DuckDB copies
them (copy_turns.sql), batch by batch, so that memory is bounded and ten million take minutes.
"""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, Final

import duckdb

from otelchain.demo.errors import DemoError
from otelchain.demo.services import SERVICES
from otelchain.demo.templates import BASE_UNIX_NANO, templates
from otelchain_collector.database import STORAGE_VERSION, ZSTD_MIN_STRING_LENGTH
from otelchain_collector.owner_only import owner_only
from otelchain_collector.schema import migrate

DAYS: Final = 30
SEED: Final = 7
DAY_NANOS: Final = 86_400 * 10**9
# As many as DuckDB may hold before they are in the file: about 250,000 spans.
_TURNS_OF_A_BATCH: Final = 16_000
_MEMORY_LIMIT: Final = "2GB"
_REASONS: Final = ("span_id is all zero", "attribute values nested too deep")

# Two spans in a hundred thousand, as a client with a bug would send them.
_REJECT: Final = f"""
INSERT INTO rejected_records BY NAME
SELECT
    received_time_unix_nano,
    {list(_REASONS)!r}[luck % 2 + 1] AS reason,
    trace_id,
    name,
    service_name,
    'traces' AS signal
FROM (
    SELECT *, ('0x' || span_id[1:8])::BIGINT AS luck
    FROM spans
    WHERE rowid >= ?
)
WHERE luck % 50_000 = 5
"""  # noqa: S608 - nothing in it comes from outside


def write_many(
    database: Path,
    spans: int,
    end_unix_nano: int,
    *,
    seed: int = SEED,
    progress: Callable[[int], object] = lambda _: None,
) -> int:
    """Write about so many spans of the days before a moment; return how many there are.

    The same numbers give the same rows. The quietest hours are those around the end of each day
    before that moment.

    Args:
        database: The file; it must not exist.
        spans: How many.
        end_unix_nano: When the last turn starts.
        seed: Of all choices.
        progress: Called with the number of spans that each batch added.

    Raises:
        DemoError: The file exists, or cannot be written.
    """
    if database.exists():
        raise DemoError(f"{database} exists; give --database another name")
    try:
        return _write(database, spans, end_unix_nano, seed, progress)
    except BaseException as error:
        database.unlink(missing_ok=True)
        if isinstance(error, (duckdb.IOException, duckdb.OutOfMemoryException)):
            raise DemoError(f"{database} cannot be written: {error}") from error
        raise


def _write(
    database: Path, spans: int, end: int, seed: int, progress: Callable[[int], object]
) -> int:
    config: dict[str, Any] = {
        "storage_compatibility_version": STORAGE_VERSION,
        "memory_limit": _MEMORY_LIMIT,
        "zstd_min_string_length": ZSTD_MIN_STRING_LENGTH,
    }
    with owner_only(), duckdb.connect(str(database), config=config) as connection:
        migrate(connection)
        turns = max(1, round(spans / _register(connection, seed)))
        values = {
            "seed": seed,
            "turns": turns,
            "days": DAYS,
            "end_unix_nano": end,
            "release_unix_nano": end - DAY_NANOS,
            "base_unix_nano": BASE_UNIX_NANO,
        }
        for first in range(0, turns, _TURNS_OF_A_BATCH):
            before = _count(connection)
            last = min(first + _TURNS_OF_A_BATCH, turns)
            _copy(connection, {**values, "first": first, "last": last})
            connection.execute(_REJECT, [before])
            connection.execute("CHECKPOINT")
            progress(_count(connection) - before)
        return _count(connection)


def _register(connection: duckdb.DuckDBPyConnection, seed: int) -> float:
    """Put the templates where SQL finds them; return how many spans a turn has."""
    made = templates(seed)
    connection.register("made", made.spans)
    connection.execute(
        """
        CREATE TEMP TABLE demo_templates AS
        SELECT
            made.*,
            ('0x' || trace_id)::BIGINT // 2 AS turn,
            ('0x' || trace_id)::BIGINT % 2 AS trace,
            ('0x' || span_id)::BIGINT AS place,
            ('0x' || parent_span_id)::BIGINT AS parent_place
        FROM made
        """
    )
    connection.unregister("made")
    connection.execute(
        "CREATE TEMP TABLE demo_ranges (service INT, release INT, first BIGINT, turns BIGINT)"
    )
    connection.executemany("INSERT INTO demo_ranges VALUES (?, ?, ?, ?)", made.ranges)
    connection.execute(
        "CREATE TEMP TABLE demo_services (number INT, from_percent INT, to_percent INT)"
    )
    rows, percent = [], 0
    for number, service in enumerate(SERVICES):
        rows.append((number, percent, percent + service.percent))
        percent += service.percent
    connection.executemany("INSERT INTO demo_services VALUES (?, ?, ?)", rows)
    return float(made.spans.num_rows) / sum(turns for *_, turns in made.ranges)


def _copy(connection: duckdb.DuckDBPyConnection, values: dict[str, Any]) -> None:
    sql = resources.files("otelchain.demo").joinpath("copy_turns.sql").read_text("utf-8")
    ended = sql.format(**values, pending=False)
    running = sql.format(**values, pending=True)
    connection.execute(f"INSERT INTO spans BY NAME {ended}")
    connection.execute(
        f"""
        INSERT INTO pending_spans BY NAME
        SELECT
            (SELECT coalesce(min(row_id), 0) FROM pending_spans) - row_number() OVER () AS row_id,
            *
        FROM ({running})
        """  # noqa: S608 - nothing in it comes from outside
    )


def _count(connection: duckdb.DuckDBPyConnection) -> int:
    [(count,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)
