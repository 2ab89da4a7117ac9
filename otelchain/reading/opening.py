"""Choose where to ask: a collector that runs, or the database file.

DuckDB lets nobody read a file that another process writes, and lets no writer open a file that is
being read: so a collector is asked when one runs.
"""

from typing import TYPE_CHECKING

from otelchain.reading.file_source import FileSource
from otelchain.reading.source import Source
from otelchain_collector.answer import DEFAULT_MAX_SECONDS

if TYPE_CHECKING:
    from otelchain.reading.place import Place


def open_source(place: "Place", max_seconds: float = DEFAULT_MAX_SECONDS) -> Source:
    """Return where to ask: the endpoint if given, the file's collector if it runs, or the file.

    Args:
        place: What the user has named.
        max_seconds: Longest time that a question may run.

    Raises:
        SourceError: The endpoint is not an address, or a file of the place cannot be used.
    """
    from otelchain.reading.remote import CollectorSource
    from otelchain_collector import discovery

    if place.endpoint:
        return CollectorSource(place.endpoint, place, max_seconds=max_seconds)
    found = discovery.read(place.database)
    if found is None:
        return FileSource(place.database, max_seconds=max_seconds)
    collector = CollectorSource(found.endpoint, place, max_seconds=max_seconds)
    silence = collector.silence()
    if silence is None:
        return collector
    # A killed collector leaves its discovery file, and its PID may be another program's now.
    return FileSource(place.database, found, silence, max_seconds=max_seconds)
