"""``otelchain query``: one subcommand per file of the bundle, with the options of its header."""

from typing import Any, Final

import click

import otelchain_queries
from otelchain.cli.group import Commands
from otelchain.cli.options import format_option
from otelchain.cli.place import PLACE, Place
from otelchain.cli.times import EXAMPLES, Time
from otelchain_queries import Param, Query

# Parameters that many queries have, with what the command line says about them.
_TIMES: Final = {
    "since": ("the beginning", f"Only what started at or after this time ({EXAMPLES})."),
    "until": ("no end", "Only what started before this time."),
}


class QueryCommands(Commands):
    """The queries of the bundle as commands."""

    noun = "query"

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the bundle."""
        return otelchain_queries.names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return the command made from a query's header."""
        if cmd_name not in otelchain_queries.names():
            return None
        return _command(otelchain_queries.load(cmd_name))


@click.group("query", cls=QueryCommands, invoke_without_command=True)
@click.pass_context
def query_command(ctx: click.Context) -> None:
    """Answer a named question about traced runs; without a name, list the questions.

    \b
    Example:
      otelchain query slow-tools --min-duration 5s --since 24h --format json
    """  # noqa: D301 - click reads the character \b
    if ctx.invoked_subcommand is None:
        _list()


def _list() -> None:
    names = otelchain_queries.names()
    width = max(map(len, names), default=0)
    for name in names:
        click.echo(f"{name:{width}}  {otelchain_queries.load(name).title}")


def _command(query: Query) -> click.Command:
    def ask(format_name: str, **values: Any) -> None:
        from otelchain.cli.output import print_answer
        from otelchain.cli.source import open_source

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
    own = [param for param in query.params if param.name not in {*_TIMES, "limit", "service"}]
    options = [
        f"--{param.name.replace('_', '-')} {param.default}" for param in own if param.default
    ]
    example = " ".join(["otelchain query", query.name, *options[:1], "--format json"])
    parts = [f"{query.title}.", query.description, query.why, f"\b\nExample:\n  {example}"]
    return "\n\n".join(part for part in parts if part)
