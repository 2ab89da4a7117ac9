"""A query → a command whose options are the parameters of its header."""

from typing import Any, Final

import click

from otelchain.cli.asking import Asking, asking_options, named
from otelchain.cli.completing import values_for
from otelchain.cli.times import TIMEZONE, Time
from otelchain.cli.trace_id import TraceId
from otelchain.reading.times import EXAMPLES
from otelchain_collector.answer import MAX_ROWS
from otelchain_queries import Param, Query

# Parameters that many queries have, with what the command line says about them.
_TIMES: Final = {
    "since": ("the beginning", f"Only what started at or after this time ({EXAMPLES})."),
    "until": ("no end", "Only what started before this time."),
    "now": ("the present", "Count times without an end up to this time."),
    "after": ("the beginning", "Only what was received at or after this time."),
    "split": ("24 hours before the newest run", "Where the new side begins, with --by time."),
}
# Unlike the query itself, the command looks up the whole id.
_ONE_TRACE: Final = "Only this trace: an id, the beginning of one, or last."


def named_command(query: Query, name: str, example: str = "") -> click.Command:
    """Return a command that asks a query.

    Args:
        query: The query; its parameters are the options.
        name: Of the command.
        example: A command line; the query's own unless given.
    """

    def ask(**values: Any) -> None:
        asking = Asking.taken_from(values)
        question = named(query, lambda: {name: str(value) for name, value in values.items()})
        asking.answer(question, "raise --limit, or ask for a shorter time")

    options = [_option(param) for param in query.params]
    times = [TIMEZONE] if any(param.name in _TIMES for param in query.params) else []
    return click.Command(
        name,
        callback=ask,
        params=[*options, *times, *asking_options()],
        help=_help(query, example or query.example),
        short_help=query.title,
    )


def _option(param: Param) -> click.Option:
    names = [f"--{param.name.replace('_', '-')}", param.name]
    if param.name in _TIMES:
        default_text, text = _TIMES[param.name]
        return click.Option(
            names, type=Time(), default=param.default, show_default=default_text, help=text
        )
    if param.name == "trace_id":
        return click.Option(
            names,
            type=TraceId(),
            default=param.default,
            show_default=bool(param.default),
            metavar="ID",
            help=param.help if param.default else _ONE_TRACE,
        )
    if param.name == "limit":
        return click.Option(
            names,
            type=click.IntRange(0, MAX_ROWS),
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
        shell_complete=values_for(param),
    )


def _help(query: Query, example: str) -> str:
    example = example or f"otelchain query {query.name} --format json"
    next_step = f"Next: {query.next}" if query.next else ""
    parts = [
        f"{query.title}.",
        query.description,
        query.why,
        next_step,
        f"\b\nExample:\n  {example}",
    ]
    return "\n\n".join(part for part in parts if part)
