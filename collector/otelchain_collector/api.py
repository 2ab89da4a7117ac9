"""Questions over HTTP while the collector collects: read-only, beside ``/v1/traces``.

A question ends when it is answered, when it takes too long, when its sender goes or cancels it, and
when the collector stops.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import otelchain_queries
from otelchain_collector.answers import (
    DEFAULT_MAX_ROWS,
    DEFAULT_MAX_SECONDS,
    MAX_ANSWER_BYTES,
    MAX_ROWS,
    QueryFailed,
    answer_query,
    answer_sql,
    as_arrow,
    as_json,
)
from otelchain_collector.api_requests import (
    AGAIN,
    Refused,
    error_answer,
    gone,
    json_answer,
    json_body,
    whole_number,
)
from otelchain_collector.budget import ByteBudget, QueueFullError
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.hosts import AllowedHosts, WrongHostError
from otelchain_collector.readers import (
    QuestionStoppedError,
    Readers,
    SameIdError,
    TooManyQuestionsError,
)
from otelchain_collector.rendering import ARROW, Ask, Rendering
from otelchain_queries import Param, Query, QueryError

_MAX_ID_CHARS: Final = 64
_MAX_OFFSET: Final = 10**9


def routes(
    readers: Readers,
    *,
    allowed_hosts: Collection[str] = (),
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> list[Route]:
    """Return the routes ``/queries``, ``/queries/{name}``, ``/sql`` and ``/questions/{id}``.

    Args:
        readers: Who answers.
        allowed_hosts: Names by which a request may call this collector (hosts.py).
        max_seconds: Longest time a question may run.
    """
    api = _Api(readers, AllowedHosts(allowed_hosts), max_seconds)
    return [
        Route("/queries", api.list_queries, methods=["GET"]),
        Route("/queries/{name}", api.ask_query, methods=["POST"]),
        Route("/sql", api.ask_sql, methods=["POST"]),
        Route("/questions/{id}", api.cancel, methods=["DELETE"]),
    ]


class _Api:
    def __init__(self, readers: Readers, allowed_hosts: AllowedHosts, max_seconds: float) -> None:
        self._readers = readers
        self._answers = ByteBudget(MAX_ANSWER_BYTES)
        self._hosts = allowed_hosts
        self._max_seconds = max_seconds

    async def list_queries(self, request: Request) -> Response:
        try:
            self._hosts.check(request)
        except WrongHostError as error:
            return error_answer(400, str(error))
        return json_answer([_described(name) for name in otelchain_queries.names()])

    async def ask_query(self, request: Request) -> Response:
        name = request.path_params["name"]

        def prepare(body: dict[str, Any], form: Any) -> Ask:
            try:
                query = otelchain_queries.load(name)
            except QueryError as error:
                raise Refused(404, str(error)) from error
            values, offset = _text_values(body.get("params", {})), _offset(body)
            return lambda cursor: answer_query(
                cursor, query, values, offset=offset, max_seconds=self._max_seconds, form=form
            )

        return await self._respond(request, {"id", "offset", "params"}, prepare)

    async def ask_sql(self, request: Request) -> Response:
        def prepare(body: dict[str, Any], form: Any) -> Ask:
            sql, offset = body.get("sql"), _offset(body)
            if not isinstance(sql, str):
                raise Refused(400, 'the body must be {"sql": "SELECT …"}')
            max_rows = whole_number(body, "max_rows", DEFAULT_MAX_ROWS, MAX_ROWS)
            seconds = self._max_seconds
            if "params" in body:  # A query that the collector does not have: one of the user's own.
                values = _text_values(body["params"])
                query = _unbundled(str(body.get("name", "sql")), sql, values)
                return lambda cursor: answer_query(
                    cursor,
                    query,
                    values,
                    max_rows=max_rows,
                    offset=offset,
                    max_seconds=seconds,
                    form=form,
                )
            return lambda cursor: answer_sql(
                cursor, sql, max_rows=max_rows, offset=offset, max_seconds=seconds, form=form
            )

        fields = {"id", "max_rows", "name", "offset", "params", "sql"}
        return await self._respond(request, fields, prepare)

    async def cancel(self, request: Request) -> Response:
        """DELETE /questions/ID: whoever knows the id of a question may stop it."""
        try:
            self._hosts.check(request)
        except WrongHostError as error:
            return error_answer(400, str(error))
        if self._readers.stop(request.path_params["id"]):
            return Response(status_code=204)
        return error_answer(404, "no question with this id is being answered")

    async def _respond(
        self,
        request: Request,
        fields: set[str],
        prepare: Callable[[dict[str, Any], Any], Ask],
    ) -> Response:
        try:
            self._hosts.check(request)
            body = await json_body(request, fields)
            form = as_arrow if _wants_arrow(request) else as_json
            reservation = self._answers.reserve()
            ask = prepare(body, partial(form, hold=reservation.add))
            return await self._answer(request, Rendering(ask, reservation), _question_id(body))
        except Refused as refused:
            return error_answer(refused.status, str(refused))
        except (TooManyQuestionsError, StoreUnavailableError) as error:
            return error_answer(503, str(error), AGAIN)
        except QueueFullError:
            return error_answer(503, "too many large answers at once; ask again in a second", AGAIN)
        except SameIdError as error:
            return error_answer(409, str(error))
        except (WrongHostError, QueryFailed, QueryError, QuestionStoppedError) as error:
            return error_answer(400, str(error))
        except asyncio.CancelledError:  # The end of the drain.
            return error_answer(503, "the collector is stopping; ask again in a second", AGAIN)
        except ClientDisconnect:
            return Response(status_code=400)  # Nobody is there to read it.

    async def _answer(
        self, request: Request, rendering: Rendering, question_id: str | None
    ) -> Response:
        try:
            return await self._readers.answer(rendering, partial(gone, request), question_id)
        except BaseException:
            rendering.abandon()
            raise


def _wants_arrow(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower().split(",")
    return ARROW in {kind.partition(";")[0].strip() for kind in accepted}


def _question_id(body: dict[str, Any]) -> str | None:
    question_id = body.get("id")
    if question_id is None:
        return None
    if not isinstance(question_id, str) or not 0 < len(question_id) <= _MAX_ID_CHARS:
        raise Refused(400, f"id must be text of up to {_MAX_ID_CHARS} characters")
    return question_id


def _offset(body: dict[str, Any]) -> int:
    return whole_number(body, "offset", 0, _MAX_OFFSET)


def _text_values(params: Any) -> dict[str, str]:
    if not isinstance(params, dict) or not all(isinstance(text, str) for text in params.values()):
        raise Refused(400, 'params must be an object of text values, as in {"limit": "5"}')
    return params


def _unbundled(name: str, sql: str, values: Mapping[str, str]) -> Query:
    params = tuple(Param(param, default, "") for param, default in values.items())
    return Query(name, "", "", "", params, sql)


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
        "example": query.example,
        "next": query.next,
        "params": params,
    }
