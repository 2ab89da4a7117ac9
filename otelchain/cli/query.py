"""``otelchain query``: one subcommand per question, with the options of its header."""

from pathlib import Path
from typing import Any, Final

import click

import otelchain_queries
from otelchain.cli.check import check_command
from otelchain.cli.group import Commands
from otelchain.cli.options import QUERIES_DIR, format_option
from otelchain.cli.place import PLACE, Place
from otelchain.cli.times import EXAMPLES, Time
from otelchain_queries import Param, Query

# Parameters that many queries have, with what the command line says about them.
_TIMES: Final = {
    "since": ("the beginning", f"Only what started at or after this time ({EXAMPLES})."),
    "until": ("no end", "Only what started before this time."),
    "split": ("24 hours before the newest run", "Where the new side begins, with --by time."),
}
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
        return _command(otelchain_queries.load(cmd_name, folders))


def _folders(ctx: click.Context) -> tuple[Path, ...]:
    return tuple(ctx.params.get("queries_dirs") or ())


@click.group("query", cls=QueryCommands, invoke_without_command=True, params=[QUERIES_DIR])
@click.pass_context
def query_command(ctx: click.Context, queries_dirs: tuple[Path, ...]) -> None:
    """Answer a named question about traced runs; without a name, list the questions.

    \b
    Example:
      otelchain query slow-tools --min-duration 5s --since 24h --format json
      otelchain query --queries-dir my-queries
      otelchain query check my-queries/refunds.sql
    """  # noqa: D301 - click reads the character \b
    if ctx.invoked_subcommand is None:
        _list(queries_dirs)


def _list(folders: tuple[Path, ...]) -> None:
    names = otelchain_queries.names(folders)
    width = max(map(len, names), default=0)
    for name in names:
        click.echo(f"{name:{width}}  {otelchain_queries.load(name, folders).title}")


def _command(query: Query) -> click.Command:
    def ask(format_name: str, **values: Any) -> None:
        from otelchain.cli.output import print_answer
        from otelchain.reading.source import open_source

        place = Place.taken_from(values)
        texts = {name: str(value) for name, value in values.items()}
        answer = open_source(place).query(query, texts)
        print_answer(answer, format_name, "raise --limit, or ask for a shorter time")

    options = [_option(param) for param in query.params]
    return click.Command(
        query.name,
        callback=ask,
        params=[*options, format_option(), *PLACE],
        help=_help(query),
        short_help=query.title,
    )


def _option(param: Param) -> click.Option:
    names = [f"--{param.name.replace('_', '-')}", param.name]
    if param.name in _TIMES:
        default_text, text = _TIMES[param.name]
        return click.Option(
            names, type=Time(), default=param.default, show_default=default_text, help=text
        )
    if param.name == "limit":
        return click.Option(
            names,
            type=click.IntRange(min=0),
            default=int(param.default),
            show_default=True,
            help=param.help,
        )
    return click.Option(
        names,
        default=param.default,
        show_default=bool(param.default),
        metavar="TEXT",
        help=param.help,
    )


def _help(query: Query) -> str:
    example = query.example or f"otelchain query {query.name} --format json"
    next_step = f"Next: {query.next}" if query.next else ""
    parts = [
        f"{query.title}.",
        query.description,
        query.why,
        next_step,
        f"\b\nExample:\n  {example}",
    ]
    return "\n\n".join(part for part in parts if part)
