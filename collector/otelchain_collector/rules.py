"""By which rules (normalise.py, dialects/) a file's columns were read out of its attributes."""

import time
from typing import Final

import duckdb

#: Counts the changes of what normalise() finds in a span that another version has stored. A test
#: fails when it finds something else in the recorded peers under the same number.
RULES_VERSION: Final = 1

#: Answers one row: the version, and how many spans there are.
OLDEST: Final = """
SELECT
    (SELECT version FROM normalisation_rules ORDER BY rowid DESC LIMIT 1) AS rules_version,
    (SELECT count(*) FROM spans) + (SELECT count(*) FROM pending_spans) AS spans
"""
_NOTE: Final = "INSERT INTO normalisation_rules VALUES (?, ?)"


def agree(connection: duckdb.DuckDBPyConnection) -> int:
    """Take down by which rules a file's oldest rows are, now that this version writes to it.

    Returns:
        The version of the oldest rows; RULES_VERSION when there is nothing to reindex.
    """
    [(version, spans)] = connection.execute(OLDEST).fetchall()
    if version is not None:
        # What this version writes is no newer than its own rules.
        version_now = min(int(version), RULES_VERSION)
    else:
        version_now = 0 if spans else RULES_VERSION
    if version_now != version:
        connection.execute(_NOTE, [version_now, time.time_ns()])
    return version_now


def applied(connection: duckdb.DuckDBPyConnection) -> None:
    """Take down that every row has been read by today's rules."""
    connection.execute(_NOTE, [RULES_VERSION, time.time_ns()])


def older(version: int, spans: int) -> str | None:
    """Say that rows are of older rules; None when there are none."""
    if version >= RULES_VERSION or not spans:
        return None
    return (
        f"the columns of {spans} stored spans were read by older rules (version {version}, now "
        f"{RULES_VERSION}); what newer ones find in them is not there yet"
    )
