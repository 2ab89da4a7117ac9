"""``otelchain import``: files of other formats into the store."""

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.group import Commands
from otelchain.cli.options import with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.progress import progress
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    from otelchain_collector.exchange.delivery import Delivery, Request
    from otelchain_collector.exchange.sources import Source

_SOME_BAD: Final = 1
_FILES: Final = click.Argument(
    ["files"], nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True)
)
_STRICT: Final = click.Option(
    ["--strict"],
    is_flag=True,
    help="Look through everything first, and import nothing when anything in it is bad.",
)


class _Formats(Commands):
    noun = "format"


@click.group("import", cls=_Formats)
def import_command() -> None:
    """Bring traces, logs and metrics from files into the store.

    Through the collector when one has the database open, else into the file, which is created when
    it does not exist. What is stored already is left out, so that importing twice stores once. What
    cannot be read is told with file, line and reason on standard error, the rest is imported, and
    the exit code is 1; --strict imports all or nothing (exit code 2).

    \b
    Example:
      otelchain import langsmith runs.jsonl.gz
    """  # noqa: D301 - click reads the character \b


@import_command.command("otlp-json")
@with_options(_FILES, _STRICT, *PLACE)
def otlp_json_command(files: tuple[str, ...], strict: bool, **place: Any) -> None:
    """Import OTLP/JSON: a request per line, or one document; gzip, zstd; - is standard input.

    That is what 'otelchain export otlp-json' writes, and so does the OpenTelemetry Collector's file
    exporter (format json, with compression or without).

    \b
    Example:
      otelchain import otlp-json traces.jsonl.gz
    """  # noqa: D301 - click reads the character \b
    _import("otlp-json", files, strict, Place(**place))


@import_command.command("otlp-proto")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@with_options(_STRICT, *PLACE)
def otlp_proto_command(files: tuple[str, ...], strict: bool, **place: Any) -> None:
    """Import OTLP in protobuf, each message after its size in 4 bytes; gzip, zstd; - is stdin.

    That is what 'otelchain export otlp-proto' writes, and so does the OpenTelemetry Collector's
    file exporter (format proto, with compression or without). A file may also hold one request, as
    it goes over the wire. A bad message is told by its number.

    \b
    Example:
      otelchain import otlp-proto traces.pb.zst
    """  # noqa: D301 - click reads the character \b
    _import("otlp-proto", files, strict, Place(**place))


@import_command.command("langsmith")
@with_options(_FILES, _STRICT, *PLACE)
def langsmith_command(files: tuple[str, ...], strict: bool, **place: Any) -> None:
    """Import LangSmith runs: JSON lines, gzip, - for standard input; or a bulk export.

    Takes what list_runs and runs.query return, what LangSmith's command line exports, what its
    tracer sends, where a run comes in two halves, and the Parquet files of a bulk export, or their
    folder. A run without an end is stored as pending.

    \b
    Example:
      otelchain import langsmith runs.jsonl more-runs.jsonl.gz
      otelchain import langsmith export_id=0d6f…
    """  # noqa: D301 - click reads the character \b
    _import("langsmith", files, strict, Place(**place))


@import_command.command("parquet")
@with_options(_FILES, _STRICT, *PLACE)
def parquet_command(files: tuple[str, ...], strict: bool, **place: Any) -> None:
    """Import Parquet files that 'otelchain export parquet' wrote, or folders of them.

    \b
    Example:
      otelchain import parquet folder
    """  # noqa: D301 - click reads the character \b
    _import("parquet", files, strict, Place(**place))


class _Complaints:
    """Counts what is not imported, and tells it at once."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, place: str, count: int, reason: str) -> None:
        self.count += count
        many = f"{count} records: " if count > 1 else ""
        click.echo(visible(f"{place}: {many}{reason}"), err=True)


def _import(format_name: str, arguments: tuple[str, ...], strict: bool, place: Place) -> None:
    from otelchain.cli.delivery import delivery
    from otelchain_collector.exchange.imports import READERS, amount
    from otelchain_collector.exchange.sources import kept, source

    files = [source(argument) for argument in arguments]
    read, unread, refused = READERS[format_name], _Complaints(), _Complaints()
    with tempfile.TemporaryDirectory(prefix="otelchain-import-") as folder:
        if strict:
            files = [kept(file, Path(folder)) for file in files]
            _check(format_name, files)
        with (
            progress("Importing", lambda: amount(format_name, files)) as advance,
            delivery(place, refused) as deliver,
        ):
            records = _send(read(files, unread, advance), deliver)
    _say(records - refused.count, deliver.before)
    if bad := unread.count + refused.count:
        click.echo(f"not imported: {bad}", err=True)
        sys.exit(_SOME_BAD)


def _say(records: int, before: int | None) -> None:
    """Say how many records were imported, and how many of them the store had already."""
    if before is None:
        text = f"sent to the collector: {records} records; it leaves out what it has already"
    else:
        text = f"imported: {records - before} records"
        text += f"; {before} were there already" if before else ""
    click.echo(text, err=True)


def _check(format_name: str, files: "list[Source]") -> None:
    """Read everything and look at it as the store would.

    Raises:
        ImportFailed: Something is bad.
    """
    from otelchain_collector.exchange.delivery import Rehearsal
    from otelchain_collector.exchange.imports import READERS, amount
    from otelchain_collector.exchange.sources import ImportFailed

    complaints = _Complaints()
    with progress("Checking", lambda: amount(format_name, files)) as advance:
        _send(READERS[format_name](files, complaints, advance), Rehearsal(complaints))
    if complaints.count:
        raise ImportFailed(
            f"nothing was imported, because of {complaints.count} bad records; leave out --strict "
            "for the others"
        )


def _send(requests: "Iterable[Request]", deliver: "Delivery") -> int:
    """Deliver requests; return how many records they had."""
    records = 0
    for request in requests:
        deliver.send(request)
        records += request.records
    return records
