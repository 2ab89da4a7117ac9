"""``otelchain query``: one subcommand per question, with the options of its header."""

import sys
from pathlib import Path
from typing import Any, Final

import click

import otelchain_queries
from otelchain.cli.check import check_command
from otelchain.cli.group import Commands
from otelchain.cli.named_query import named_command
from otelchain.cli.options import QUERIES_DIR, TEXTS, format_option

_CHECK: Final = "check"


class QueryCommands(Commands):
    """The queries as commands, those of the user's own folders too."""

    noun = "query"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the queries, and the command that checks a file."""
        return sorted([*otelchain_queries.names(_folders(ctx)), _CHECK])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command made from a query's header."""
        if cmd_name == _CHECK:
            return check_command
        folders = _folders(ctx)
        if cmd_name not in otelchain_queries.names(folders):
            return None
        return named_command(otelchain_queries.load(cmd_name, folders), cmd_name)


def _folders(ctx: click.Context) -> tuple[Path, ...]:
    return tuple(ctx.params.get("queries_dirs") or ())


@click.group(
    "query",
    cls=QueryCommands,
    invoke_without_command=True,
    params=[QUERIES_DIR, format_option(("list", *TEXTS))],
)
@click.pass_context
def query_command(ctx: click.Context, /, queries_dirs: tuple[Path, ...], format_name: str) -> None:
    """Answer a named question about traced runs; without a name, list the questions.

    \b
    Example:
      otelchain query slow-tools --min-duration 5s --since 24h --format json
      otelchain query --queries-dir my-queries
      otelchain query check my-queries/refunds.sql
    """  # noqa: D301 - click reads the character \b
    if ctx.invoked_subcommand is None:
        _list(queries_dirs, format_name)
    elif format_name != "list":
        raise click.UsageError(f"write --format after {ctx.invoked_subcommand!r}", ctx)


def _list(folders: tuple[Path, ...], format_name: str) -> None:
    queries = [otelchain_queries.load(name, folders) for name in otelchain_queries.names(folders)]
    if format_name == "list":
        width = max((len(query.name) for query in queries), default=0)
        for query in queries:
            click.echo(f"{query.name:{width}}  {query.title}")
        return
    from otelchain.cli.output import answer_text
    from otelchain.cli.printing import print_text
    from otelchain_collector.answers import Answer, Column

    names = ("name", "title", "description", "params")
    columns = tuple(Column(name, "VARCHAR") for name in names)
    rows: list[Any] = [
        [query.name, query.title, query.description, [param.name for param in query.params]]
        for query in queries
    ]
    text = answer_text(Answer(columns, rows), format_name, on_terminal=sys.stdout.isatty())
    print_text(text, format_name)
