"""``otelchain query``: one subcommand per question, with the options of its header."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import otelchain_queries
from otelchain.cli.check import check_command
from otelchain.cli.group import Commands
from otelchain.cli.named_query import named_command
from otelchain.cli.options import QUERIES_DIR
from otelchain.cli.showing import Showing, is_given, showing_options

if TYPE_CHECKING:
    from otelchain_collector.answer import Answer, JSONValue

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
    params=[QUERIES_DIR, *showing_options("list")],
)
@click.pass_context
def query_command(ctx: click.Context, /, queries_dirs: tuple[Path, ...], **values: Any) -> None:
    """Answer a named question about traced runs; without a name, list the questions.

    \b
    Example:
      otelchain query slow-tools --min-duration 5s --since 24h --format json
      otelchain query --queries-dir my-queries
      otelchain query check my-queries/refunds.sql
    """  # noqa: D301 - click reads the character \b
    if ctx.invoked_subcommand is not None:
        for param in ctx.command.params:
            if param.name in values and is_given(param.name):
                name = param.opts[0]
                raise click.UsageError(f"write {name} after {ctx.invoked_subcommand!r}", ctx)
        return
    showing = Showing.taken_from(values)
    showing.end(showing.show(_queries(queries_dirs), drawings={"list": _listed}))


def _queries(folders: tuple[Path, ...]) -> "Answer":
    from otelchain_collector.answer import Answer, Column

    texts = tuple(Column(name, "VARCHAR") for name in ("name", "title", "description"))
    queries = [otelchain_queries.load(name, folders) for name in otelchain_queries.names(folders)]
    rows: list[list[JSONValue]] = [
        [query.name, query.title, query.description, [param.name for param in query.params]]
        for query in queries
    ]
    return Answer((*texts, Column("params", "VARCHAR[]")), rows)


def _listed(answer: "Answer", _: object) -> str:
    width = max((len(str(row[0])) for row in answer.rows), default=0)
    return "".join(f"{row[0]:{width}}  {row[1]}\n" for row in answer.rows)
