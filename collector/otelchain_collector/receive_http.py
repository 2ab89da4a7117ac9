"""OTLP over HTTP, protobuf and JSON (to ingest), on the port that also answers questions."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from google.protobuf.message import Message
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from otelchain_collector.api_requests import AGAIN, OUT_OF_SOMETHING, error_answer
from otelchain_collector.budget import QueueFullError, Reservation
from otelchain_collector.decoding import EncodedRequest
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.inflate import NotCompressedError, TooLargeError, inflate
from otelchain_collector.ingest import Ingest
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import MalformedRequestError, OtlpRequest
from otelchain_collector.record_limit import TooManyRecordsError
from otelchain_collector.refusals import (
    JSON,
    PROTOBUF,
    media_type,
    refusal_response,
    write_json,
    write_protobuf,
)
from otelchain_collector.signals import SIGNALS, Signal
from otelchain_collector.statuses import RETRY_AFTER_SECONDS, RETRY_INFO, success
from otelchain_collector.writer import Outcome

_ENCODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
_NOT_FOUND = "nothing is served at {path}; OTLP goes to /v1/traces, /v1/logs and /v1/metrics"
# A client that is still sending does not read the answer, so the rest of a refused body is read and
# dropped; of one that is this much too large, not even that.
_DRAINED_LIMITS = 4

# Of a path, in a refusal.
_SHOWN_CHARS = 200

_logger = logging.getLogger(__name__)


class _Format(NamedTuple):
    media_type: str
    parse: Callable[[Signal, bytes, int], OtlpRequest]
    write: Callable[[Message], bytes]


_FORMATS = {
    PROTOBUF: _Format(PROTOBUF, parse_protobuf, write_protobuf),
    JSON: _Format(JSON, parse_json, write_json),
}


def application(ingest: Ingest, max_request_bytes: int, others: Sequence[BaseRoute]) -> Starlette:
    """Build the web application.

    Args:
        ingest: Where requests go.
        max_request_bytes: The largest body, before and after decompression.
        others: Routes of other modules.
    """
    app = Starlette(
        routes=[
            *(
                Route(path, _Receiver(signal, ingest, max_request_bytes).export, methods=["POST"])
                for signal in SIGNALS
                for path in signal.paths
            ),
            *others,
        ],
        exception_handlers={HTTPException: _refuse_route, OSError: _out_of_something},
    )
    # Python's exporter takes a redirect for success and does not follow it.
    app.router.redirect_slashes = False
    return app


class _Receiver:
    def __init__(self, signal: Signal, ingest: Ingest, max_request_bytes: int) -> None:
        self._signal = signal
        self._ingest = ingest
        self._max_request_bytes = max_request_bytes

    async def export(self, request: Request) -> Response:
        """POST /v1/…: answer when the records are committed, or say what is wrong."""
        chosen = _FORMATS.get(media_type(_content_types(request)))
        if chosen is None:
            message = "Content-Type must be application/x-protobuf or application/json"
            return _refusal(request, 415, code_pb2.INVALID_ARGUMENT, message)
        encoding = _content_encoding(request)
        if encoding not in _ENCODINGS and encoding:
            message = f"Content-Encoding {encoding!r} is not supported; use gzip, deflate or none"
            return _refusal(request, 415, code_pb2.INVALID_ARGUMENT, message)
        try:
            outcome = await self._accept(request, chosen, _ENCODINGS.get(encoding))
        except (MalformedRequestError, NotCompressedError) as error:
            return _refusal(request, 400, code_pb2.INVALID_ARGUMENT, str(error))
        except TooLargeError:
            message = f"the request is larger than {self._max_request_bytes} bytes"
            return _refusal(request, 413, code_pb2.RESOURCE_EXHAUSTED, message)
        except TooManyRecordsError as error:
            return _refusal(request, 413, code_pb2.RESOURCE_EXHAUSTED, str(error))
        except (QueueFullError, StoreUnavailableError) as error:
            return _try_again(request, str(error))
        except asyncio.CancelledError:  # The end of the drain; what is not committed was not kept.
            return _try_again(request, "the collector is stopping; try again in a second")
        except ClientDisconnect:
            return Response(status_code=400)  # Nobody is there to read it.
        except Exception:  # any fault of ours: the client must keep the records and send them again
            _logger.exception("a request could not be handled")
            return _try_again(request, "internal error; try again in a second")
        answer = chosen.write(success(self._signal, outcome))
        return Response(answer, media_type=chosen.media_type)

    async def _accept(self, request: Request, chosen: _Format, encoding: str | None) -> Outcome:
        reservation = self._ingest.budget.reserve()
        try:
            body = await self._read_body(request, reservation)
        except BaseException:
            reservation.release()
            raise
        read = partial(_read, body, chosen, encoding, self._max_request_bytes)
        return await self._ingest.accept(self._signal, read, reservation)

    async def _read_body(self, request: Request, reservation: Reservation) -> bytes:
        limit = self._max_request_bytes
        body: list[bytes] = []
        size = 0
        refusal: Exception | None = None
        if int(request.headers.get("content-length", "0")) > limit:
            refusal = TooLargeError()
            if "expect" in request.headers:
                raise refusal  # The client waits for this before it sends anything.
        async for chunk in request.stream():
            size += len(chunk)
            if refusal is None:
                refusal = _hold(chunk, body, reservation) if size <= limit else TooLargeError()
            elif size > limit * _DRAINED_LIMITS:
                break
        if refusal is not None:
            raise refusal
        return b"".join(body)


def _hold(chunk: bytes, body: list[bytes], reservation: Reservation) -> Exception | None:
    """Keep a piece of a body, or drop all of it and return why."""
    try:
        reservation.add(len(chunk))
    except QueueFullError as error:
        body.clear()
        reservation.release()
        return error
    body.append(chunk)
    return None


def _read(
    body: bytes,
    chosen: _Format,
    encoding: str | None,
    max_request_bytes: int,
    reservation: Reservation,
) -> EncodedRequest:
    if encoding is not None:
        body = inflate(body, encoding, max_request_bytes)
        reservation.add(len(body))
    return EncodedRequest(body, chosen.parse)


def _content_types(request: Request) -> list[str]:
    return request.headers.getlist("content-type")


def _content_encoding(request: Request) -> str:
    """Return what the body is compressed with; a body that is so twice has a name with a comma."""
    # RFC 9110, 5.3: several headers of a name are one list.
    names = ",".join(request.headers.getlist("content-encoding")).lower().split(",")
    return ", ".join(name for each in names if (name := each.strip()) not in ("", "identity"))


def _refusal(request: Request, http_status: int, code: int, message: str) -> Response:
    status = Status(code=code, message=message)
    return refusal_response(_content_types(request), http_status, status)


def _try_again(request: Request, message: str) -> Response:
    status = Status(code=code_pb2.UNAVAILABLE, message=message)
    status.details.add().Pack(RETRY_INFO)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return refusal_response(_content_types(request), 503, status, headers)


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:_SHOWN_CHARS]
    if error.status_code == 405:
        response = _refusal(
            request, 405, code_pb2.UNIMPLEMENTED, f"{path} does not take {request.method}"
        )
    else:
        response = _refusal(
            request, error.status_code, code_pb2.NOT_FOUND, _NOT_FOUND.format(path=path)
        )
    response.headers.update(error.headers or {})
    return response


async def _out_of_something(_: Request, error: Exception) -> Response:
    """Answer what met the system's limits (descriptors, processes, the disk), whatever it asked."""
    _logger.error("a request could not be answered", exc_info=error)
    return error_answer(503, OUT_OF_SOMETHING, AGAIN)


#: Where a request goes that no route matches.
NOWHERE = Starlette(exception_handlers={HTTPException: _refuse_route})
