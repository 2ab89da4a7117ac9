"""Write a database anew: every row into a new file, which holds nothing of what was deleted.

The new file is complete on the disk, and counted, before it takes its name: whatever happens in
between, the name leads to the old file or to the new one.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb

from otelchain_collector.damage import is_damage
from otelchain_collector.database import STORAGE_VERSION, attached, first_line, quoted
from otelchain_collector.drafts import draft_of
from otelchain_collector.errors import StoreError
from otelchain_collector.owner_only import owner_only
from otelchain_collector.real_path import real_path
from otelchain_collector.row_copies import Change, LeftOut, Progress, fill


def _nobody(_: int, __: int) -> None:
    pass


def rewrite(
    database: Path,
    change: Change | None = None,
    progress: Progress = _nobody,
    left_out: LeftOut | None = None,
) -> None:
    """Replace a database that nothing has open by a new file with the same rows.

    Args:
        database: The file, or a link to it, which stays one. Its lock is held until the new file
            has taken its name; mode and owner are kept.
        change: What becomes of the rows on the way; the old values are in no byte of the new file.
        progress: Called now and then.
        left_out: Counts the rows that cannot be read, by table; None: they are an error.

    Raises:
        StoreError: It did not work; the file is as it was.
    """
    database = real_path(database)
    with _translated(database), attached(database, read_only=False) as connection:
        draft = draft_of(database)
        # Nothing may stay in a log that the new file would be given at its next start.
        connection.execute("CHECKPOINT source")
        with _finished(connection, draft, change, progress, left_out):
            _keep_access(database, draft)
            _remove_spilled(database)
            replace(draft, database)


def copy(database: Path, target: Path, progress: Progress = _nobody) -> None:
    """Write the rows of a database that nothing writes to into a new file.

    Args:
        database: The file; it stays as it is.
        target: The new file; one that is there is replaced.
        progress: Called now and then.

    Raises:
        StoreError: It did not work; there is no new file.
    """
    target = real_path(target)
    with _translated(database), attached(database, read_only=True) as connection:
        draft = draft_of(target)
        with _finished(connection, draft, None, progress, None):
            replace(draft, target)


@contextlib.contextmanager
def _finished(
    connection: duckdb.DuckDBPyConnection,
    draft: Path,
    change: Change | None,
    progress: Progress,
    left_out: LeftOut | None,
) -> Iterator[None]:
    """Write the draft; remove it when that, or what is then done with it, fails."""
    spilled = draft.with_name(f"{draft.name}.tmp")
    with owner_only():
        try:
            # By default it is .tmp in the working directory. DuckDB removes it at the end.
            connection.execute(f"SET temp_directory = '{quoted(spilled)}'")
            connection.execute(
                f"ATTACH '{quoted(draft)}' AS draft (STORAGE_VERSION '{STORAGE_VERSION}')"
            )
            connection.execute("COPY FROM DATABASE source TO draft (SCHEMA)")
            fill(connection, change, progress, left_out)
            connection.execute("DETACH draft")
            yield
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                connection.execute("DETACH DATABASE IF EXISTS draft")
            _remove(draft)
            raise


def replace(draft: Path, target: Path) -> None:
    """Give a finished file its name, once its bytes are on the disk."""
    _sync(draft)
    draft.replace(target)
    if os.name == "posix":
        _sync(target.parent)


def _keep_access(old: Path, new: Path) -> None:
    shutil.copymode(old, new)
    status = old.stat()
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
        os.chown(new, status.st_uid, status.st_gid)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translated(database: Path) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, OSError) as error:
        how = (
            "; a part of the file is damaged: 'otelchain doctor --read-all' says which rows, and "
            "'otelchain compact --leave-out-damaged' writes a file without them"
        )
        raise StoreError(
            f"cannot write {database} anew: {first_line(error)}"
            f"{how if is_damage(str(error)) else ''}"
        ) from error


def _remove_spilled(database: Path) -> None:
    """Remove rows that a killed collector had spilled; whoever has the lock owns them."""
    # Where DuckDB spills by default.
    folder = database.with_name(f"{database.name}.tmp")
    for file in folder.glob("duckdb_temp*"):
        file.unlink()
    with contextlib.suppress(OSError):  # It is not there, or holds something else.
        folder.rmdir()


def _remove(draft: Path) -> None:
    for path in (draft, draft.with_name(draft.name + ".wal")):
        path.unlink(missing_ok=True)
