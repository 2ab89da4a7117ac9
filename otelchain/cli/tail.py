"""``otelchain tail``: the runs as they arrive, until Ctrl-C."""

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

import otelchain_queries
from otelchain.cli.options import format_option, with_options
from otelchain.cli.place import PLACE, Place
from otelchain.reading.arrivals import Arrivals
from otelchain.reading.visible import escape_json, visible

if TYPE_CHECKING:
    from otelchain.reading.run_line import Run

_DEFAULT_INTERVAL_SECONDS: Final = 1.0
_DEFAULT_LINES: Final = 10


@click.command("tail")
@with_options(
    click.Option(["--service"], default="", help="Only runs of this service."),
    click.Option(["--status"], default="", help="Only runs with this status, such as error."),
    click.Option(["--run-type"], default="", help="Only runs of this type, such as tool."),
    click.Option(["--name"], default="", help="Only runs of this name."),
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
    format_option(("text", "jsonl")),
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
    **place: Any,
) -> None:
    """Print runs as they arrive, until Ctrl-C: a line each, no inputs and outputs.

    A run that is sent while it runs (OTELCHAIN_LIVE_RUNS) is printed twice: pending, and when it
    has ended. While the collector is away, the command waits for it; a file without a collector is
    read again when it has changed.

    \b
    Example:
      otelchain tail
      otelchain tail --status error --service shop
      otelchain tail --format jsonl | jq .name
    """  # noqa: D301 - click reads the character \b
    filters = {"service": service, "status": status, "run_type": run_type, "name": name}
    arrivals = Arrivals(otelchain_queries.load("arrivals"), filters)
    try:
        for run in _follow(arrivals, Place(**place), lines, interval):
            _print(run, format_name)
    except KeyboardInterrupt:
        return


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
                click.echo(f"{error}; waiting for it", err=True)
            away = True
            continue
        away = False
        yield from found


def _print(run: "Run", format_name: str) -> None:
    from otelchain.cli.printing import print_text

    if format_name == "jsonl":
        text = escape_json(json.dumps(run, ensure_ascii=False)) + "\n"
    else:
        text = _line(run)
    print_text(text, format_name)


def _line(run: "Run") -> str:
    from rich.text import Text

    from otelchain.reading.run_line import STATUS_STYLES, duration
    from otelchain.reading.screen import console, drawn

    screen = console()
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
    line = Text(str(run["start_time"])[11:23].removesuffix("Z").ljust(12))
    line.append("  ").append(visible(status).ljust(11), style=STATUS_STYLES.get(status, ""))
    for part in rest:
        if part:
            line.append("  ").append(visible(part))
    if screen.is_terminal and sys.stdout.isatty():
        line.truncate(screen.width, overflow="ellipsis")
    return drawn(screen, line)
