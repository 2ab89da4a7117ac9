"""``otelchain reindex``: today's rules for yesterday's spans."""

from contextlib import closing
from pathlib import Path

import click

from otelchain.cli.options import DATABASE, with_options
from otelchain.cli.progress import progress


@click.command("reindex")
@with_options(DATABASE)
def reindex_command(database: Path) -> None:
    """Read every stored span again with the rules of this version.

    A newer otelchain may read more out of a span, or read a dialect that an older one did not know.
    What the application sent is not changed. No collector may have the database open. When it is
    interrupted, nothing is lost, and another run does the rest.

    \b
    Example:
      otelchain reindex --database traces.duckdb
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.exchange.reindex import Reindexing

    with closing(Reindexing(database)) as work, progress("Reading spans", work.total) as advance:
        spans, changed = work.run(advance)
    click.echo(f"read {spans} spans; changed {changed}")
