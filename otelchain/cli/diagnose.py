"""``otelchain diagnose``: ask every query whose rows are findings, and tell them by weight."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import otelchain_queries
from otelchain.cli.asking import Asking, Question, asking_options
from otelchain.cli.options import QUERIES_DIR, filter_option, with_options
from otelchain.cli.times import TIMEZONE, Moment, Time
from otelchain.cli.trace_id import TraceId
from otelchain.reading.visible import visible
from otelchain_queries import Query

if TYPE_CHECKING:
    from otelchain.reading.source import Source
    from otelchain_collector.answer import Answer

_DEFAULT_SHOWN: Final = 3
_COLUMNS: Final = (
    ("weight", "BIGINT"),
    ("query", "VARCHAR"),
    ("text", "VARCHAR"),
    ("trace_id", "VARCHAR"),
    ("more", "BIGINT"),
)


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
    TIMEZONE,
    filter_option("service", "Only this service."),
    click.Option(
        ["--each"],
        type=click.IntRange(min=1),
        default=_DEFAULT_SHOWN,
        show_default=True,
        help="Most findings of one query.",
    ),
    QUERIES_DIR,
    *asking_options("text"),
)
def diagnose_command(
    trace_id: str | None,
    since: Moment,
    until: Moment | None,
    service: str,
    each: int,
    queries_dirs: tuple[Path, ...],
    **values: Any,
) -> None:
    """Say in words what is wrong: in the last 24 hours, or in one trace.

    Every query whose header says how a row becomes a finding is asked with its defaults; the
    findings are told in order of weight, and hold no content. A query that cannot be answered is
    named on standard error.

    \b
    Example:
      otelchain diagnose --since 7d
      otelchain diagnose last
      otelchain diagnose --fail-on-rows --format json
    """  # noqa: D301 - click reads the character \b
    asking = Asking.taken_from(values)
    queries = list(_queries(queries_dirs))
    narrowed: dict[str, str] = {}

    def ask(source: "Source") -> "Answer":
        # Taken anew whenever it is asked: what counts from now moves with it.
        narrowed.update({"service": service, **({"until": str(until)} if until else {})})
        narrowed.update(_whole(source, trace_id) if trace_id else {"since": str(since)})
        return _answer(source, queries, narrowed, each)

    asking.answer(Question(ask), drawings={"text": lambda answer, _: _text(answer, narrowed)})


def _answer(
    source: "Source", queries: list[Query], values: Mapping[str, str], each: int
) -> "Answer":
    from otelchain_collector.answer import Answer, Column

    asked = [query for query in queries if values.keys() <= _taken(query)]
    found = [finding for query in asked for finding in _ask(source, query, values, each)]
    found.sort(key=lambda finding: -finding.weight)
    columns = tuple(Column(*column) for column in _COLUMNS)
    return Answer(columns, [list(astuple(finding)) for finding in found])


def _queries(folders: tuple[Path, ...]) -> Iterator[Query]:
    for name in otelchain_queries.names(folders):
        query = otelchain_queries.load(name, folders)
        if query.finding is not None:
            yield query


def _taken(query: Query) -> set[str]:
    return {param.name for param in query.params}


def _whole(source: "Source", trace_id: str) -> dict[str, str]:
    """Return the values that narrow a query to a trace: its whole id, and when it began."""
    from otelchain.reading.whole_id import UnknownTraceError

    answer = source.query(otelchain_queries.load("trace"), {"trace_id": trace_id})
    rows = list(_rows(answer))
    if not rows:
        raise UnknownTraceError(trace_id)
    begun = min(str(row["start_time"]) for row in rows)
    return {"trace_id": str(rows[0]["trace_id"]), "since": begun}


def _ask(source: "Source", query: Query, values: Mapping[str, str], each: int) -> list[Found]:
    from otelchain_collector.answer import QueryFailed

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


def _text(answer: "Answer", values: Mapping[str, str]) -> str:
    lines = []
    for finding in (Found(**row) for row in _rows(answer)):
        lines.append(visible(finding.text))
        if finding.trace_id:
            lines.append(f"  look: otelchain show {visible(finding.trace_id)}")
        if finding.more:
            lines.append(f"  {finding.more} more: {_command(finding.query, values)}")
    return "".join(f"{line}\n" for line in lines)


def _command(query: str, values: Mapping[str, str]) -> str:
    """Return the command that asks the query about the same runs."""
    options = ((f"--{name.replace('_', '-')}", value) for name, value in values.items() if value)
    return shlex.join(["otelchain", "query", query, *(part for pair in options for part in pair)])
