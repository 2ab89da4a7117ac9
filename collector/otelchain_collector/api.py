"""Questions over HTTP while the collector collects: read-only, beside ``/v1/traces``.

Every answer is worked out in one of a few threads, with a cursor of its own, so that neither slow
SQL nor many questions hold up the receivers.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import duckdb
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import otelchain_queries
from otelchain_collector.answers import (
    DEFAULT_MAX_ROWS,
    MAX_ROWS,
    Answer,
    QueryFailed,
    answer_query,
    answer_sql,
)
from otelchain_collector.store import Store
from otelchain_queries import QueryError

# More threads would take DuckDB's time from the writer; a fifth question waits its turn.
_READING_THREADS: Final = 4
_MAX_BODY_BYTES: Final = 1024 * 1024

Ask = Callable[[duckdb.DuckDBPyConnection], Answer]


class _Refused(Exception):  # noqa: N818 - an answer that is an error, not a failure of ours
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def routes(store: Store, *, allowed_hosts: Collection[str] = ()) -> list[Route]:
    """Return the routes ``/queries``, ``/queries/{name}`` and ``/sql``.

    Args:
        store: Where the answers come from.
        allowed_hosts: Names, besides loopback and the address a request came in at, that a request
            may use for this collector; ``*`` is any name. Otherwise a web page could reach it by
            giving its own name the address 127.0.0.1.
    """
    api = _Api(store, frozenset(host.lower() for host in allowed_hosts))
    return [
        Route("/queries", api.list_queries, methods=["GET"]),
        Route("/queries/{name}", api.ask_query, methods=["POST"]),
        Route("/sql", api.ask_sql, methods=["POST"]),
    ]


class _Api:
    def __init__(self, store: Store, allowed_hosts: frozenset[str]) -> None:
        self._store = store
        self._allowed_hosts = allowed_hosts
        self._threads = ThreadPoolExecutor(_READING_THREADS, thread_name_prefix="otelchain-answer")

    async def list_queries(self, request: Request) -> Response:
        try:
            self._check_host(request)
        except _Refused as refused:
            return _error(refused.status, str(refused))
        return _json(200, [_described(name) for name in otelchain_queries.names()])

    async def ask_query(self, request: Request) -> Response:
        name = request.path_params["name"]

        def prepare(body: dict[str, Any]) -> Ask:
            try:
                query = otelchain_queries.load(name)
            except QueryError as error:
                raise _Refused(404, str(error)) from error
            values = _text_values(body.get("params", {}))
            return lambda cursor: answer_query(cursor, query, values)

        return await self._respond(request, {"params"}, prepare)

    async def ask_sql(self, request: Request) -> Response:
        def prepare(body: dict[str, Any]) -> Ask:
            sql, max_rows = body.get("sql"), body.get("max_rows", DEFAULT_MAX_ROWS)
            if not isinstance(sql, str):
                raise _Refused(400, 'the body must be {"sql": "SELECT …"}')
            if type(max_rows) is not int or not 0 <= max_rows <= MAX_ROWS:
                raise _Refused(400, f"max_rows must be a whole number up to {MAX_ROWS}")
            return lambda cursor: answer_sql(cursor, sql, max_rows=max_rows)

        return await self._respond(request, {"sql", "max_rows"}, prepare)

    async def _respond(
        self, request: Request, fields: set[str], prepare: Callable[[dict[str, Any]], Ask]
    ) -> Response:
        try:
            self._check_host(request)
            ask = prepare(await _body(request, fields))
            return _json_text(200, await self._in_thread(ask))
        except _Refused as refused:
            return _error(refused.status, str(refused))
        except (QueryFailed, QueryError) as error:
            return _error(400, str(error))

    def _check_host(self, request: Request) -> None:
        host = _hostname(request.headers.get("host", ""))
        bound = (request.scope.get("server") or ("",))[0]
        if "*" in self._allowed_hosts or host in {bound, *self._allowed_hosts}:
            return
        if not _is_loopback(host):
            raise _Refused(400, f"host {host!r} is not this collector's address")

    async def _in_thread(self, ask: Ask) -> bytes:
        cursor = self._store.cursor()

        def answer() -> bytes:
            try:
                return ask(cursor).to_json()
            finally:
                cursor.close()

        future = self._threads.submit(answer)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # The one who asked has gone, or the collector stops: nobody waits for the rest.
            if not future.cancel():
                cursor.interrupt()
            raise


async def _body(request: Request, fields: set[str]) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A web page of another site cannot send this type without asking first.
        raise _Refused(415, "the body must have the content type application/json")
    text = b""
    async for chunk in request.stream():
        text += chunk
        if len(text) > _MAX_BODY_BYTES:
            raise _Refused(413, f"the body is larger than {_MAX_BODY_BYTES} bytes")
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _Refused(400, "the body is not JSON") from error
    if not isinstance(body, dict) or not set(body) <= fields:
        raise _Refused(400, f"the body must be an object with: {', '.join(sorted(fields))}")
    return body


def _text_values(params: Any) -> dict[str, str]:
    if not isinstance(params, dict) or not all(isinstance(text, str) for text in params.values()):
        raise _Refused(400, 'params must be an object of text values, as in {"limit": "5"}')
    return params


def _described(name: str) -> dict[str, Any]:
    query = otelchain_queries.load(name)
    params = [
        {"name": param.name, "default": param.default, "help": param.help} for param in query.params
    ]
    return {
        "name": query.name,
        "title": query.title,
        "description": query.description,
        "why": query.why,
        "params": params,
    }


def _hostname(host: str) -> str:
    """Return the Host header without the port and without the brackets of IPv6."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _error(status: int, text: str) -> Response:
    return _json(status, {"error": text})


def _json(status: int, value: Any) -> Response:
    return _json_text(status, orjson.dumps(value))


def _json_text(status: int, text: bytes) -> Response:
    # Answers hold what users said to models: no cache keeps them, no browser guesses their type.
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(text, status, headers, media_type="application/json")
