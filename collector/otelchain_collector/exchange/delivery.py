"""OTLP requests made from files → the store, on the way that received requests take.

Either this process decodes and commits them (ToFile), or they are sent to the collector that has
the file open (the command's own). Both answer the same.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from otelchain_collector.budget import ByteBudget
from otelchain_collector.decode import Decoded
from otelchain_collector.decoding import EncodedRequest, decode_request
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import MalformedRequestError
from otelchain_collector.record_limit import TooManyRecordsError
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.settings import CollectorSettings
from otelchain_collector.signals import Signal
from otelchain_collector.store import Store
from otelchain_collector.writer import Outcome, Writer

# As many as the writer can take into one commit.
_IN_FLIGHT = 8
_MAX_ATTRIBUTE_BYTES = CollectorSettings().max_attribute_bytes


JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
_PARSERS: Final = {JSON: parse_json, PROTOBUF: parse_protobuf}


class Request(NamedTuple):
    """One Export request.

    ``place`` says what it was made from, such as ``traces.jsonl:3``; ``records`` how many it has;
    ``media_type`` is JSON or PROTOBUF.
    """

    signal: Signal
    body: bytes
    place: str
    records: int
    media_type: str = JSON


#: Is told about what was not stored: where it was, how many records, and why.
Complain = Callable[[str, int, str], None]


class Delivery(Protocol):
    """Where requests go."""

    @property
    def before(self) -> int | None:
        """How many records were left out, since they were stored before; None: nobody tells."""
        ...

    def send(self, request: Request) -> None:
        """Deliver one; what is wrong with it is a complaint and not an error.

        Raises:
            CollectorError: Nothing can be delivered now.
        """
        ...


class Rehearsal:
    """Looks at requests as the store would, and delivers nothing."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self.before: int | None = None

    def send(self, request: Request) -> None:
        """Complain about what would not be stored."""
        found = _decoded(request, self._complain)
        if found is not None and found.rejected:
            self._complain(request.place, len(found.rejected), found.rejected[0].reason)


class ToFile:
    """Commits requests to a database file that no collector has open.

    Args:
        database: The file; created with the first request when it does not exist.
        complain: Is told what was not stored.
        redaction: What everything passes first, as in a collector; None where nothing is redacted.
    """

    def __init__(self, database: Path, complain: Complain, redaction: Redaction | None) -> None:
        self._database = database
        self._redaction = redaction
        self._complain = complain
        # What is in flight bounds itself.
        self._budget = ByteBudget(2**62)
        self._waiting: deque[tuple[str, Future[Outcome]]] = deque()
        self._opened = ExitStack()
        self._writer: Writer | None = None

    def send(self, request: Request) -> None:
        """Decode a request and have it committed.

        Raises:
            StoreError: The file cannot be used, or a commit failed.
        """
        found = _decoded(request, self._complain, self._redaction)
        if found is None:
            return
        if self._writer is None:
            self._writer = self._open()
        self._waiting.append((request.place, self._writer.submit(found, self._budget.reserve())))
        if len(self._waiting) > _IN_FLIGHT:
            self._settle()

    @property
    def before(self) -> int:
        """How many records were left out, since they were stored before."""
        return 0 if self._writer is None else self._writer.counts.duplicates

    def finish(self) -> None:
        """Wait until all is committed, and complain about what was not stored.

        Raises:
            StoreUnavailableError: A commit failed.
        """
        while self._waiting:
            self._settle()

    def close(self) -> None:
        """Commit what is left and close the file."""
        self._opened.close()

    def _open(self) -> Writer:
        store = Store.open(self._database)
        self._opened.callback(store.close)
        writer = Writer(store)
        writer.start()
        self._opened.callback(writer.close)
        return writer

    def _settle(self) -> None:
        place, acknowledgement = self._waiting.popleft()
        outcome = acknowledgement.result()
        if outcome.rejected:
            self._complain(place, outcome.rejected, "; ".join(outcome.reasons))


def _decoded(
    request: Request, complain: Complain, redaction: Redaction | None = None
) -> Decoded | None:
    encoded = EncodedRequest(request.body, _PARSERS[request.media_type])
    try:
        return decode_request(
            request.signal, encoded, time.time_ns(), _MAX_ATTRIBUTE_BYTES, redaction
        )
    except (MalformedRequestError, TooManyRecordsError) as error:
        complain(request.place, request.records, str(error))
        return None
