"""``otelchain snapshot``: a consistent copy, from a running collector or from the file."""

import os
from pathlib import Path
from typing import Any, Final

import click

from otelchain.cli.options import with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.progress import in_percent, progress
from otelchain.reading.opening import open_source
from otelchain.reading.source import SourceError

_FILE: Final = click.Argument(["file"], metavar="FILE", type=click.Path(path_type=Path))


@click.command("snapshot")
@with_options(_FILE, *PLACE)
def snapshot_command(file: Path, **place: Any) -> None:
    """Copy the database to FILE, also while it is being written.

    A running collector is asked and goes on collecting: the copy holds what was committed when it
    was asked. Without one the file itself is read. FILE is complete or not there at all; one that
    is there already is replaced. With tokens, it needs the permission to ask SQL.

    \b
    Example:
      otelchain snapshot backup.duckdb
      otelchain snapshot backup.duckdb --endpoint https://traces.example.org:4318
    """  # noqa: D301 - click reads the character \b
    _write(file, Place(**place))
    click.echo(f"{file}: {file.stat().st_size / 1024**2:.1f} MiB, {_spans(file)} spans")


def _write(file: Path, place: Place) -> None:
    from otelchain.cli.fetching import fetch
    from otelchain.reading.remote import CollectorSource
    from otelchain_collector.real_path import real_path
    from otelchain_collector.rewrite import copy

    file = real_path(file)
    _check(file, place)
    source = open_source(place)
    with progress("Copying", lambda: 100) as advance:
        tell = in_percent(advance)
        if isinstance(source, CollectorSource):
            fetch(source.endpoint, place, file, tell)
        else:
            copy(place.database, file, tell)


def _check(file: Path, place: Place) -> None:
    from otelchain_collector import discovery
    from otelchain_collector.salvage import log_of

    if not file.absolute().parent.is_dir():
        raise SourceError(f"the folder {file.absolute().parent} does not exist; create it")
    if file.is_dir():
        raise SourceError(f"{str(file)!r} is a folder; name a file in it")
    if not os.access(file.absolute().parent, os.W_OK):
        raise SourceError(f"you may not write into the folder {file.absolute().parent}")
    is_itself = place.database.exists() and file.exists() and file.samefile(place.database)
    if is_itself or discovery.read(file) is not None:
        raise SourceError(f"{str(file)!r} is a database that is in use; name another file")
    if log_of(file).exists():
        raise SourceError(
            f"{str(log_of(file))!r} is there and would be taken for the log of the new file; "
            "name another one"
        )


def _spans(file: Path) -> int:
    """Open the copy and count, so that nobody learns that it is none when it is needed."""
    from otelchain_collector.database import attached

    with attached(file, read_only=True) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)
