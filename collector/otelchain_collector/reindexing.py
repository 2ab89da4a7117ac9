"""/reindex: a running collector reads its stored spans again, a page a request.

Whoever asks goes from page to page, and may stop after any. A page is read and normalised as a
question is answered, and committed between two commits of the writer; then the collector rests as
long as it took, so that spans keep being stored.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from otelchain_collector.answer import QueryFailed
from otelchain_collector.api_requests import (
    AGAIN,
    Refused,
    error_answer,
    gone,
    json_answer,
    json_body,
    whole_number,
)
from otelchain_collector.auth import asker_of
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.exchange.reindex import START, TABLES, Page, Place, read_page, total
from otelchain_collector.hosts import AllowedHosts, WrongHostError
from otelchain_collector.questions import Asker, QuestionStoppedError, TooManyQuestionsError
from otelchain_collector.readers import Readers
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

_MAX_BIGINT: Final = 2**63 - 1
_MAX_BODY_BYTES: Final = 1024
_AT_WORK: Final = "another reindex is at work; ask again in a second"
_LATER: Final = (
    QueryFailed,
    QuestionStoppedError,
    StoreUnavailableError,
    TooManyQuestionsError,
)


def routes(
    writer: Writer, store: Store, readers: Readers, allowed_hosts: Collection[str]
) -> list[Route]:
    """Return the routes; ``allowed_hosts`` as in hosts.py."""
    pages = _Pages(writer, store, readers, AllowedHosts(allowed_hosts))
    return [
        Route("/reindex", pages.count, methods=["GET"]),
        Route("/reindex", pages.do, methods=["POST"]),
    ]


class _Pages:
    def __init__(self, writer: Writer, store: Store, readers: Readers, hosts: AllowedHosts) -> None:
        self._writer, self._store, self._readers, self._hosts = writer, store, readers, hosts
        self._one_at_a_time = asyncio.Lock()
        # Where a run that began at the start has come to: only such a one has done everything.
        self._expected: Place | None = None

    async def count(self, request: Request) -> Response:
        """GET: how many spans there are."""

        async def answer() -> Any:
            return {"spans": await self._readers.answer(total, _asker(request))}

        return await self._answered(request, answer)

    async def do(self, request: Request) -> Response:
        """POST: one page, and where the next one begins."""

        async def answer() -> Any:
            if self._one_at_a_time.locked():
                raise StoreUnavailableError(_AT_WORK)
            body = await json_body(request, {"table", "start"}, max_bytes=_MAX_BODY_BYTES)
            table = body.get("table", START.table)
            if table not in TABLES:
                raise Refused(400, f"table must be one of: {', '.join(TABLES)}")
            place = Place(table, whole_number(body, "start", START.start, _MAX_BIGINT))
            if self._one_at_a_time.locked():
                raise StoreUnavailableError(_AT_WORK)
            async with self._one_at_a_time:
                page = await self._page(request, place)
            following = page.following and page.following._asdict()
            return {"spans": page.spans, "changed": page.changed, "following": following}

        return await self._answered(request, answer)

    async def _page(self, request: Request, place: Place) -> Page:
        started = time.monotonic()
        in_order = place in (START, self._expected)
        self._expected = None
        page = await self._readers.answer(partial(read_page, place=place), _asker(request))
        done = in_order and page.following is None
        await asyncio.wrap_future(self._writer.between_commits(partial(self._commit, page, done)))
        self._expected = page.following if in_order else None
        await asyncio.sleep(time.monotonic() - started)
        return page

    def _commit(self, page: Page, is_done: bool) -> None:
        self._store.database.mend()
        page.commit(self._store)
        if is_done:
            self._store.rules_applied()

    async def _answered(self, request: Request, answer: Callable[[], Awaitable[Any]]) -> Response:
        try:
            self._hosts.check(request)
            return json_answer(await answer())
        except Refused as refused:
            return refused.answer()
        except WrongHostError as error:
            return error_answer(400, str(error))
        # QueryFailed: the collector stops, or there is no memory now.
        except _LATER as error:
            return error_answer(503, str(error), AGAIN)
        except asyncio.CancelledError:  # The end of the drain.
            return error_answer(503, "the collector is stopping; ask again in a second", AGAIN)
        except ClientDisconnect:
            return Response(status_code=400)  # Nobody is there to read it.


def _asker(request: Request) -> Asker:
    return Asker(partial(gone, request), asker_of(request.scope), None)
