"""``otelchain compact``: the file without the room that deleted rows leave in it."""

from pathlib import Path
from typing import Final

import click

from otelchain.cli.options import with_options
from otelchain.cli.progress import in_percent, progress

_DATABASE: Final = click.Option(
    ["--database"],
    type=click.Path(path_type=Path),
    default=Path("otelchain.duckdb"),
    show_default=True,
    envvar="OTELCHAIN_DATABASE",
    show_envvar=True,
    help="DuckDB file to write anew; nothing may have it open.",
)


@click.command("compact")
@with_options(_DATABASE)
def compact_command(database: Path) -> None:
    """Write the database anew, without the room that deleted rows leave.

    A collector uses that room again for new spans, so this is for a file that shall become smaller,
    or after many restarts, which leave small row groups. Stop the collector first. The new file
    takes the place of the old one when it is complete, so there must be room for both.

    \b
    Example:
      otelchain compact --database traces.duckdb
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.rewrite import rewrite

    before = database.stat().st_size if database.exists() else 0
    with progress("Compacting", lambda: 100) as advance:
        rewrite(database, progress=in_percent(advance))
    after = database.stat().st_size
    click.echo(f"{database}: {_mib(before)} before, {_mib(after)} now")


def _mib(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"
