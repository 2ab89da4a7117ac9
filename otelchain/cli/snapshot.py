"""``otelchain snapshot``: a consistent copy, from a running collector or from the file."""

import http.client
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request

import click

from otelchain.cli.options import with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.progress import in_percent, progress
from otelchain.reading.connect import address, opener, reason, token
from otelchain.reading.source import SourceError, open_source

# For the checkpoint before the first byte, and between two pieces.
_TIMEOUT_SECONDS: Final = 60.0
_PIECE_BYTES: Final = 1024 * 1024
_FILE: Final = click.Argument(["file"], metavar="FILE", type=click.Path(path_type=Path))

Progress = Callable[[int, int], None]


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
    from otelchain.reading.remote import CollectorSource
    from otelchain_collector.rewrite import copy

    _check(file, place)
    source = open_source(place)
    with progress("Copying", lambda: 100) as advance:
        tell = in_percent(advance)
        if isinstance(source, CollectorSource):
            _fetch(source.endpoint, place, file, tell)
        else:
            copy(place.database, file, tell)


def _check(file: Path, place: Place) -> None:
    from otelchain_collector import discovery
    from otelchain_collector.salvage import log_of

    if not file.absolute().parent.is_dir():
        raise SourceError(f"the folder {file.absolute().parent} does not exist; create it")
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


def _fetch(endpoint: str, place: Place, file: Path, tell: Progress) -> None:
    from otelchain_collector.rewrite import replace

    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        _receive(endpoint, place, draft, tell)
        replace(draft, file)
    except OSError as error:
        raise SourceError(f"cannot write {str(file)!r}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def _receive(endpoint: str, place: Place, draft: Path, tell: Progress) -> None:
    base = address(endpoint)
    shown = token(place)
    headers = {"authorization": f"Bearer {shown}"} if shown else {}
    request = Request(f"{base}/snapshot", headers=headers)  # noqa: S310 - address() allows http and https
    try:
        response = opener(base, place).open(request, timeout=_TIMEOUT_SECONDS)
    except HTTPError as error:
        raise SourceError(f"{base} gives no snapshot: {_said(error)}") from error
    except (URLError, OSError, http.client.HTTPException) as error:
        raise SourceError(
            f"{base} does not answer ({reason(getattr(error, 'reason', error))})"
        ) from error
    # For this user only, and never through a link that somebody laid there.
    with (
        response,
        os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as to,
    ):
        size, received = int(response.headers["content-length"]), 0
        while piece := _piece(response):
            to.write(piece)
            received += len(piece)
            tell(received, size)
    if received != size:
        raise SourceError(
            f"the collector at {base} ended after {received} of {size} bytes: it stopped, or had "
            "to make a checkpoint under much load; try again, nearer to it or in a quieter moment"
        )


def _piece(response: Any) -> bytes:
    try:
        return bytes(response.read(_PIECE_BYTES))
    except (OSError, http.client.HTTPException):
        return b""


def _said(error: HTTPError) -> str:
    with error:
        try:
            text = str(json.loads(error.read())["error"])
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            return f"it says {error.code} {error.reason}"
    how = "; set OTELCHAIN_TOKEN or --token-file" if error.code in (401, 403) else ""
    return text + how


def _spans(file: Path) -> int:
    """Open the copy and count, so that nobody learns that it is none when it is needed."""
    from otelchain_collector.database import attached

    with attached(file, read_only=True) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)
