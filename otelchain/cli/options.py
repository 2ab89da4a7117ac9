"""Options that several commands share, each written once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from otelchain.cli.completing import values_of
from otelchain.reading.place import DEFAULT_DATABASE

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

#: How rows can be printed, and how they can be written into a file.
TEXTS: Final = ("table", "json", "jsonl", "csv", "markdown")
FORMATS: Final = (*TEXTS, "parquet")

DATABASE: Final[click.Option] = click.Option(
    ["--database"],
    type=click.Path(path_type=Path),
    default=DEFAULT_DATABASE,
    show_default=True,
    envvar="OTELCHAIN_DATABASE",
    show_envvar=True,
    help="DuckDB file written by the collector. While a collector has it open, that collector "
    "is asked instead.",
)
ENDPOINT: Final[click.Option] = click.Option(
    ["--endpoint"],
    metavar="URL",
    envvar="OTELCHAIN_ENDPOINT",
    show_envvar=True,
    help="HTTP address of a running collector to ask, such as http://127.0.0.1:4318.",
)
QUERIES_DIR: Final = click.Option(
    ["--queries-dir", "queries_dirs"],
    multiple=True,
    type=click.Path(path_type=Path),
    envvar="OTELCHAIN_QUERIES",
    show_envvar=True,
    # Known before --help lists the queries.
    is_eager=True,
    help="Folder with .sql files of your own, which join the bundled queries; may be repeated (in "
    "the variable: several, separated as in PATH).",
)


COLOR: Final = click.Option(
    ["--color"],
    type=click.Choice(("auto", "always", "never"), case_sensitive=False),
    default="auto",
    show_default="auto: on a terminal, unless NO_COLOR is set",
    help="Whether tables and trees are coloured.",
)


def filter_option(name: str, text: str, default: str | None = "") -> click.Option:
    """Return an option that narrows what is shown to one value; the shell completes it."""
    param = name.replace("-", "_")
    return click.Option(
        [f"--{name}"], metavar="TEXT", default=default, help=text, shell_complete=values_of(param)
    )


def format_option(formats: tuple[str, ...] = FORMATS) -> click.Option:
    """Return ``--format``; the first format is the default."""
    return click.Option(
        ["--format", "format_name"],
        type=click.Choice(formats, case_sensitive=False),
        default=formats[0],
        show_default=True,
        help="How to print the rows; parquet needs -o FILE."
        if "parquet" in formats
        else "How to print it.",
    )


def with_options(*options: click.Parameter) -> Callable[[Decorated], Decorated]:
    """Give a command's function these options, in this order."""

    def decorate(function: Decorated) -> Decorated:
        # Where click.option() keeps what it collects; last comes first there.
        collected = function.__dict__.setdefault("__click_params__", [])
        collected.extend(reversed(options))
        return function

    return decorate
