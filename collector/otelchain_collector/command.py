"""The ``collector`` command: settings from options and variables (to the server)."""

from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click

from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import CollectorSettings, parse_bytes, shown_default

_Command = Callable[..., None]


class _OneLineFailure(click.ClickException):
    exit_code = 2


def _options(command: _Command) -> _Command:
    """Add one option for each setting."""
    for setting in reversed(fields(CollectorSettings)):
        names = (setting.metadata["option"], setting.name)
        command = click.option(
            *names,
            envvar=setting.metadata["variable"],
            show_envvar=True,
            help=setting.metadata["help"].replace("`", ""),
            **_parsing(setting),
        )(command)
    return command


def _parsing(setting: "Field[Any]") -> dict[str, Any]:
    """Return how click reads a setting, by the type of its default."""
    if isinstance(setting.default, bool):
        return {"is_flag": True}
    if isinstance(setting.default, tuple):
        return {"multiple": True, "metavar": "NAME"}
    shown = {"default": shown_default(setting), "show_default": True}
    if isinstance(setting.default, int):
        return {**shown, "callback": _bytes, "metavar": "SIZE"}
    if isinstance(setting.default, Path):
        return {**shown, "type": click.Path(path_type=Path)}
    return {**shown, "metavar": "HOST:PORT"}


def _bytes(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("collector")
@_options
def collector_command(**values: Any) -> None:
    """Collect traces, logs and metrics into a DuckDB file and answer questions about them.

    Runs until SIGTERM or Ctrl+C, then commits what it has and ends. When it is ready it prints one
    line with its addresses.

    \b
    Example:
      otelchain collector --database traces.duckdb
    """  # noqa: D301 - click reads the character \b
    # The servers and DuckDB take a second to load; --help should not.
    from otelchain_collector.server import run

    try:
        run(CollectorSettings(**values))
    except CollectorError as error:
        raise _OneLineFailure(str(error)) from error
