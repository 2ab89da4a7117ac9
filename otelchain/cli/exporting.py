"""``otelchain export``: stored data as files of other formats."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.group import Commands
from otelchain.cli.options import filter_option, with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.times import TIMEZONE, Moment, Time
from otelchain.cli.trace_id import TraceId
from otelchain.reading.times import EXAMPLES, unix_nano

if TYPE_CHECKING:
    from otelchain.reading.source import Source
    from otelchain_collector.exchange.pages import Ask, Filters

_SIGNALS: Final = ("traces", "logs", "metrics")
_FILTERS: Final = (
    click.Option(
        ["--since"], type=Time(), help=f"Only what started at or after this time ({EXAMPLES})."
    ),
    click.Option(["--until"], type=Time(), help="Only what started before this time."),
    TIMEZONE,
    filter_option("service", "Only what this service sent.", default=None),
    click.Option(
        ["--trace"],
        type=TraceId(),
        metavar="ID",
        help="Only this trace: an id, the beginning of one, or last; leaves out metrics.",
    ),
)
_SIGNAL: Final = click.Option(
    ["--signal", "signals"],
    type=click.Choice(_SIGNALS),
    multiple=True,
    default=_SIGNALS,
    help="Which signals; may be repeated. Without it: all three.",
)
_OUTPUT: Final = click.Option(
    ["-o", "--output"],
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("-"),
    help="File to write, compressed when it ends in .gz or .zst; without it: standard output.",
)


class _Formats(Commands):
    noun = "format"


@click.group("export", cls=_Formats)
def export_command() -> None:
    """Write stored traces, logs and metrics to files, also while the collector runs.

    A file appears under its name when it is complete. The formats and what each keeps:
    collector/README.md.

    \b
    Example:
      otelchain export otlp-json -o traces.jsonl.gz --since 24h
      otelchain export parquet -o folder
    """  # noqa: D301 - click reads the character \b


@export_command.command("otlp-json")
@with_options(_OUTPUT, _SIGNAL, *_FILTERS, *PLACE)
def otlp_json_command(output: Path, signals: tuple[str, ...], **values: Any) -> None:
    """Write OTLP/JSON, one request per line, as the OpenTelemetry Collector's file exporter does.

    Nothing is lost: 'otelchain import otlp-json' gives the same rows again.

    \b
    Example:
      otelchain export otlp-json -o traces.jsonl.gz --signal traces
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.exchange.otlp_json_files import write_otlp_json
    from otelchain_collector.signals import SIGNALS

    chosen = [signal for signal in SIGNALS if signal.name in signals]
    _export(output, [signal.name for signal in chosen], partial(write_otlp_json, chosen), values)


@export_command.command("otlp-proto")
@with_options(
    _OUTPUT,
    click.Option(
        ["--signal"],
        type=click.Choice(_SIGNALS),
        default="traces",
        show_default=True,
        help="Which signal; a file holds one.",
    ),
    *_FILTERS,
    *PLACE,
)
def otlp_proto_command(output: Path, signal: str, **values: Any) -> None:
    """Write OTLP in protobuf, as the OpenTelemetry Collector's file exporter does (format proto).

    Each message comes after its size, 4 bytes, big-endian. Nothing is lost: 'otelchain import
    otlp-proto' gives the same rows again.

    \b
    Example:
      otelchain export otlp-proto -o traces.pb.zst --since 24h
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.exchange.otlp_binary_files import write_otlp_proto
    from otelchain_collector.signals import SIGNALS

    [chosen] = [each for each in SIGNALS if each.name == signal]
    _export(output, [signal], partial(write_otlp_proto, chosen), values)


@export_command.command("parquet")
@with_options(
    click.Option(
        ["-o", "--output"],
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help="Folder to write spans.parquet, logs.parquet and metric_points.parquet to.",
    ),
    _SIGNAL,
    *_FILTERS,
    *PLACE,
)
def parquet_command(output: Path, signals: tuple[str, ...], **values: Any) -> None:
    """Write the tables as Parquet files, with all columns.

    Nothing is lost: 'otelchain import parquet' gives the same rows again.

    \b
    Example:
      otelchain export parquet -o folder --since 7d
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.exchange.parquet_files import write_parquet
    from otelchain_collector.signals import SIGNALS

    chosen = [signal for signal in SIGNALS if signal.name in signals]
    names = [signal.name for signal in chosen]
    with _asked(values) as (ask, filters), _progress(ask, names, filters) as advance:
        write_parquet(chosen, ask, filters, output, advance)


@export_command.command("csv")
@with_options(_OUTPUT, *_FILTERS, *PLACE)
def csv_command(output: Path, **values: Any) -> None:
    """Write the view runs as CSV: one line per run, with inputs and outputs.

    For spreadsheets; what the view does not show is not in it, and it cannot be imported.

    \b
    Example:
      otelchain export csv -o runs.csv --service support
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.exchange.runs_csv import write_csv

    _export(output, ["traces"], write_csv, values)


@export_command.command("langsmith")
@with_options(_OUTPUT, *_FILTERS, *PLACE)
def langsmith_command(output: Path, **values: Any) -> None:
    """Write runs as JSON lines in the shape of LangSmith's list_runs.

    'otelchain import langsmith' gives the same runs again; span events, links and attributes that
    are no part of a run are not in it.

    \b
    Example:
      otelchain export langsmith --trace 4bf92f35 > runs.jsonl
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.exchange.langsmith_export import write_langsmith

    _export(output, ["traces"], write_langsmith, values)


def _export(
    output: Path, signals: list[str], write: Callable[..., None], values: dict[str, Any]
) -> None:
    from otelchain_collector.exchange.targets import target

    with (
        _asked(values) as (ask, filters),
        _progress(ask, signals, filters) as advance,
        target(None if output == Path("-") else output) as stream,
    ):
        write(ask, filters, stream, advance)


@contextmanager
def _asked(values: dict[str, Any]) -> "Iterator[tuple[Ask, Filters]]":
    """Give whom to ask, opened once for all pages, and for what."""
    from otelchain.reading.opening import open_source
    from otelchain_collector.answer import QueryFailed
    from otelchain_collector.exchange.pages import Filters

    def ask(sql: str) -> list[dict[str, Any]]:
        answer = source.sql(sql, _MAX_ROWS)
        if answer.has_more:
            raise QueryFailed(
                f"more than {_MAX_ROWS} records have the same time; leave them out with --since or "
                "--until"
            )
        names = [column.name for column in answer.columns]
        return [dict(zip(names, row, strict=True)) for row in answer.rows]

    since, until = (_unix_nano(values.pop(name)) for name in ("since", "until"))
    service, trace = values.pop("service"), values.pop("trace")
    with open_source(Place.taken_from(values)).held() as source:
        yield ask, Filters(since, until, service, _whole(source, trace) if trace else None)


def _whole(source: "Source", trace: str) -> str:
    from otelchain.reading.whole_id import UnknownTraceError, whole_trace_id

    try:
        return whole_trace_id(source, trace)
    except UnknownTraceError:
        if trace == "last":
            raise
        return trace  # Log records may name a trace that has no span here.


_MAX_ROWS: Final = 100_000


def _unix_nano(moment: Moment | None) -> int | None:
    return None if moment is None else unix_nano(str(moment))


def _progress(
    ask: "Ask", signals: list[str], filters: "Filters"
) -> AbstractContextManager[Callable[[int], None]]:
    from otelchain.cli.progress import progress
    from otelchain_collector.exchange.pages import RELATIONS, count

    return progress(
        "Exporting", lambda: sum(count(ask, RELATIONS[name], filters) for name in signals)
    )
