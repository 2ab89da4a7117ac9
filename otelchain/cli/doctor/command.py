"""The command: every check in order, then the exit code."""

import os
import sys
from collections.abc import Iterator
from dataclasses import astuple, fields
from typing import Any, Final, get_args

import click

from otelchain.cli.doctor.finding import Finding, Level
from otelchain.cli.options import with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.showing import Showing, showing_options
from otelchain.reading.extras import extra_of
from otelchain.reading.visible import visible

_SIGNS: Final = {"ok": "ok     ", "note": "note   ", "warning": "WARNING", "error": "ERROR  "}
_LEVELS: Final = get_args(Level)


_READ_ALL: Final = click.Option(
    ["--read-all"],
    is_flag=True,
    help="Also read every row, to find damaged parts of the file; it takes as long as a copy.",
)


@click.command("doctor")
@with_options(
    click.Option(
        ["--level"],
        type=click.Choice(_LEVELS, case_sensitive=False),
        default=_LEVELS[0],
        show_default=True,
        help="Show only what is at least as bad.",
    ),
    _READ_ALL,
    *showing_options("text"),
    *PLACE,
)
def doctor_command(level: Level, read_all: bool, **values: Any) -> None:
    """Find out why spans do not arrive, or answers do not come.

    Looks at the variables of this shell, so run it where the application runs: settings, where the
    exporter sends and who answers there, proxies, clock, file, disk. An empty request is sent, and
    nothing is changed. The exit code is 0 when nothing is wrong, 1 when an error was found.

    \b
    Example:
      otelchain doctor
      otelchain doctor --read-all --database traces.duckdb
      otelchain doctor --level warning --fail-on-rows
      otelchain doctor --format json | jq '.[] | select(.level == "error")'
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.answer import Answer, Column

    showing = Showing.taken_from(values)
    found, least = [], _LEVELS.index(level)
    for finding in _examine(Place.taken_from(values), read_all):
        if _LEVELS.index(finding.level) < least:
            continue
        found.append(finding)
        if showing.format_name == "text" and showing.output is None:
            # At once: a check that waits for an answer takes seconds.
            click.echo(_text(finding), nl=False)
            sys.stdout.flush()
    columns = tuple(Column(field.name, "VARCHAR") for field in fields(Finding))
    answer = Answer(columns, [list(astuple(finding)) for finding in found])
    if showing.format_name != "text" or showing.output is not None or not found:
        showing.show(answer, drawings={"text": lambda *_: "".join(map(_text, found))})
    showing.end(answer, failed=any(finding.level == "error" for finding in found))


def _examine(place: Place, read_all: bool) -> Iterator[Finding]:
    from otelchain.cli.doctor.exporter import Exporter
    from otelchain.cli.doctor.exporter_settings import exporter_settings
    from otelchain.cli.doctor.numbers import numbers
    from otelchain.cli.doctor.probe import certificates, probe
    from otelchain.cli.doctor.signals import signals
    from otelchain.cli.doctor.variables import own_settings, proxies, retries, switches

    exporter = Exporter.of(os.environ)
    yield from own_settings(os.environ)
    yield from switches(os.environ)
    yield from exporter_settings(os.environ, exporter)
    yield from signals(os.environ, exporter)
    yield from numbers(os.environ)
    yield from proxies(os.environ, exporter)
    yield from certificates(exporter, place)
    arrives = False
    for finding in probe(exporter):
        arrives = arrives or (finding.check, finding.level) == ("port", "ok")
        yield finding
    yield retries(os.environ, exporter)
    try:
        from otelchain.cli.doctor.blocks import blocks
        from otelchain.cli.doctor.database import database
    except ModuleNotFoundError as error:
        if extra_of(error) is None:
            raise
        # Where only an application runs there is no file to look at.
        yield Finding(
            "file",
            "note",
            "not looked at: the collector extra is not installed here",
            "where the collector runs: pip install 'otelchain[collector]'",
        )
    else:
        yield from database(place, exporter, arrives=arrives)
        if read_all:
            yield from blocks(place)


def _text(finding: Finding) -> str:
    line = f"{_SIGNS[finding.level]} {finding.check}: {visible(finding.text)}\n"
    return line + (f"        -> {visible(finding.remedy)}\n" if finding.remedy else "")
