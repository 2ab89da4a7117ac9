"""Open a database whose write-ahead log is damaged: keep what is whole, lay the rest aside.

Nothing is deleted. A copy of the log as it was found stays beside the database, as
``NAME.wal.damaged-TIME``, until somebody removes it.
"""

import filecmp
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from glob import escape
from pathlib import Path
from typing import NamedTuple, TypeVar

import duckdb

from otelchain_collector import wal
from otelchain_collector.drafts import draft_of
from otelchain_collector.errors import StoreError
from otelchain_collector.real_path import real_path
from otelchain_collector.replay import is_fault_of_log

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Opened = TypeVar("Opened")

_logger = logging.getLogger(__name__)


class LogLoss(NamedTuple):
    """What a log lost; a row of ``wal_losses``.

    Attributes:
        found_time_unix_nano: When it was found.
        reason: ``torn`` or ``damaged``, as in `wal.LogState`, or ``refused`` by DuckDB.
        lost_bytes: Bytes of the log that are in no transaction that was kept. How many rows they
            were nobody can say.
        kept_bytes: Bytes of the log that were whole, and are kept.
        file: The copy of the log as it was; NULL for a torn one.
    """

    found_time_unix_nano: int
    reason: str
    lost_bytes: int
    kept_bytes: int
    file: str | None


class LogDamage(NamedTuple):
    """A damaged log that nobody has laid aside.

    Attributes:
        what: What is damaged.
        remedy: What to do.
    """

    what: str
    remedy: str


def log_of(database: Path) -> Path:
    """Return the path of the write-ahead log; it need not exist."""
    database = real_path(database)
    return database.with_name(database.name + ".wal")


def logs_laid_aside(database: Path) -> list[Path]:
    """Return the copies of damaged logs beside a database, oldest first."""
    # Beside the link is where older versions have put them.
    places = dict.fromkeys((database.absolute(), real_path(database).absolute()))
    found = (place.parent.glob(f"{escape(place.name)}.wal.damaged-*") for place in places)
    return [log for logs in found for log in sorted(logs)]


def open_salvaged(database: Path, connect: Callable[[], Opened]) -> tuple[Opened, list[LogLoss]]:
    """Open a database, without the damaged part of its log.

    Args:
        database: The file.
        connect: Opens it; raises duckdb.Error.

    Raises:
        duckdb.Error: It cannot be opened, also without its log, or its log cannot be replayed now
            for a reason outside of it; the log is as it was.
        StoreError: There is no room for the copy of the log.
    """
    losses = _salvage(database)
    try:
        return connect(), losses
    except duckdb.Error as error:
        log = log_of(database)
        if not (log.exists() and is_fault_of_log(error)):
            raise
        connection, refused = _open_without(database, connect, error)
        return connection, [*losses, *refused]


def damage_of_log(database: Path) -> LogDamage | None:
    """Return the damage of the log of a database that nobody writes to; a torn log has none.

    For whoever opens the file without `open_salvaged`: DuckDB takes a damaged length for the end of
    the log, and what follows would be missing without a word.
    """
    log = log_of(database)
    try:
        if wal.examine(log).fault != "damaged":
            return None
        with _locked(database, shared=True) as is_ours:
            state = wal.examine(log)
            if not is_ours or state.fault != "damaged":  # Somebody is writing it right now.
                return None
    except OSError:  # DuckDB will say it better.
        return None
    return LogDamage(
        f"the write-ahead log {log} is damaged: {state.lost_bytes} of its {state.total_bytes} "
        "bytes cannot be read",
        f"start 'otelchain collector --database {database}' once: it lays the log aside, keeps "
        "what is whole and notes the loss",
    )


def _salvage(database: Path) -> list[LogLoss]:
    log = log_of(database)
    try:
        state = wal.examine(log)
    except OSError:  # DuckDB will say it better.
        return []
    if not state.fault:
        return []
    with _locked(database) as is_ours:
        if not is_ours:  # Another process writes to it right now.
            return []
        state = wal.examine(log)
        if state.fault == "torn":
            # DuckDB leaves it out by itself.
            _logger.warning(
                "the log %s ends with %d bytes of a transaction that was not finished; a kill does "
                "that, and then nobody was told that they are stored",
                log,
                state.lost_bytes,
            )
            return [_loss(state.fault, state, None)]
        if not state.fault:
            return []
        return [_cut(log, state)]


def _cut(log: Path, state: wal.LogState) -> LogLoss:
    """Lay a copy aside and cut off what follows the last whole transaction."""
    try:
        aside = _copy(log)
    except OSError as error:
        raise StoreError(
            f"the write-ahead log {log} is damaged, and there is no room for a copy of it beside "
            f"it: {error.strerror}"
        ) from error
    with log.open("r+b") as file:
        file.truncate(state.whole_bytes)
    _logger.error(
        "the write-ahead log was damaged: %d of its %d bytes are kept, the spans in the other %d "
        "are not in the database; the log as it was is %s",
        state.whole_bytes,
        state.total_bytes,
        state.lost_bytes,
        aside,
    )
    return _loss("damaged", state, aside)


def _copy(log: Path) -> Path:
    """Return a copy of a log, whole on the disk; one that a killed process has left is taken."""
    for aside in sorted(log.parent.glob(f"{escape(log.name)}.damaged-*")):
        if filecmp.cmp(log, aside, shallow=False):
            return aside
    draft, aside = draft_of(log), _aside(log)
    try:
        shutil.copy2(log, draft)
        with draft.open("rb+") as copy:
            os.fsync(copy.fileno())
        draft.rename(aside)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return aside


def _open_without(
    database: Path, connect: Callable[[], Opened], error: duckdb.Error
) -> tuple[Opened, list[LogLoss]]:
    log, aside = log_of(database), _aside(log_of(database))
    state = wal.LogState(log.stat().st_size, 0, "damaged")
    with _locked(database) as is_ours:
        if not is_ours:
            raise error
        log.rename(aside)
    try:
        connection = connect()
    except duckdb.Error:
        aside.rename(log)  # The log was not to blame.
        raise error from None
    _logger.error(
        "the write-ahead log cannot be read (%s); the database is as of its last checkpoint, the "
        "spans in %d bytes of log are not in it; the log is now %s",
        str(error).split("\n", 1)[0],
        state.total_bytes,
        aside,
    )
    return connection, [_loss("refused", state, aside)]


def _loss(reason: str, state: wal.LogState, aside: Path | None) -> LogLoss:
    lost = state.total_bytes - state.whole_bytes
    file = None if aside is None else str(aside.absolute())
    return LogLoss(time.time_ns(), reason, lost, state.whole_bytes, file)


def _aside(log: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = log.with_name(f"{log.name}.damaged-{stamp}")
    number = 1
    while path.exists():
        number += 1
        path = log.with_name(f"{log.name}.damaged-{stamp}-{number}")
    return path


@contextmanager
def _locked(database: Path, *, shared: bool = False) -> Iterator[bool]:
    """Hold DuckDB's own lock on a file; False when another process does.

    Args:
        database: The file.
        shared: As a reader's, beside which others may read.
    """
    if fcntl is None:
        yield True
        return
    with ExitStack() as closing:
        try:
            file = closing.enter_context(database.open("rb" if shared else "r+b"))
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.lockf(file, kind | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
