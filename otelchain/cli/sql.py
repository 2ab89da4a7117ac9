"""``otelchain sql``: a SELECT of the user's own."""

import sys
from typing import Any, Final

import click

from otelchain.cli.asking import Asking, asking_options, statement
from otelchain.cli.options import with_options

_DEFAULT_LIMIT: Final = 1_000
# What the collector's API lets through; the same for a file, so that answers are the same.
_MAX_LIMIT: Final = 100_000


@click.command("sql")
@click.argument("text", metavar="STATEMENT")
@with_options(
    click.Option(
        ["--limit"],
        type=click.IntRange(0, _MAX_LIMIT),
        default=_DEFAULT_LIMIT,
        show_default=True,
        help="Most rows to print.",
    ),
    *asking_options(),
)
def sql_command(text: str, limit: int, **values: Any) -> None:
    """Answer STATEMENT, one SELECT in DuckDB's SQL; ``-`` reads it from standard input.

    The view runs has one row per run, the table spans one per span as it arrived. Nothing can be
    changed, and no file or address can be read.

    \b
    Example:
      otelchain sql 'SELECT run_type, count(*) FROM runs GROUP BY run_type'
      otelchain sql - --format csv < question.sql
    """  # noqa: D301 - click reads the character \b
    asking = Asking.taken_from(values)
    sql = sys.stdin.read() if text == "-" else text
    asking.answer(statement(sql, limit), "raise --limit")
