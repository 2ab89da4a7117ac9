"""Where an import goes: the collector that has the database open, or the file (from importing)."""

import http.client
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request as HttpRequest

from otelchain.cli.place import Place
from otelchain.reading.connect import address, opener, reason, token
from otelchain.reading.source import SourceError

if TYPE_CHECKING:
    from otelchain_collector.exchange.delivery import Complain, Delivery, Request

_TIMEOUT_SECONDS: Final = 60.0
_PROTOBUF: Final = "application/x-protobuf"
# For so long a collector may be full, or its disk, before the import gives up.
_PATIENCE_SECONDS: Final = 60.0
_RETRYABLE: Final = frozenset({429, 502, 503, 504})


@contextmanager
def delivery(place: Place, complain: "Complain") -> "Iterator[Delivery]":
    """Give what takes requests.

    Raises:
        SourceError: The collector cannot be reached.
        StoreError: The file cannot be used.
        RedactionPolicyError: The policy cannot be used.
    """
    from otelchain.reading.remote import CollectorSource
    from otelchain_collector import discovery
    from otelchain_collector.exchange.delivery import ToFile
    from otelchain_collector.redaction.stage import Redaction

    endpoint = place.endpoint
    if not endpoint and (found := discovery.read(place.database)):
        # A killed collector leaves its discovery file, and its PID may be another program's now.
        silent = CollectorSource(found.endpoint, place).silence()
        endpoint = None if silent else found.endpoint
    if endpoint:
        yield ToCollector(endpoint, place, complain)
    else:
        redaction = Redaction.of(os.environ.get("OTELCHAIN_REDACTION", ""), place.database)
        with closing(ToFile(place.database, complain, redaction)) as file:
            yield file
            file.finish()


class ToCollector:
    """Sends requests to a running collector, as any exporter does.

    Args:
        endpoint: Its HTTP address.
        place: What to show it.
        complain: Is told what it did not take.

    Raises:
        SourceError: The endpoint is not an address, or a file of the place cannot be used.
    """

    def __init__(self, endpoint: str, place: Place, complain: "Complain") -> None:
        # OTLP has no answer for it.
        self.before: int | None = None
        self._base = address(endpoint)
        self._opener = opener(self._base, place)
        self._complain = complain
        self._headers = {}
        if shown := token(place):
            self._headers["authorization"] = f"Bearer {shown}"

    def send(self, request: "Request") -> None:
        """Send one; when the collector is full, again and again for a minute.

        Raises:
            SourceError: It takes nothing.
        """
        patience = time.monotonic() + _PATIENCE_SECONDS
        while (wait_seconds := self._send(request)) > 0:
            if time.monotonic() + wait_seconds > patience:
                raise SourceError(
                    f"the collector at {self._base} takes nothing; see its log, and import again: "
                    "what it has taken is stored once"
                )
            time.sleep(wait_seconds)

    def _send(self, request: "Request") -> float:
        """Return 0 when the collector has answered for good, else the seconds to wait."""
        sent = HttpRequest(  # noqa: S310 - address() allows http and https
            self._base + request.signal.path,
            request.body,
            {**self._headers, "content-type": request.media_type},
        )
        try:
            with self._opener.open(sent, timeout=_TIMEOUT_SECONDS) as response:
                self._read(request, response.read())
        except HTTPError as error:
            return self._refused(request, error)
        except (URLError, OSError, http.client.HTTPException) as error:
            why = reason(error.reason if isinstance(error, URLError) else error)
            raise SourceError(f"no collector answers at {self._base} ({why})") from error
        return 0

    def _read(self, request: "Request", body: bytes) -> None:
        if request.media_type == _PROTOBUF:
            answer: Any = request.signal.response.FromString(body)
            partial = {
                field.camelcase_name: value for field, value in answer.partial_success.ListFields()
            }
        else:
            partial = json.loads(body or b"{}").get("partialSuccess", {})
        counts = [int(value) for name, value in partial.items() if name.startswith("rejected")]
        if sum(counts):
            self._complain(request.place, sum(counts), partial.get("errorMessage", "rejected"))

    def _refused(self, request: "Request", error: HTTPError) -> float:
        with error:
            said = error.read()
        if error.code in _RETRYABLE:
            return float(error.headers.get("Retry-After") or 1)
        why = _message(said, request.media_type)
        why = why or f"the collector says {error.code} {error.reason}"
        if error.code in (400, 413):
            self._complain(request.place, request.records, why)
            return 0
        raise SourceError(
            f"{self._base} does not take this: {why}; it may want --token-file, or be another "
            "program"
        )


def _message(said: bytes, media_type: str) -> str:
    """Return the message of the Status that the collector refuses with; empty when it is none."""
    if media_type == _PROTOBUF:
        from google.protobuf.message import DecodeError
        from google.rpc.status_pb2 import Status

        try:
            return str(Status.FromString(said).message)
        except DecodeError:
            return ""
    try:
        return str(json.loads(said)["message"])
    except (ValueError, KeyError, TypeError):
        return ""
