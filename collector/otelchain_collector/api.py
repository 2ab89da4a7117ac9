"""Questions over HTTP while the collector collects: read-only, beside ``/v1/traces``.

A question ends when it is answered, when it takes too long, when its sender goes or cancels it, and
when the collector stops.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final

import duckdb
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import otelchain_queries
from otelchain_collector.answer import (
    DEFAULT_MAX_SECONDS,
    MAX_ROWS,
    Answer,
    ArrowAnswer,
    QueryFailed,
)
from otelchain_collector.answers import (
    DEFAULT_MAX_ROWS,
    MAX_ANSWER_BYTES,
    Form,
    answer_query,
    as_arrow,
    as_json,
)
from otelchain_collector.api_requests import (
    AGAIN,
    MAX_BODIES_BYTES,
    OUT_OF_SOMETHING,
    Refused,
    error_answer,
    gone,
    json_answer,
    json_body,
    whole_number,
)
from otelchain_collector.asked_sql import AskedSql
from otelchain_collector.auth import asker_of
from otelchain_collector.budget import ByteBudget, QueueFullError, Reservation
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.hosts import AllowedHosts, WrongHostError
from otelchain_collector.questions import (
    Asker,
    QuestionStoppedError,
    SameIdError,
    TooManyQuestionsError,
)
from otelchain_collector.readers import Readers
from otelchain_collector.rendering import ARROW, JSON, Place, Rendering, Written
from otelchain_collector.sql_processes import Answered, Session, SqlProcesses
from otelchain_queries import QueryError

_MAX_ID_CHARS: Final = 64
_MAX_OFFSET: Final = 10**9

_logger = logging.getLogger(__name__)


def routes(
    readers: Readers,
    sql: SqlProcesses | None = None,
    *,
    allowed_hosts: Collection[str] = (),
    max_seconds: float = DEFAULT_MAX_SECONDS,
    taking_seconds: float = DEFAULT_MAX_SECONDS,
) -> list[Route]:
    """Return the routes ``/queries``, ``/queries/{name}``, ``/sql`` and ``/questions/{id}``.

    Args:
        readers: Who answers.
        sql: Who answers SQL; None where that can only be the readers.
        allowed_hosts: Names by which a request may call this collector (hosts.py).
        max_seconds: Longest time a question may run.
        taking_seconds: Longest time for an answer of 1 MiB to be taken; see rendering.py.
    """
    api = _Api(readers, sql, AllowedHosts(allowed_hosts), max_seconds, taking_seconds)
    return [
        Route("/queries", api.list_queries, methods=["GET"]),
        Route("/queries/{name}", api.ask_query, methods=["POST"]),
        Route("/sql", api.ask_sql, methods=["POST"]),
        Route("/questions/{id}", api.cancel, methods=["DELETE"]),
    ]


#: Asks, in the place that the question belongs to, and gives the response.
_Ask = Callable[[Asker], Awaitable[Response]]
_Prepare = Callable[[dict[str, Any], "_Wanted"], _Ask]


class _Api:
    def __init__(
        self,
        readers: Readers,
        sql: SqlProcesses | None,
        allowed_hosts: AllowedHosts,
        max_seconds: float,
        taking_seconds: float,
    ) -> None:
        self._readers, self._sql = readers, sql
        self._answers = ByteBudget(MAX_ANSWER_BYTES)
        self._bodies = ByteBudget(MAX_BODIES_BYTES)
        self._hosts = allowed_hosts
        self._max_seconds = max_seconds
        self._taking_seconds = taking_seconds

    async def list_queries(self, request: Request) -> Response:
        try:
            self._hosts.check(request)
        except WrongHostError as error:
            return error_answer(400, str(error))
        return json_answer([_described(name) for name in otelchain_queries.names()])

    async def ask_query(self, request: Request) -> Response:
        name = request.path_params["name"]

        def prepare(body: dict[str, Any], wanted: _Wanted) -> _Ask:
            try:
                query = otelchain_queries.load(name)
            except QueryError as error:
                raise Refused(404, str(error)) from error
            values, offset = _text_values(body.get("params", {})), _offset(body)

            def ask(cursor: duckdb.DuckDBPyConnection) -> Answer | ArrowAnswer:
                answer: Answer | ArrowAnswer = answer_query(
                    cursor,
                    query,
                    values,
                    offset=offset,
                    max_seconds=self._max_seconds,
                    form=wanted.form,
                )
                return answer

            return partial(self._readers.answer, wanted.rendering(ask))

        return await self._respond(request, {"id", "offset", "params"}, prepare)

    async def ask_sql(self, request: Request) -> Response:
        def prepare(body: dict[str, Any], wanted: _Wanted) -> _Ask:
            asked = _asked_sql(body)

            def ask(session: Session) -> Answered:
                return session.ask(
                    asked, self._max_seconds, arrow=wanted.arrow, hold=wanted.reservation.add
                )

            def ask_here(cursor: duckdb.DuckDBPyConnection) -> Answer | ArrowAnswer:
                answer: Answer | ArrowAnswer = asked.answer(cursor, self._max_seconds, wanted.form)
                return answer

            if self._sql is None:
                return partial(self._readers.answer, wanted.rendering(ask_here))
            return partial(self._sql.answer, wanted.rendering(ask))

        fields = {"id", "max_rows", "name", "offset", "params", "sql"}
        return await self._respond(request, fields, prepare)

    async def cancel(self, request: Request) -> Response:
        """DELETE /questions/ID: with the token that it was asked with."""
        try:
            self._hosts.check(request)
        except WrongHostError as error:
            return error_answer(400, str(error))
        lanes = [lane for lane in (self._readers, self._sql) if lane is not None]
        found = [lane.stop(request.path_params["id"], asker_of(request.scope)) for lane in lanes]
        if any(found):
            return Response(status_code=204)
        return error_answer(404, "no question with this id is being answered")

    async def _respond(self, request: Request, fields: set[str], prepare: _Prepare) -> Response:
        held = self._bodies.reserve()
        try:
            self._hosts.check(request)
            body = await json_body(request, fields, hold=held.add)
            asker = Asker(partial(gone, request), asker_of(request.scope), _question_id(body))
            wanted = _Wanted(_wants_arrow(request), self._answers.reserve(), self._taking_seconds)
            return await self._answer(prepare(body, wanted), asker, wanted)
        except Refused as refused:
            return refused.answer()
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
        except OSError:
            _logger.exception("a question could not be asked")
            return error_answer(503, OUT_OF_SOMETHING, AGAIN)
        finally:
            held.release()

    async def _answer(self, ask: _Ask, asker: Asker, wanted: "_Wanted") -> Response:
        try:
            return await ask(asker)
        except BaseException:
            wanted.abandon()
            raise


class _Wanted:
    """How an answer is wanted, and the bytes that it may hold."""

    def __init__(self, arrow: bool, reservation: Reservation, taking_seconds: float) -> None:
        self.arrow = arrow
        self.reservation = reservation
        #: For answers that are made in this process.
        self.form: Form[Any] = partial(as_arrow if arrow else as_json, hold=reservation.add)
        self._taking_seconds = taking_seconds
        self._rendering: Rendering[Any] | None = None

    def rendering(self, ask: Callable[[Place], Written]) -> Rendering[Place]:
        self._rendering = rendering = Rendering(
            ask, self.reservation, ARROW if self.arrow else JSON, self._taking_seconds
        )
        return rendering

    def abandon(self) -> None:
        if self._rendering is not None:
            self._rendering.abandon()


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


def _asked_sql(body: dict[str, Any]) -> AskedSql:
    sql = body.get("sql")
    if not isinstance(sql, str):
        raise Refused(400, 'the body must be {"sql": "SELECT …"}')
    max_rows = whole_number(body, "max_rows", DEFAULT_MAX_ROWS, MAX_ROWS)
    params = _text_values(body["params"]) if "params" in body else None
    return AskedSql(sql, max_rows, _offset(body), params, str(body.get("name", "sql")))


def _offset(body: dict[str, Any]) -> int:
    return whole_number(body, "offset", 0, _MAX_OFFSET)


def _text_values(params: Any) -> dict[str, str]:
    if not isinstance(params, dict) or not all(isinstance(text, str) for text in params.values()):
        raise Refused(400, 'params must be an object of text values, as in {"limit": "5"}')
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
        "example": query.example,
        "next": query.next,
        "params": params,
    }
