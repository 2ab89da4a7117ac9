"""The database file of a running collector, as another process reads it.

DuckDB lets no second process open a file that a writer holds. This shows it the file through
DuckDB's interface for file systems of Python, which asks for no lock, and its log only as far as it
was complete when the question came. The collector makes no checkpoint meanwhile, so nothing that
belongs to this state is changed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import fsspec

from otelchain_collector.guard import guard
from otelchain_collector.open_database import FileState

_NAME: Final = "otelchain"
# Without the folder: a question may ask where its database lies.
_FILE: Final = f"live://{_NAME}.duckdb"
_LOG: Final = f"{_FILE}.wal"


@contextmanager
def cursor_of(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a cursor for one question: what that leaves behind must not reach the next."""
    cursor = connection.cursor()
    try:
        cursor.execute(f"USE {_NAME}")
        yield cursor
    finally:
        cursor.close()


def open_live(
    database: Path, state: FileState, memory_limit_bytes: int
) -> duckdb.DuckDBPyConnection:
    """Open a database that a collector has open, to read it as it was at a moment.

    Args:
        database: The file.
        state: The moment; it must last as long as the connection is used.
        memory_limit_bytes: What DuckDB may use.

    Raises:
        duckdb.Error: It cannot be opened.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_limit_bytes}B",
        # Half of the cores are the collector's own DuckDB's.
        "threads": "1",
        # A question writes nothing, not what does not fit into memory either.
        "temp_directory": "",
        "secret_directory": "",
        "extension_directory": "",
    }
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.register_filesystem(_LiveFile(database, state.log_bytes))
        connection.execute(f"ATTACH '{_FILE}' AS {_NAME} (READ_ONLY)")
        guard(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class _LiveFile(fsspec.AbstractFileSystem):  # type: ignore[misc]  # no types are published
    # DuckDB asks for nothing else.
    protocol = "live"
    cachable = False

    def __init__(self, database: Path, log_bytes: int) -> None:
        super().__init__()
        log = database.with_name(f"{database.name}.wal")
        self._paths = {_FILE: (database, database.stat().st_size)}
        if log_bytes:
            self._paths[_LOG] = (log, log_bytes)

    def open(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, path: str, mode: str = "rb", **_: Any
    ) -> "_Part":
        """Open a part for reading."""
        if mode != "rb" or path not in self._paths:
            raise FileNotFoundError(path)
        return _Part(*self._paths[path])

    def exists(self, path: str, **_: Any) -> bool:
        """Tell whether there is such a part."""
        return path in self._paths

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return its size."""
        if path not in self._paths:
            raise FileNotFoundError(path)
        return {"name": path, "size": self._paths[path][1], "type": "file"}


class _Part:
    """The first bytes of a file, with the methods that DuckDB calls."""

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._size, self._place = size, 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        left = max(0, self._size - self._place)
        data = os.pread(self._descriptor, left if size < 0 else min(size, left), self._place)
        self._place += len(data)
        return data

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Go on from another place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = base + place
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)
