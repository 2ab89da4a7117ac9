"""``otelchain.open``: what was collected, as pandas DataFrames."""

import warnings
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import otelchain_queries
from otelchain.reading.extras import MissingExtraError, extra_of
from otelchain.reading.opening import open_source
from otelchain.reading.parameters import check_limit, parameter_texts
from otelchain.reading.place import DEFAULT_DATABASE, Place
from otelchain.reading.runs_question import RunsQuestion
from otelchain.reading.whole_id import UnknownTraceError, whole_trace_id, with_whole_id
from otelchain_collector.answer import MAX_ROWS

if TYPE_CHECKING:
    import pandas as pd

    from otelchain.reading.source import Source
    from otelchain.reading.trace_tree import TraceTree
    from otelchain_collector.answer import ArrowAnswer
    from otelchain_queries import Query

_DEFAULT_RUNS: Final = 1_000
_MORE: Final = (
    "more rows exist; raise limit (runs() takes any, the others up to 100,000), or ask for a "
    "shorter time"
)


def open(  # noqa: A001 - read as otelchain.open("otelchain.duckdb")
    where: "str | PathLike[str]" = DEFAULT_DATABASE,
    *,
    token_file: "str | PathLike[str] | None" = None,
    ca_file: "str | PathLike[str] | None" = None,
    client_certificate: "str | PathLike[str] | None" = None,
    client_key: "str | PathLike[str] | None" = None,
    queries_dirs: "Iterable[str | PathLike[str]]" = (),
) -> "Traces":
    """Return what a database file or a collector holds, to be asked.

    Nothing stays open: while a collector runs it is asked, else the file is opened for as long as
    an answer takes.

    Args:
        where: A DuckDB file written by the collector, or a collector's ``http://`` or ``https://``
            address.
        token_file: File with the collector's token; the variable ``OTELCHAIN_TOKEN`` is the other
            way to give one.
        ca_file: PEM file with the authority that the collector's certificate comes from.
        client_certificate: PEM file to show to a collector that asks for a certificate.
        client_key: PEM file with its key.
        queries_dirs: Folders with .sql files of your own, which join the bundled queries.

    Raises:
        OtelchainError: There is no such file, it is not an address, a file for the connection
            cannot be used, or the ``collector`` extra is not installed.
    """
    text = str(where)
    remote = text.startswith(("http://", "https://"))
    place = Place(
        database=DEFAULT_DATABASE if remote else Path(where),
        endpoint=text if remote else None,
        token_file=_path(token_file),
        ca_file=_path(ca_file),
        client_certificate=_path(client_certificate),
        client_key=_path(client_key),
    )
    try:
        import pandas as pd  # noqa: F401 - every answer needs it; better said here

        open_source(place).check()
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        raise MissingExtraError("otelchain.open", extra) from error
    return Traces(place, tuple(Path(folder) for folder in queries_dirs))


class Traces:
    """What was collected; made by `otelchain.open`.

    Every method asks anew, so it sees what has arrived by then. Whatever cannot be asked or
    answered is an `OtelchainError`: ``otelchain_queries.QueryError`` for a name or parameter that
    is not there, ``otelchain_collector.answers.QueryFailed`` for a question that is wrong.

    Args:
        place: Where to ask.
        queries_dirs: Folders with the user's own queries.
    """

    def __init__(self, place: Place, queries_dirs: Sequence[Path] = ()) -> None:
        self._place = place
        self._folders = tuple(queries_dirs)

    def __repr__(self) -> str:
        where = self._place.endpoint or str(self._place.database)
        return f"otelchain.open({where!r})"

    def queries(self) -> "pd.DataFrame":
        """Return the names of the queries with their titles and parameters."""
        import pandas as pd

        found = [self._named(name) for name in otelchain_queries.names(self._folders)]
        rows = [
            (query.name, query.title, [param.name for param in query.params]) for query in found
        ]
        listed: pd.DataFrame = pd.DataFrame(rows, columns=["name", "title", "params"])
        return listed

    def query(self, name: str, /, *, json: bool = False, **params: Any) -> "pd.DataFrame":
        """Answer a named query.

        Args:
            name: As on the command line, ``slow-tools``; or with underscores.
            json: Decode the columns that hold JSON.
            params: Values of the query's parameters: text, numbers, booleans, `datetime.datetime`
                (UTC unless it has a zone), `datetime.timedelta` (a duration, or that long ago).
        """
        check_limit(name, params.get("limit"), MAX_ROWS)
        query = self._named(name.replace("_", "-"))
        values = parameter_texts(query, params)
        with open_source(self._place).held() as source:
            answer = source.query_arrow(query, with_whole_id(source, query, values))
        if answer.has_more and "limit" not in params:
            warnings.warn(_MORE, UserWarning, stacklevel=2)
        return _frame(answer, json)

    def sql(self, text: str, *, limit: int = MAX_ROWS, json: bool = False) -> "pd.DataFrame":
        """Answer one SELECT in DuckDB's SQL, over the view ``runs`` and the tables.

        Args:
            text: The statement.
            limit: Most rows; no more than 100,000, and a warning says so when there are more.
            json: Decode the columns that hold JSON.
        """
        check_limit("sql", limit, MAX_ROWS)
        answer = open_source(self._place).sql_arrow(text, limit)
        if answer.has_more and limit == MAX_ROWS:
            warnings.warn(_MORE, UserWarning, stacklevel=2)
        return _frame(answer, json)

    def runs(
        self,
        *,
        status: "str | Sequence[str] | None" = None,
        run_type: "str | Sequence[str] | None" = None,
        name: "str | Sequence[str] | None" = None,
        service: "str | Sequence[str] | None" = None,
        trace_id: "str | Sequence[str] | None" = None,
        session_id: "str | Sequence[str] | None" = None,
        since: Any = None,
        until: Any = None,
        columns: "Sequence[str] | None" = None,
        limit: int | None = None,
        json: bool = False,
    ) -> "pd.DataFrame":
        """Return runs, newest first.

        Args:
            status: One status or several: ok, error, handled_error, pending, ….
            run_type: llm, chain, tool, retriever, agent, …; one or several.
            name: Names of runs.
            service: Names of services.
            trace_id: Ids of traces, or the beginnings of some, or ``last``.
            session_id: Ids of sessions.
            since: Only what started at or after this time; text as on the command line (``24h``,
                ``yesterday``, ``2026-11-30 09:00 Europe/Berlin``), a `datetime.datetime`, or a
                `datetime.timedelta` for that long ago.
            until: Only what started before this time.
            columns: Of the view ``runs``; without, all but ``inputs`` and ``outputs``, which are
                read only when they are named.
            limit: Most rows, as many as fit into memory, since they are read page by page; 1,000
                unless given, and a warning says so when there are more.
            json: Decode the columns that hold JSON.
        """
        from otelchain.reading.frames import frame
        from otelchain.reading.runs_pages import runs_table

        check_limit("runs", limit)
        with open_source(self._place).held() as source:
            filters = {
                "status": status,
                "run_type": run_type,
                "name": name,
                "service_name": service,
                "trace_id": _whole_ids(source, trace_id),
                "session_id": session_id,
            }
            question = RunsQuestion.of(filters, since=since, until=until, columns=columns)
            rows, has_more = runs_table(source, question, _DEFAULT_RUNS if limit is None else limit)
        if has_more and limit is None:
            warnings.warn(_MORE, UserWarning, stacklevel=2)
        return frame(rows, decode_json=json)

    def tree(self, trace_id: str = "last") -> "TraceTree":
        """Return the runs of a trace as a tree that prints, and shows itself in a notebook.

        Args:
            trace_id: An id, the beginning of one, or ``last`` for the newest trace.

        Raises:
            UnknownTraceError: No trace has that id.
        """
        from otelchain.reading.frames import table
        from otelchain.reading.trace_tree import TraceTree

        query = self._named("trace")
        rows = table(open_source(self._place).query_arrow(query, {"trace_id": trace_id}))
        if not rows.num_rows:
            raise UnknownTraceError(trace_id)
        return TraceTree(rows)

    def _named(self, name: str) -> "Query":
        return otelchain_queries.load(name, self._folders)


def _whole_ids(
    source: "Source", trace_id: "str | Sequence[str] | None"
) -> "str | Sequence[str] | None":
    if trace_id is None or isinstance(trace_id, str):
        return trace_id and whole_trace_id(source, trace_id)
    return [whole_trace_id(source, one) for one in trace_id]


def _frame(answer: "ArrowAnswer", decode_json: bool) -> "pd.DataFrame":
    from otelchain.reading.frames import frame, table

    return frame(table(answer), decode_json=decode_json)


def _path(path: "str | PathLike[str] | None") -> Path | None:
    return None if path is None else Path(path)
