"""``otelchain reindex``: today's rules for yesterday's spans, also through the collector."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.options import with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.progress import progress
from otelchain.reading.source import SourceError

if TYPE_CHECKING:
    from otelchain.reading.remote import CollectorSource

# For so long a collector may be full, or its disk, before the command gives up.
_PATIENCE_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 1.0


@click.command("reindex")
@with_options(*PLACE)
def reindex_command(**values: Any) -> None:
    """Read every stored span again with the rules of this version.

    A newer otelchain may read more out of a span, or read a dialect that an older one did not know.
    What the application sent is not changed. A collector that has the database open is asked to do
    it, by its own rules, between its commits; that needs a token that may maintain it, where it
    wants one. When it is interrupted, nothing is lost, and another run does the rest.

    \b
    Example:
      otelchain reindex --database traces.duckdb
    """  # noqa: D301 - click reads the character \b
    from otelchain.reading.opening import open_source
    from otelchain.reading.remote import CollectorSource
    from otelchain_collector.exchange.reindex import reindex, total
    from otelchain_collector.store import Store

    place = Place(**values)
    source = open_source(place)
    if isinstance(source, CollectorSource):
        with progress("Reading spans", source.reindexable) as advance:
            spans = changed = 0
            for page in _pages(source):
                spans, changed = spans + page["spans"], changed + page["changed"]
                advance(page["spans"])
    else:
        if not place.database.exists():  # Opening would create it.
            raise SourceError(
                f"there is no database {str(place.database)!r}; name another with --database"
            )
        with closing(Store.open(place.database)) as store:

            def count() -> int:
                with store.database.cursor() as cursor:
                    return total(cursor)

            with progress("Reading spans", count) as advance:
                spans, changed = reindex(store, advance)
    click.echo(f"read {spans} spans; changed {changed}")


def _pages(source: "CollectorSource") -> Any:
    """Have page after page read again; yield what was done."""
    place: dict[str, Any] | None = {}
    while place is not None:
        page = _page(source, place)
        yield page
        place = page["following"]


def _page(source: "CollectorSource", place: dict[str, Any]) -> dict[str, Any]:
    from otelchain.reading.remote import CollectorBusyError

    patience = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return source.reindexed(place)
        except CollectorBusyError as error:
            if time.monotonic() > patience:
                raise SourceError(
                    f"{source.endpoint} cannot go on: {error}; what is done is done, and another "
                    "run does the rest"
                ) from error
            time.sleep(_AGAIN_SECONDS)
