"""``otelchain diagnose``: ask every query whose rows are findings, and tell them by weight."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import otelchain_queries
from otelchain.cli.options import QUERIES_DIR, format_option, with_options
from otelchain.cli.place import PLACE, Place
from otelchain.cli.times import Moment, Time
from otelchain.cli.trace_id import TraceId
from otelchain.reading.visible import visible
from otelchain_queries import Query

if TYPE_CHECKING:
    from otelchain.reading.source import Source
    from otelchain_collector.answers import Answer

_DEFAULT_SHOWN: Final = 3
_FOUND: Final = 1


@dataclass(frozen=True)
class Found:
    """A finding: one row of one query, in words.

    Args:
        weight: Of the query; a greater one comes first.
        query: Its name.
        text: The sentence; it holds names and numbers, no content.
        trace_id: A trace to look at; None when the query has none.
        more: How many findings of this query are not shown, on its last one; else 0.
    """

    weight: int
    query: str
    text: str
    trace_id: str | None
    more: int = 0


@click.command("diagnose")
@click.argument("trace_id", metavar="[TRACE_ID|last]", required=False, type=TraceId())
@with_options(
    click.Option(
        ["--since"],
        type=Time(),
        default="24h",
        show_default="24h, or the whole trace",
        help="Only what started at or after this time.",
    ),
    click.Option(["--until"], type=Time(), help="Only what started before this time."),
    click.Option(["--service"], default="", help="Only this service."),
    click.Option(
        ["--each"],
        type=click.IntRange(min=1),
        default=_DEFAULT_SHOWN,
        show_default=True,
        help="Most findings of one query.",
    ),
    click.Option(["--exit-code"], is_flag=True, help="Exit with 1 when there is a finding."),
    format_option(("text", "json")),
    QUERIES_DIR,
    *PLACE,
)
@click.pass_context
def diagnose_command(
    ctx: click.Context,
    /,
    trace_id: str | None,
    since: Moment,
    until: Moment | None,
    service: str,
    each: int,
    exit_code: bool,
    format_name: str,
    queries_dirs: tuple[Path, ...],
    **place: Any,
) -> None:
    """Say in words what is wrong: in the last 24 hours, or in one trace.

    Every query whose header says how a row becomes a finding is asked with its defaults; the
    findings are told in order of weight, and hold no content. A query that cannot be answered is
    named on standard error.

    \b
    Example:
      otelchain diagnose --since 7d
      otelchain diagnose last
      otelchain diagnose --exit-code --format json
    """  # noqa: D301 - click reads the character \b
    from otelchain.reading.source import open_source

    source = open_source(Place(**place))
    values = {"service": service, **({"until": str(until)} if until else {})}
    if trace_id is None:
        values["since"] = str(since)
    else:
        values |= _whole(source, trace_id)
    queries = [query for query in _queries(queries_dirs) if values.keys() <= _taken(query)]
    found = [finding for query in queries for finding in _ask(source, query, values, each)]
    found.sort(key=lambda finding: -finding.weight)
    _print(found, format_name, values)
    if found and exit_code:
        ctx.exit(_FOUND)


def _queries(folders: tuple[Path, ...]) -> Iterator[Query]:
    for name in otelchain_queries.names(folders):
        query = otelchain_queries.load(name, folders)
        if query.finding is not None:
            yield query


def _taken(query: Query) -> set[str]:
    return {param.name for param in query.params}


def _whole(source: "Source", trace_id: str) -> dict[str, str]:
    """Return the values that narrow a query to a trace: its whole id, and when it began."""
    from otelchain.reading.trace_tree import UnknownTraceError

    answer = source.query(otelchain_queries.load("trace"), {"trace_id": trace_id})
    rows = list(_rows(answer))
    if not rows:
        raise UnknownTraceError(trace_id)
    begun = min(str(row["start_time"]) for row in rows)
    return {"trace_id": str(rows[0]["trace_id"]), "since": begun}


def _ask(source: "Source", query: Query, values: Mapping[str, str], each: int) -> list[Found]:
    from otelchain_collector.answers import QueryFailed

    try:
        rows = _rows(source.query(query, values))
    except QueryFailed as error:
        click.echo(f"{query.name} was not answered: {visible(str(error))}", err=True)
        return []
    finding = query.finding
    assert finding is not None
    told = [(text, row) for row in rows if (text := finding.sentence(row)) is not None]
    found = [
        Found(finding.weight, query.name, text, row.get("trace_id")) for text, row in told[:each]
    ]
    if len(told) > each:
        found[-1] = replace(found[-1], more=len(told) - each)
    return found


def _rows(answer: "Answer") -> Iterator[dict[str, Any]]:
    names = [column.name for column in answer.columns]
    return (dict(zip(names, row, strict=True)) for row in answer.rows)


def _print(found: list[Found], format_name: str, values: Mapping[str, str]) -> None:
    if format_name == "json":
        click.echo(json.dumps([asdict(finding) for finding in found], indent=2))
        return
    for finding in found:
        click.echo(visible(finding.text))
        look = f"  look: otelchain show {finding.trace_id}" if finding.trace_id else ""
        more = f"  {finding.more} more: {_command(finding.query, values)}" if finding.more else ""
        for line in (look, more):
            if line:
                click.echo(line)
    if not found:
        click.echo("nothing found", err=True)


def _command(query: str, values: Mapping[str, str]) -> str:
    """Return the command that asks the query about the same runs."""
    options = ((f"--{name.replace('_', '-')}", value) for name, value in values.items() if value)
    return shlex.join(["otelchain", "query", query, *(part for pair in options for part in pair)])
