"""Asking a running collector over HTTP."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request

import otelchain_queries
from otelchain.reading.connect import address, opener, reason, token
from otelchain.reading.place import Place
from otelchain.reading.source import Source, SourceError
from otelchain_collector.answer import (
    DEFAULT_MAX_SECONDS,
    MAX_ROWS,
    Answer,
    ArrowAnswer,
    QueryFailed,
)
from otelchain_queries import Query

_PROBE_SECONDS: Final = 2.0
_JSON: Final = "application/json"
_ARROW: Final = "application/vnd.apache.arrow.stream"
_HOW_TO_SHOW: Final = "set OTELCHAIN_TOKEN or --token-file"


class CollectorBusyError(QueryFailed):
    """The collector cannot answer now; ask again in a second."""


class NotAllowedError(SourceError):
    """The collector does not permit what was asked.

    Attributes:
        is_unknown: The token that was shown is none of the collector's.
    """

    def __init__(self, text: str, *, is_unknown: bool) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


class CollectorSource:
    """A running collector.

    Args:
        endpoint: Its HTTP address, with or without ``http://``.
        place: What to show it.
        max_seconds: Longest time that a question may run.

    Raises:
        SourceError: It is not an address, or a file of the place cannot be used.
    """

    def __init__(
        self, endpoint: str, place: Place, *, max_seconds: float = DEFAULT_MAX_SECONDS
    ) -> None:
        # The collector ends a question after its own limit; this guards against one that hangs.
        self._timeout_seconds = 2 * max_seconds
        self._base = address(endpoint)
        self._opener = opener(self._base, place)
        self._headers = {"content-type": _JSON}
        if shown := token(place):
            self._headers["authorization"] = f"Bearer {shown}"

    @property
    def endpoint(self) -> str:
        """Its address, with the scheme."""
        return self._base

    def silence(self) -> str | None:
        """Return why it does not answer; None when it does."""
        request = Request(self._base + "/healthz")  # noqa: S310 - address() allows http and https
        try:
            with self._opener.open(
                request, timeout=min(_PROBE_SECONDS, self._timeout_seconds)
            ) as response:
                return None if response.status == 200 else f"it says {response.status}"
        except URLError as error:
            return reason(error.reason)
        except (OSError, http.client.HTTPException) as error:
            return reason(error)

    def check(self) -> None:
        """Raise `SourceError` when nobody answers at the address."""
        if (silence := self.silence()) is not None:
            raise SourceError(self._unreachable(silence))

    @contextmanager
    def held(self) -> Iterator[Source]:
        """Give itself: nothing stays open."""
        yield self

    def query(self, query: Query, values: Mapping[str, str]) -> Answer:
        """Answer a named query.

        Raises:
            SourceError: No collector answers there, or it does not let us in.
            QueryFailed: The collector refused; the text is its own.
        """
        return self._answer(*_named(query, values))

    def sql(self, sql: str, max_rows: int) -> Answer:
        """Answer one SELECT.

        Raises:
            SourceError: No collector answers there, or it does not let us in.
            QueryFailed: The collector refused; the text is its own.
        """
        return self._answer("/sql", {"sql": sql, "max_rows": max_rows})

    def names(self) -> list[str]:
        """Return the names of the queries that it answers; of all questions this costs least.

        Raises:
            NotAllowedError: The token has not the permission 'read'.
            SourceError: No collector answers there.
            QueryFailed: The collector refused; the text is its own.
        """
        text, _ = self._ask("/queries", None, _JSON)
        try:
            return [str(query["name"]) for query in json.loads(text)]
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(self._stranger("its answer has another form")) from error

    def reindexed(self, place: Mapping[str, Any]) -> dict[str, Any]:
        """Have the spans of a page read again; return counts, and where the next page begins.

        Raises:
            CollectorBusyError: It cannot now; the text is its own.
            SourceError: No collector answers there, or it does not let us in.
            QueryFailed: The collector refused; the text is its own.
        """
        text, _ = self._ask("/reindex", place, _JSON)
        return self._object(text)

    def reindexable(self) -> int:
        """Return how many spans there are to read again; raises as `reindexed` does."""
        text, _ = self._ask("/reindex", None, _JSON)
        return int(self._object(text)["spans"])

    def _object(self, text: bytes) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(text)
            _ = found["spans"]
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(self._stranger("its answer has another form")) from error
        return found

    def query_arrow(self, query: Query, values: Mapping[str, str]) -> ArrowAnswer:
        """Answer a named query with DuckDB's types; raises as `query` does."""
        return self._arrow_answer(*_named(query, values))

    def sql_arrow(self, sql: str, max_rows: int) -> ArrowAnswer:
        """Answer one SELECT with DuckDB's types; raises as `sql` does."""
        return self._arrow_answer("/sql", {"sql": sql, "max_rows": max_rows})

    def _answer(self, path: str, body: Mapping[str, Any]) -> Answer:
        text, _ = self._ask(path, body, _JSON)
        try:
            return Answer.from_json(text)
        except ValueError as error:
            raise SourceError(self._stranger("its answer has another form")) from error

    def _arrow_answer(self, path: str, body: Mapping[str, Any]) -> ArrowAnswer:
        stream, headers = self._ask(path, body, _ARROW)
        if headers.get_content_type() != _ARROW:
            raise SourceError(self._stranger("its answer has another form"))
        return ArrowAnswer(stream, headers.get("otelchain-has-more") == "true")

    def _ask(self, path: str, body: Mapping[str, Any] | None, form: str) -> tuple[bytes, Message]:
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "accept": form}
        request = Request(self._base + path, content, headers)  # noqa: S310 - address() allows http and https
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                return response.read(), response.headers
        except HTTPError as error:
            raise self._refusal(error) from error
        except URLError as error:
            raise SourceError(self._unreachable(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(self._unreachable(error)) from error

    def _refusal(self, error: HTTPError) -> Exception:
        with error:
            try:
                text = str(json.loads(error.read())["error"])
            except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
                return SourceError(self._stranger(f"it says {error.code} {error.reason}"))
        if error.code in (401, 403):
            return NotAllowedError(
                f"{self._base} does not let you ask this: {text}; {_HOW_TO_SHOW}",
                is_unknown=error.code == 401 and "authorization" in self._headers,
            )
        if error.code == 503:
            return CollectorBusyError(text)
        return QueryFailed(text)

    def _unreachable(self, why: object) -> str:
        if isinstance(why, http.client.BadStatusLine) and not isinstance(why, OSError):
            return (
                f"{self._base} does not speak HTTP/1.1; if it is a collector's gRPC port (usually "
                "4317), ask its HTTP port instead (usually 4318)"
            )
        return (
            f"no collector answers at {self._base} ({reason(why)}); start one with "
            "'otelchain collector', or leave out --endpoint to read the database file"
        )

    def _stranger(self, why: str) -> str:
        return f"{self._base} is not an otelchain collector of this version: {why}"


def _named(query: Query, values: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return where a named query is asked, and with what."""
    bound = query.bind(values)
    if query.name in otelchain_queries.names():
        return f"/queries/{quote(query.name, safe='')}", {"params": bound}
    # One of the user's own, which the collector does not have.
    own = {"sql": query.sql, "params": bound, "name": query.name, "max_rows": MAX_ROWS}
    return "/sql", own
