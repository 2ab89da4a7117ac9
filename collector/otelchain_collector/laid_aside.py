"""Logs that were laid aside, but not noted: the process was killed in between."""

import calendar
import logging
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from otelchain_collector import wal
from otelchain_collector.salvage import LogLoss, logs_laid_aside

_STAMP: Final = re.compile(r"\.wal\.damaged-(?P<stamp>(?P<time>\d{8}T\d{6}Z).*)\Z")
_STAMP_NANOS: Final = 10**9  # A stamp has whole seconds.

_logger = logging.getLogger(__name__)


def losses_not_noted(database: Path, noted: Collection[str], created: int) -> list[LogLoss]:
    """Return what the logs beside a database lost of which nobody was told.

    Args:
        database: The file.
        noted: The copies that are known, by any path: a database may have been moved with them.
        created: When it was, in nanoseconds since the epoch: what was laid aside earlier is the log
            of another file of its name.
    """
    known = {_stamp(file) for file in noted}
    losses = [
        _loss(log)
        for log in logs_laid_aside(database)
        if _stamp(str(log)) not in known and _found(log) + _STAMP_NANOS > created
    ]
    for loss in losses:
        _logger.error(
            "the damaged write-ahead log %s was laid aside by a process that ended before it could "
            "note that: the spans in %d bytes of it are not in the database",
            loss.file,
            loss.lost_bytes,
        )
    return losses


def _loss(log: Path) -> LogLoss:
    try:
        state = wal.examine(log)
    except OSError:
        state = wal.LogState(log.stat().st_size, 0, "damaged")
    # Of a log that is whole nothing was kept: DuckDB could not replay it.
    kept = state.whole_bytes if state.fault else 0
    reason = "damaged" if state.fault else "refused"
    return LogLoss(_found(log), reason, state.total_bytes - kept, kept, str(log.absolute()))


def _found(log: Path) -> int:
    match = _STAMP.search(log.name)
    if match is None:
        return time.time_ns()
    try:
        return calendar.timegm(time.strptime(match["time"], "%Y%m%dT%H%M%SZ")) * 10**9
    except ValueError:
        return time.time_ns()


def _stamp(file: str) -> str:
    match = _STAMP.search(file)
    return match["stamp"] if match else file
