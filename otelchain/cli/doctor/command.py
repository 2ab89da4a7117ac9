"""The command: every check in order, then the exit code."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from otelchain.cli.doctor.finding import Finding
from otelchain.cli.options import format_option, with_options
from otelchain.cli.place import PLACE, Place

_SIGNS: Final = {"ok": "ok     ", "note": "note   ", "warning": "WARNING", "error": "ERROR  "}


_READ_ALL: Final = click.Option(
    ["--read-all"],
    is_flag=True,
    help="Also read every row, to find damaged parts of the file; it takes as long as a copy.",
)


@click.command("doctor")
@with_options(format_option(("text", "json")), _READ_ALL, *PLACE)
def doctor_command(format_name: str, read_all: bool, **place: Any) -> None:
    """Find out why spans do not arrive, or answers do not come.

    Looks at the variables of this shell, so run it where the application runs: settings, where the
    exporter sends and who answers there, proxies, clock, file, disk. An empty request is sent, and
    nothing is changed. The exit code is 0 when nothing is wrong, 1 when an error was found.

    \b
    Example:
      otelchain doctor
      otelchain doctor --read-all --database traces.duckdb
      otelchain doctor --format json | jq '.[] | select(.level == "error")'
    """  # noqa: D301 - click reads the character \b
    findings = []
    for finding in _examine(Place(**place), read_all):
        findings.append(finding)
        if format_name == "text":
            # At once: a check that waits for an answer takes seconds.
            _print(finding)
    if format_name == "json":
        click.echo(json.dumps([finding.to_json() for finding in findings], indent=1))
    if any(finding.level == "error" for finding in findings):
        click.get_current_context().exit(1)


def _examine(place: Place, read_all: bool) -> Iterator[Finding]:
    from otelchain.cli.doctor.blocks import blocks
    from otelchain.cli.doctor.database import database
    from otelchain.cli.doctor.exporter import Exporter
    from otelchain.cli.doctor.numbers import numbers
    from otelchain.cli.doctor.probe import certificates, probe
    from otelchain.cli.doctor.variables import (
        exporter_settings,
        own_settings,
        proxies,
        retries,
        switches,
    )

    exporter = Exporter.of(os.environ)
    yield from own_settings(os.environ)
    yield from switches(os.environ)
    yield from exporter_settings(os.environ, exporter)
    yield from numbers(os.environ)
    yield from proxies(os.environ, exporter)
    yield from certificates(exporter, place)
    yield from probe(exporter, place)
    yield retries(os.environ, exporter)
    yield from database(place, exporter)
    if read_all:
        yield from blocks(place)


def _print(finding: Finding) -> None:
    click.echo(f"{_SIGNS[finding.level]} {finding.check}: {finding.text}")
    if finding.remedy:
        click.echo(f"        -> {finding.remedy}")
    sys.stdout.flush()
