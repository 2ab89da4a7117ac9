"""OTLP over gRPC (to ingest): what becomes of a call, whatever connection it came over."""

import asyncio
import logging
from functools import partial
from typing import Final

from google.rpc import code_pb2
from prometheus_client import Counter

from otelchain_collector.auth import refusal_text
from otelchain_collector.budget import QueueFullError, Reservation
from otelchain_collector.decoding import EncodedRequest
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.grpc_wire import (
    Answer,
    CallHead,
    IncomingMessage,
    RefusedError,
    check_head,
    refused,
    too_large,
    try_again,
)
from otelchain_collector.inflate import NotCompressedError, TooLargeError, inflate
from otelchain_collector.ingest import Ingest
from otelchain_collector.metrics import grpc_outcome
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import MalformedRequestError
from otelchain_collector.record_limit import TooManyRecordsError
from otelchain_collector.signals import SIGNALS, Signal
from otelchain_collector.statuses import success
from otelchain_collector.tokens import Tokens, Verdict
from otelchain_collector.writer import Outcome

_METHODS: Final = {f"/{signal.service}/Export": signal for signal in SIGNALS}

_logger = logging.getLogger(__name__)


class GrpcReceiver:
    """Takes the calls of all connections.

    Args:
        ingest: Where requests go.
        max_request_bytes: The largest message, before and after decompression.
        tokens: Who may call.
        max_calls: The most calls that are open at once.
        requests: Counts the calls by what became of them.
    """

    def __init__(
        self,
        ingest: Ingest,
        max_request_bytes: int,
        tokens: Tokens,
        max_calls: int,
        requests: Counter,
    ) -> None:
        self.ingest = ingest
        self.max_request_bytes = max_request_bytes
        self._tokens = tokens
        self._max_calls = max_calls
        self._calls = 0
        self._requests = requests

    def open(self, head: CallHead) -> "Call":
        """Begin a call whose headers have come.

        Raises:
            RefusedError: It may not go on.
        """
        signal = _METHODS.get(head.path)
        try:
            self._check(head)
            if signal is None:
                raise refused(code_pb2.UNIMPLEMENTED, "the only methods are OTLP's Export")
            if self._calls >= self._max_calls:
                raise try_again("the collector has too many open calls")
        except RefusedError as error:
            self._count(signal, error.answer.code)
            raise
        self._calls += 1
        return Call(self, signal, head)

    def close(self, signal: Signal, code: int | None) -> None:
        """Note that a call has ended, with this code; None: its client has gone."""
        self._calls -= 1
        self._count(signal, code)

    def _check(self, head: CallHead) -> None:
        verdict = self._tokens.check(head.authorization, "write")
        if verdict is not Verdict.ALLOWED:
            forbidden = verdict is Verdict.FORBIDDEN
            code = code_pb2.PERMISSION_DENIED if forbidden else code_pb2.UNAUTHENTICATED
            raise refused(code, refusal_text(verdict, "write"))
        check_head(head)

    def _count(self, signal: Signal | None, code: int | None) -> None:
        name = "other" if signal is None else signal.name
        self._requests.labels("grpc", name, "gone" if code is None else grpc_outcome(code)).inc()


class Call:
    """One call; it ends with `refuse`, `answer` or `abandon`."""

    def __init__(self, receiver: GrpcReceiver, signal: Signal, head: CallHead) -> None:
        self._receiver = receiver
        self._signal = signal
        self._message = IncomingMessage(
            receiver.ingest.budget.reserve(), head.encoding, receiver.max_request_bytes
        )
        self.is_gone = False

    def add(self, data: bytes) -> None:
        """Take the next bytes of the message.

        Raises:
            RefusedError: It may not go on.
        """
        self._message.add(data)

    def refuse(self, answer: Answer) -> None:
        """End the call before its message has come."""
        self._message.drop()
        self._receiver.close(self._signal, answer.code)

    def abandon(self) -> None:
        """End the call whose client has gone before its message had come."""
        self._message.drop()
        self._receiver.close(self._signal, None)

    async def answer(self) -> Answer:
        """Answer when the records are committed, or say what is wrong.

        What has arrived whole is stored, also when its client has gone meanwhile.
        """
        answer = await self._answer()
        self._receiver.close(self._signal, None if self.is_gone else answer.code)
        return answer

    async def _answer(self) -> Answer:
        try:
            outcome = await self._accept()
        except RefusedError as error:
            return error.answer
        except (MalformedRequestError, NotCompressedError) as error:
            return Answer(code_pb2.INVALID_ARGUMENT, str(error))
        except TooLargeError:
            return too_large(self._receiver.max_request_bytes).answer
        except TooManyRecordsError as error:
            return Answer(code_pb2.RESOURCE_EXHAUSTED, str(error))
        except (QueueFullError, StoreUnavailableError) as error:
            return try_again(str(error)).answer
        except asyncio.CancelledError:  # The end of the drain; what is not committed was not kept.
            return try_again("the collector is stopping; try again in a second").answer
        except Exception:  # any fault of ours: the client must keep the records and send them again
            _logger.exception("a request could not be handled")
            return try_again("internal error; try again in a second").answer
        return Answer(code_pb2.OK, body=success(self._signal, outcome).SerializeToString())

    async def _accept(self) -> Outcome:
        message = self._message
        try:
            body, encoding = message.end()
        except RefusedError:
            message.drop()
            raise
        read = partial(_read, body, encoding, self._receiver.max_request_bytes)
        return await self._receiver.ingest.accept(self._signal, read, message.reservation)


def _read(
    body: bytes, encoding: str | None, max_request_bytes: int, reservation: Reservation
) -> EncodedRequest:
    if encoding is not None:
        body = inflate(body, encoding, max_request_bytes)
        reservation.add(len(body))
    return EncodedRequest(body, parse_protobuf)
