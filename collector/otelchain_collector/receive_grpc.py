"""OTLP over gRPC (to ingest), on the event loop of the HTTP server."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status

from otelchain_collector.budget import QueueFullError, Reservation
from otelchain_collector.decoding import EncodedRequest
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.ingest import Ingest
from otelchain_collector.limits import GRPC_OPTIONS
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import MalformedRequestError
from otelchain_collector.signals import SIGNALS, Signal
from otelchain_collector.statuses import RETRY_INFO, success
from otelchain_collector.writer import Outcome

_logger = logging.getLogger(__name__)


def grpc_server(ingest: Ingest, max_request_bytes: int, interceptors: Sequence[Any] = ()) -> Any:
    """Build the server (grpc.aio.Server); the caller binds and starts it.

    Args:
        ingest: Where requests go.
        max_request_bytes: The largest message, before and after decompression.
        interceptors: What each call passes, the outermost first (grpc.aio.ServerInterceptor).
    """
    server = grpc.aio.server(
        interceptors=interceptors,
        options=[
            # gRPC's own limit is 4 MiB, less than a batch of 512 long LLM spans.
            ("grpc.max_receive_message_length", max_request_bytes),
            # Otherwise two collectors can listen on one port and each gets half of the spans.
            ("grpc.so_reuseport", 0),
            *GRPC_OPTIONS,
        ],
    )
    receivers = ((each.service, _Receiver(each, ingest, max_request_bytes)) for each in SIGNALS)
    server.add_generic_rpc_handlers(
        tuple(_service(name, receiver.export) for name, receiver in receivers)
    )
    return server


_Export = Callable[[bytes, Any], Awaitable[bytes]]


def _service(name: str, export: _Export) -> Any:
    # Without a deserialiser the handler gets the bytes, and decides itself what a bad one costs.
    return grpc.method_handlers_generic_handler(
        name, {"Export": grpc.unary_unary_rpc_method_handler(export)}
    )


class _Receiver:
    def __init__(self, signal: Signal, ingest: Ingest, max_request_bytes: int) -> None:
        self._signal = signal
        self._ingest = ingest
        self._max_request_bytes = max_request_bytes

    async def export(self, body: bytes, context: Any) -> bytes:
        """Answer when the records are committed, or say what is wrong."""
        if len(body) > self._max_request_bytes:
            message = f"the request is larger than {self._max_request_bytes} bytes"
            await _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        try:
            outcome = await self._accept(body)
        except MalformedRequestError as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (QueueFullError, StoreUnavailableError) as error:
            await _try_again(context, str(error))
        except Exception:  # any fault of ours: the client must keep the records and send them again
            _logger.exception("a request could not be handled")
            await _try_again(context, "internal error; try again in a second")
        return bytes(success(self._signal, outcome).SerializeToString())

    async def _accept(self, body: bytes) -> Outcome:
        reservation = self._ingest.budget.reserve()
        reservation.add(len(body))

        def read(_: Reservation) -> EncodedRequest:
            return EncodedRequest(body, parse_protobuf)

        return await self._ingest.accept(self._signal, read, reservation)


async def _refuse(
    context: Any, code: grpc.StatusCode, message: str, trailing: tuple[tuple[str, bytes], ...] = ()
) -> NoReturn:
    await context.abort(code, message, trailing)
    raise AssertionError("abort() raises")


async def _try_again(context: Any, message: str) -> NoReturn:
    status = Status(code=code_pb2.UNAVAILABLE, message=message)
    status.details.add().Pack(RETRY_INFO)
    trailing = (
        # The first is where the specification wants the delay, the second the only place where
        # Python's exporter looks for it.
        ("grpc-status-details-bin", status.SerializeToString()),
        ("google.rpc.retryinfo-bin", RETRY_INFO.SerializeToString()),
    )
    await _refuse(context, grpc.StatusCode.UNAVAILABLE, message, trailing)
