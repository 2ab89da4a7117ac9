"""Asking a running collector over HTTP."""

import http.client
import ipaddress
import json
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from otelchain.cli.source import SourceError
from otelchain_collector.answers import DEFAULT_MAX_SECONDS, Answer, QueryFailed
from otelchain_queries import Query

# The collector ends a question after its own limit; this only guards against one that hangs.
_TIMEOUT_SECONDS: Final = 2 * DEFAULT_MAX_SECONDS
_PROBE_SECONDS: Final = 2.0


class CollectorSource:
    """A running collector.

    Args:
        endpoint: Its HTTP address, with or without ``http://``.

    Raises:
        SourceError: It is not an address.
    """

    def __init__(self, endpoint: str) -> None:
        self._base = _checked(endpoint)
        self._opener = _opener(self._base)

    def answers(self) -> bool:
        """Tell whether a collector is there."""
        request = Request(self._base + "/healthz")  # noqa: S310 - _checked() allows http and https
        try:
            with self._opener.open(request, timeout=_PROBE_SECONDS) as response:
                return bool(response.status == 200)
        except (OSError, http.client.HTTPException):
            return False

    def query(self, query: Query, values: Mapping[str, str]) -> Answer:
        """Answer a named query.

        Raises:
            SourceError: No collector answers there.
            QueryFailed: The collector refused; the text is its own.
        """
        return self._ask(f"/queries/{quote(query.name, safe='')}", {"params": query.bind(values)})

    def sql(self, sql: str, max_rows: int) -> Answer:
        """Answer one SELECT.

        Raises:
            SourceError: No collector answers there.
            QueryFailed: The collector refused; the text is its own.
        """
        return self._ask("/sql", {"sql": sql, "max_rows": max_rows})

    def _ask(self, path: str, body: Mapping[str, Any]) -> Answer:
        request = Request(  # noqa: S310 - _checked() allows http and https
            self._base + path,
            json.dumps(body).encode(),
            {"content-type": "application/json", "accept": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                return Answer.from_json(response.read())
        except HTTPError as error:
            raise self._refusal(error) from error
        except URLError as error:
            raise SourceError(self._unreachable(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(self._unreachable(error)) from error
        except ValueError as error:
            raise SourceError(self._stranger("its answer has another form")) from error

    def _refusal(self, error: HTTPError) -> Exception:
        with error:
            try:
                return QueryFailed(str(json.loads(error.read())["error"]))
            except (ValueError, KeyError, TypeError, OSError):
                return SourceError(self._stranger(f"it says {error.code} {error.reason}"))

    def _unreachable(self, reason: object) -> str:
        why = _reason(reason)
        return (
            f"no collector answers at {self._base} ({why}); start one with 'otelchain collector', "
            "or leave out --endpoint to read the database file"
        )

    def _stranger(self, why: str) -> str:
        return f"{self._base} is not an otelchain collector of this version: {why}"


def _reason(reason: object) -> str:
    if isinstance(reason, (TimeoutError, socket.timeout)):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return str(reason) or type(reason).__name__


def _checked(endpoint: str) -> str:
    text = endpoint.strip() if "://" in endpoint else f"http://{endpoint.strip()}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise SourceError(
            f"--endpoint {endpoint!r} is not an HTTP address; for example http://127.0.0.1:4318"
        )
    return text.rstrip("/")


def _opener(base: str) -> OpenerDirector:
    """Return an opener that takes no proxy to this machine, whatever the variables say."""
    host = urlsplit(base).hostname or ""
    return build_opener(ProxyHandler({})) if _is_loopback(host) else build_opener()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
