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
_LEAVE_OUT: Final = click.Option(
    ["--leave-out-damaged"],
    is_flag=True,
    help="Leave out rows that cannot be read because the file is damaged; they are lost.",
)


@click.command("compact")
@with_options(_DATABASE, _LEAVE_OUT)
def compact_command(database: Path, leave_out_damaged: bool) -> None:
    """Write the database anew, without the room that deleted rows leave.

    A collector uses that room again for new spans, so this is for a file that shall become smaller,
    or after many restarts, which leave small row groups. Stop the collector first. The new file
    takes the place of the old one when it is complete, so there must be room for both.

    Of a damaged file, --leave-out-damaged saves what can be read; 'otelchain doctor --read-all'
    says beforehand what that is. Copy the file first if somebody else shall look at the rest.

    \b
    Example:
      otelchain compact --database traces.duckdb
      otelchain compact --leave-out-damaged
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.rewrite import rewrite

    left_out: dict[str, int] | None = {} if leave_out_damaged else None
    before = database.stat().st_size if database.exists() else 0
    with progress("Compacting", lambda: 100) as advance:
        rewrite(database, progress=in_percent(advance), left_out=left_out)
    for table, rows in (left_out or {}).items():
        click.echo(
            f"{database}: {rows} rows of {table} could not be read and are not in it", err=True
        )
    after = database.stat().st_size
    click.echo(f"{database}: {_mib(before)} before, {_mib(after)} now")


def _mib(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"
