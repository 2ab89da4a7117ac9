"""Asking one place again and again, without standing in the way of a collector that starts.

DuckDB lets no writer open a file that is being read, so a collector that starts at that moment
would fail.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from otelchain.reading.file_source import FileSource
from otelchain.reading.opening import open_source
from otelchain.reading.place import Place
from otelchain.reading.source import Source, SourceError

Result = TypeVar("Result")


class Following:
    """Where to ask next.

    Args:
        place: As for `open_source`.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._had_collector = False
        self._stamp: object = None

    def ask(self, ask: Callable[[Source], Result], *, unchanged: bool = False) -> Result | None:
        """Ask; None while a file that was asked before is what it was.

        Args:
            ask: Asks a source.
            unchanged: Ask a file also when it is what it was.

        Raises:
            SourceError: Nobody can be asked now. After a collector has ended it is not the file's
                turn, because the next collector may be about to open it.
        """
        source = open_source(self._place)
        if not isinstance(source, FileSource):
            self._had_collector = True
            return ask(source)
        if self._had_collector:
            raise SourceError(f"the collector of {str(self._place.database)!r} has ended")
        stamp = _stamp(self._place.database)
        if stamp is not None and stamp == self._stamp and not unchanged:
            return None
        answer = ask(source)
        # Not before: what could not be read, because somebody wrote it, is still to be read.
        self._stamp = stamp
        return answer


def _stamp(database: Path) -> object:
    """Return what changes whenever somebody writes the file; None when it is not there."""
    try:
        status = database.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
