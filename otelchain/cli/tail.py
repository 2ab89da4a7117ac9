"""``otelchain tail``: the runs as they arrive, until Ctrl-C."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

import otelchain_queries
from otelchain.cli.options import COLOR, filter_option, format_option, with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.printing import print_text
from otelchain.cli.showing import FAIL_ON_ROWS, FAILED
from otelchain.cli.stream import STREAMED, Stream
from otelchain.reading.arrivals import Arrivals
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    from otelchain.reading.run_line import Run

_DEFAULT_INTERVAL_SECONDS: Final = 1.0
_DEFAULT_LINES: Final = 10


@click.command("tail")
@with_options(
    filter_option("service", "Only runs of this service."),
    filter_option("status", "Only runs with this status, such as error."),
    filter_option("run-type", "Only runs of this type, such as tool."),
    filter_option("name", "Only runs of this name."),
    click.Option(
        ["--lines", "-n"],
        type=click.IntRange(0, 10_000),
        default=_DEFAULT_LINES,
        show_default=True,
        help="Print so many of the newest first.",
    ),
    click.Option(
        ["--interval"],
        type=click.FloatRange(min=0.05),
        default=_DEFAULT_INTERVAL_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How often to ask for new ones.",
    ),
    format_option(("text", *STREAMED)),
    COLOR,
    FAIL_ON_ROWS,
    *PLACE,
)
def tail_command(
    service: str,
    status: str,
    run_type: str,
    name: str,
    lines: int,
    interval: float,
    format_name: str,
    color: str,
    fail_on_rows: bool,
    **place: Any,
) -> None:
    """Print runs as they arrive, until Ctrl-C: a line each, no inputs and outputs.

    A run that is sent while it runs (OTELCHAIN_LIVE_RUNS) is printed twice: pending, and when it
    has ended. While the collector is away, the command waits for it; a file without a collector is
    read again when it has changed. With --fail-on-rows the first run ends the command.

    \b
    Example:
      otelchain tail
      otelchain tail --status error --service shop
      otelchain tail --format jsonl | jq .name
      otelchain tail --lines 0 --status error --fail-on-rows || alert
    """  # noqa: D301 - click reads the character \b
    filters = {"service": service, "status": status, "run_type": run_type, "name": name}
    arrivals = Arrivals(otelchain_queries.load("arrivals"), filters)
    stream = None if format_name == "text" else Stream(format_name)
    failed = False
    try:
        for run in _follow(arrivals, Place(**place), lines, interval):
            print_text(stream.row(run) if stream else _line(run, color), format_name)
            if failed := fail_on_rows:
                break
    except KeyboardInterrupt:
        pass
    if stream:
        print_text(stream.end(), format_name)
    if failed:
        click.get_current_context().exit(FAILED)


def _follow(arrivals: Arrivals, place: Place, lines: int, interval: float) -> "Iterator[Run]":
    from otelchain.reading.following import Following
    from otelchain.reading.source import SourceError

    following = Following(place)
    yield from following.ask(lambda source: arrivals.newest(source, lines)) or ()
    away = False
    while True:
        if not arrivals.behind:
            time.sleep(interval)
        try:
            # A file holds the rest of what an answer could not take, though it has not changed.
            found = following.ask(arrivals.new, unchanged=arrivals.behind) or ()
        except SourceError as error:
            if not away:
                click.echo(visible(f"{error}; waiting for it"), err=True)
            away = True
            continue
        away = False
        yield from found


def _clock(time: str) -> str:
    """Return hour, minute, second and milliseconds with the zone that they are of: UTC."""
    return time[11:23].removesuffix("Z") + "Z"


def _line(run: "Run", color: str) -> str:
    from rich.text import Text

    from otelchain.reading.run_line import STATUS_STYLES, duration
    from otelchain.reading.screen import console, drawn

    screen = console(color)
    status = str(run["status"])
    took = "" if run["duration_ms"] is None else duration(run["duration_ms"])
    kind = f" [{run['run_type']}]" if run["run_type"] else ""
    rest = [
        took.rjust(8),
        str(run["trace_id"])[:8],
        f"{run['name']}{kind}",
        run["error_type"] or "",
        run["model"] or "",
        run["service_name"] or "",
    ]
    line = Text(_clock(str(run["start_time"])).ljust(len("10:00:00.000Z")))
    line.append("  ").append(visible(status).ljust(11), style=STATUS_STYLES.get(status, ""))
    for part in rest:
        if part:
            line.append("  ").append(visible(part))
    if screen.is_terminal and sys.stdout.isatty():
        line.truncate(screen.width, overflow="ellipsis")
    return drawn(screen, line)
