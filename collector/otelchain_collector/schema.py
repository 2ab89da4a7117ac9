"""Bring a database to the schema of this version by numbered .sql files, in order, each once."""

import time
from importlib import resources
from typing import NamedTuple

import duckdb

from otelchain.version import __version__
from otelchain_collector.errors import SchemaTooNewError

_CREATE_HISTORY = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    applied_time_unix_nano BIGINT NOT NULL
)
"""


class Migration(NamedTuple):
    """One file of migrations/; ``0002_runs.sql`` has version 2 and name ``runs``."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """Read all migrations, oldest first."""
    folder = resources.files("otelchain_collector") / "migrations"
    found = []
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(found)


LATEST_VERSION = migrations()[-1].version


def version_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the schema version of a database; 0 for one that otelchain never wrote."""
    known = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'schema_migrations'"
    if connection.execute(known).fetchall() == [(0,)]:
        return 0
    [(version,)] = connection.execute(
        "SELECT coalesce(max(version), 0) FROM schema_migrations"
    ).fetchall()
    return int(version)


def created_time(connection: duckdb.DuckDBPyConnection) -> int:
    """Return when a database got its first tables, in nanoseconds since the epoch."""
    [(created,)] = connection.execute(
        "SELECT min(applied_time_unix_nano) FROM schema_migrations"
    ).fetchall()
    return int(created)


def create(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    """Make empty tables of a version in a new database; their history is empty too."""
    connection.execute(_CREATE_HISTORY)
    for migration in migrations():
        if migration.version <= version:
            connection.execute(migration.sql)


def too_new(version: int) -> str:
    """Say of a database that a newer otelchain wrote it, and what to do."""
    return (
        f"has schema version {version}, but otelchain {__version__} knows versions up to "
        f"{LATEST_VERSION}; use the otelchain that wrote it, or a newer one"
    )


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the migrations that the database has not seen.

    Raises:
        SchemaTooNewError: A newer otelchain wrote the database; nothing was changed.
    """
    version = version_of(connection)
    if version > LATEST_VERSION:
        raise SchemaTooNewError(f"it {too_new(version)}")
    pending = [migration for migration in migrations() if migration.version > version]
    if not pending:
        return
    connection.execute(_CREATE_HISTORY)
    for migration in pending:
        _apply(connection, migration)
    # Replaying DDL from the write-ahead log has failed in several DuckDB versions (duckdb#18732,
    # #22044, #19712), so a schema change never stays there.
    connection.execute("CHECKPOINT")


def _apply(connection: duckdb.DuckDBPyConnection, migration: Migration) -> None:
    connection.execute("BEGIN")
    try:
        connection.execute(migration.sql)
        connection.execute(
            "INSERT INTO schema_migrations VALUES (?, ?, ?)",
            [migration.version, migration.name, time.time_ns()],
        )
        connection.execute("COMMIT")
    except duckdb.Error:
        connection.execute("ROLLBACK")
        raise
