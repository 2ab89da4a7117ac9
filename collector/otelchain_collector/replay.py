"""DuckDB could not replay a write-ahead log (from its error): is the log to blame, what is to do?

For a log that is whole only what is known to mean the log counts as its fault. For anything else,
memory and disk above all, the next attempt may read it, and laying it aside would cost everything
that was acknowledged since the last checkpoint.
"""

from pathlib import Path
from typing import Final

import duckdb

# Before it, DuckDB writes the kind of the error.
_REPLAYING: Final = "failure while replaying wal"
# A block of the file itself, which the log needs.
_A_BLOCK: Final = "in block"

# What the log says does not fit the file (duckdb/duckdb#18732, #7659), or cannot be read although
# its checksum is right.
_KINDS: Final = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConstraintException,
    duckdb.SerializationException,
)
# Of kinds that memory and disk have too, only what DuckDB's wal_replay.cpp says of a log, and what
# it was reported to say.
_TEXTS: Final[tuple[tuple[type[duckdb.Error], tuple[str, ...]], ...]] = (
    (
        duckdb.IOException,
        (
            "corrupt wal file",
            "wal does not match database file",
            "the wal checkpoint iteration does not match",
        ),
    ),
    # duckdb/duckdb#25395
    (duckdb.TransactionException, ("conflict on tuple deletion",)),
    # duckdb/duckdb#19712, #22044, #22124
    (duckdb.InternalException, ("invalid wal entry type", "no default database set")),
)

_MEMORY: Final = ("out of memory", "pin block", "allocate", "allocation")
_DISK: Final = ("no space left", "file too large", "quota", "max_temp_directory_size")
_ACCESS: Final = ("permission denied", "not permitted", "read-only file system")
_NEWER: Final = "failed to read wal of version"


def is_fault_of_log(error: duckdb.Error) -> bool:
    """Tell whether a log that is whole can never be replayed, whatever the next attempt has."""
    said = str(error).lower()
    if not is_replay(said) or _A_BLOCK in said:
        return False
    return isinstance(error, _KINDS) or any(
        isinstance(error, kind) and any(text in said for text in texts) for kind, texts in _TEXTS
    )


def is_replay(said: str) -> bool:
    """Tell whether DuckDB speaks of a log that it could not replay."""
    return _REPLAYING in said.lower()


def why_not_replayed(database: Path, log: Path, said: str) -> str:
    """Say in one line that the log was left as it is, and what lets the next attempt read it."""
    return (
        f"cannot open {database}: {said}; its write-ahead log {log} stays as it is and holds what "
        f"was acknowledged since the last checkpoint: {_remedy(said.lower())}"
    )


def _remedy(said: str) -> str:
    # Before memory: DuckDB calls it so, too, when it may not spill any more.
    if any(text in said for text in _DISK):
        return (
            "make room on the disk, where what does not fit into memory is put, too, or give more "
            "memory with --memory-limit-bytes; then start the collector again"
        )
    if any(text in said for text in _MEMORY):
        return "start the collector with more memory (--memory-limit-bytes)"
    if any(text in said for text in _ACCESS):
        return "see to it that the collector may write there, then start it again"
    if _NEWER in said:
        return "a newer DuckDB wrote it; upgrade the one installed: pip install -U duckdb"
    return (
        "start the collector again when the reason is gone; if it stays, move the log away: the "
        "file then opens without that"
    )
