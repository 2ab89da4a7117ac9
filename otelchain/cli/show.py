"""``otelchain show``: the runs of one trace as a tree."""

from typing import TYPE_CHECKING, Any

import click

import otelchain_queries
from otelchain.cli.options import FORMATS, format_option, with_options
from otelchain.cli.place import PLACE, Place
from otelchain.errors import OtelchainError

if TYPE_CHECKING:
    from otelchain_collector.answers import Answer


class UnknownTraceError(OtelchainError):
    """No stored trace has that id."""


@click.command("show")
@click.argument("trace_id", metavar="TRACE_ID|last")
@with_options(
    click.Option(["--full"], is_flag=True, help="Print inputs, outputs and errors whole."),
    format_option(("tree", *FORMATS)),
    *PLACE,
)
def show_command(trace_id: str, full: bool, format_name: str, **place: Any) -> None:
    """Print the runs of a trace as a tree, with status, duration, tokens, inputs and outputs.

    TRACE_ID may be the beginning of an id; last is the newest trace. The other formats print the
    rows of the query 'trace'.

    \b
    Example:
      otelchain show last
      otelchain show 4bf92f35 --full
    """  # noqa: D301 - click reads the character \b
    from otelchain.cli.output import print_answer
    from otelchain.reading.source import open_source

    query = otelchain_queries.load("trace")
    answer = open_source(Place(**place)).query(query, {"trace_id": trace_id})
    if not answer.rows:
        raise UnknownTraceError(nothing(trace_id))
    if format_name == "tree":
        _print_tree(answer, full)
    else:
        print_answer(answer, format_name, "ask 'otelchain query trace' with a higher --limit")


def _print_tree(answer: "Answer", full: bool) -> None:
    from otelchain.cli.tree import print_tree

    names = [column.name for column in answer.columns]
    runs: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in answer.rows]
    print_tree(runs, full=full)


def nothing(trace_id: str) -> str:
    """Say that there is no such trace, and what to do."""
    if trace_id == "last":
        return "there are no traces yet; trace an application, or see one with: otelchain demo"
    return f"no trace has an id that begins with {trace_id!r}; list them: otelchain query traces"
