"""``otelchain sql``: a SELECT of the user's own."""

import sys
from typing import Any, Final

import click

from otelchain.cli.options import format_option, with_options
from otelchain.cli.place import PLACE, Place

_DEFAULT_LIMIT: Final = 1_000
# What the collector's API lets through; the same for a file, so that answers are the same.
_MAX_LIMIT: Final = 100_000


@click.command("sql")
@click.argument("statement")
@with_options(
    click.Option(
        ["--limit"],
        type=click.IntRange(0, _MAX_LIMIT),
        default=_DEFAULT_LIMIT,
        show_default=True,
        help="Most rows to print.",
    ),
    format_option(),
    *PLACE,
)
def sql_command(statement: str, limit: int, format_name: str, **place: Any) -> None:
    """Answer STATEMENT, one SELECT in DuckDB's SQL; ``-`` reads it from standard input.

    The view runs has one row per run, the table spans one per span as it arrived. Nothing can be
    changed, and no file or address can be read.

    \b
    Example:
      otelchain sql 'SELECT run_type, count(*) FROM runs GROUP BY run_type'
      otelchain sql - --format csv < question.sql
    """  # noqa: D301 - click reads the character \b
    from otelchain.cli.output import print_answer
    from otelchain.reading.source import open_source

    sql = sys.stdin.read() if statement == "-" else statement
    answer = open_source(Place(**place)).sql(sql, limit)
    print_answer(answer, format_name, "raise --limit")
