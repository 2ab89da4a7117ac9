"""What a shell offers for the value of an option: what is stored, what a parameter takes.

Asked while somebody waits for a key: within a second, and never with an error.
"""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import available_timezones

import click
from click.shell_completion import CompletionItem

from otelchain.errors import OtelchainError
from otelchain.reading.place import Place
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    from otelchain.reading.source import Source
    from otelchain_collector.answer import Answer
    from otelchain_queries import Param

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_PATIENCE_SECONDS: Final = 1.0
_MOST: Final = 100
#: Parameters and options whose values stand in a column of the view ``runs``.
_COLUMNS: Final = {
    "name": "name",
    "run_type": "run_type",
    "service": "service_name",
    "status": "status",
}
# As the help of a parameter lists what it takes: "what to compare: time or version".
_CHOICES: Final = re.compile(r"(?:^|: )((?:\w+, )*\w+ or \w+)$")
_WORD: Final = re.compile(r"\w+")


def rows_of(ctx: click.Context, ask: "Callable[[Source], Answer]") -> list[list[Any]]:
    """Ask what the half-typed command line names; no rows when nobody answers in time."""
    try:
        from otelchain.reading.opening import open_source

        return ask(open_source(Place.of_context(ctx.params), _PATIENCE_SECONDS)).rows
    except (OtelchainError, ModuleNotFoundError):
        return []


def values_of(name: str) -> Complete | None:
    """Return what completes an option of this name; None when its values are not stored."""
    if name not in _COLUMNS:
        return None
    column = _COLUMNS[name]
    sql = f"SELECT {column} FROM runs WHERE {column} <> '' GROUP BY ALL ORDER BY count(*) DESC, 1"  # noqa: S608 - a column of our own

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        rows = rows_of(ctx, lambda source: source.sql(sql, _MOST))
        return _beginning(incomplete, (str(row[0]) for row in rows))

    return complete


def values_for(param: "Param") -> Complete | None:
    """Return what completes the parameter of a query; None when nothing is known about it."""
    if param.default in {"true", "false"}:
        return _one_of(("true", "false"))
    if listed := _CHOICES.search(param.help):
        return _one_of([word for word in _WORD.findall(listed[1]) if word != "or"])
    return values_of(param.name)


def time_zones(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of time zones."""
    return _beginning(incomplete, sorted(available_timezones()))


def _one_of(values: Iterable[str]) -> Complete:
    offered = tuple(values)
    return lambda _, __, incomplete: _beginning(incomplete, offered)


def _beginning(incomplete: str, values: Iterable[str]) -> list[CompletionItem]:
    """Return the values that begin so, without those that a terminal would obey."""
    return [
        CompletionItem(value)
        for value in values
        if value.startswith(incomplete) and visible(value) == value
    ]
