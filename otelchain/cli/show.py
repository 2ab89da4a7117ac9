"""``otelchain show``: the runs of one trace as a tree."""

from typing import TYPE_CHECKING, Any

import click

import otelchain_queries
from otelchain.cli.asking import Asking, asking_options, named
from otelchain.cli.options import with_options
from otelchain.cli.trace_id import TraceId

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from otelchain.reading.run_line import Run
    from otelchain_collector.answer import Answer


@click.command("show")
@click.argument("trace_id", metavar="TRACE_ID|last", type=TraceId())
@with_options(
    click.Option(["--full"], is_flag=True, help="Print inputs, outputs and errors whole."),
    click.Option(
        ["--waterfall"], is_flag=True, help="Print a bar for each run that shows when it ran."
    ),
    *asking_options("tree"),
)
def show_command(trace_id: str, full: bool, waterfall: bool, **values: Any) -> None:
    """Print the runs of a trace as a tree, with status, duration, tokens, inputs and outputs.

    TRACE_ID may be the beginning of an id; last is the newest trace. The other formats print the
    rows of the query 'trace'.

    \b
    Example:
      otelchain show last
      otelchain show 4bf92f35 --full
      otelchain show last --waterfall --watch
    """  # noqa: D301 - click reads the character \b
    asking = Asking.taken_from(values)
    if waterfall and (full or asking.showing.format_name != "tree"):
        raise click.UsageError("--waterfall draws a tree; leave out --full and --format")

    def draw(answer: "Answer", screen: "Callable[[], Console]") -> str:
        from otelchain.reading.run_tree import tree_text
        from otelchain.reading.waterfall import waterfall_text

        runs = _runs(answer, trace_id)
        return waterfall_text(runs, screen()) if waterfall else tree_text(runs, screen(), full=full)

    query = otelchain_queries.load("trace")
    question = named(query, lambda: {"trace_id": trace_id})
    more = "ask 'otelchain query trace' with a higher --limit"
    asking.answer(question, more, {"tree": draw})


def _runs(answer: "Answer", trace_id: str) -> "list[Run]":
    from otelchain.reading.whole_id import UnknownTraceError

    if not answer.rows:
        raise UnknownTraceError(trace_id)
    names = [column.name for column in answer.columns]
    return [dict(zip(names, row, strict=True)) for row in answer.rows]
