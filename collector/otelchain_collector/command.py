"""The ``collector`` command: settings from options and variables (to the server)."""

import os
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click

from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import CollectorSettings, parse_age, parse_bytes, shown_default

_Command = Callable[..., None]
# A day; timers refuse more than some 290 years, and then there would be no limit at all.
_MOST_SECONDS = 86_400


class _OneLineFailure(click.ClickException):
    exit_code = 2


def _options(command: _Command) -> _Command:
    """Add one option for each setting that may stand on a command line."""
    for setting in reversed(fields(CollectorSettings)):
        if not setting.metadata["option"]:
            continue
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
    """Return how click reads a setting, by its kind."""
    kind = setting.metadata["kind"]
    if kind == "flag":
        return {"is_flag": True}
    if kind in _REPEATED:
        return {"multiple": True, "metavar": _REPEATED[kind]}
    shown = shown_default(setting)
    default = {"default": shown, "show_default": True} if shown else {}
    return {**default, **_FORMS[kind](setting)}


def _parsed_by(parse: Callable[[str], int]) -> Callable[..., int | None]:
    def read(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return read


_REPEATED: dict[str, str] = {"ages": "SERVICE=AGE", "names": "NAME"}
_FORMS: dict[str, Callable[["Field[Any]"], dict[str, Any]]] = {
    "address": lambda _: {"metavar": "HOST:PORT"},
    "age": lambda _: {"callback": _parsed_by(parse_age), "metavar": "AGE"},
    "choice": lambda setting: {"type": click.Choice(setting.metadata["choices"])},
    "count": lambda _: {"type": click.IntRange(min=1), "metavar": "NUMBER"},
    "path": lambda _: {"type": click.Path(path_type=Path)},
    "policy": lambda _: {"metavar": "FILE|PRESET"},
    "seconds": lambda _: {"type": click.IntRange(1, _MOST_SECONDS), "metavar": "SECONDS"},
    "size": lambda _: {"callback": _parsed_by(parse_bytes), "metavar": "SIZE"},
}


def _secrets() -> dict[str, Any]:
    """Return the settings that come from variables only."""
    return {
        setting.name: os.environ.get(setting.metadata["variable"], "")
        for setting in fields(CollectorSettings)
        if setting.metadata["kind"] == "secret"
    }


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
        run(CollectorSettings(**values, **_secrets()))
    except CollectorError as error:
        raise _OneLineFailure(str(error)) from error
