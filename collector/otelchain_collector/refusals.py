"""Refusals over HTTP: a ``google.rpc.Status``, in the encoding of the request that is refused."""

from collections.abc import Mapping, Sequence
from typing import Final

import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from starlette.responses import Response

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"


def media_type(content_types: Sequence[str]) -> str:
    """Return what a request is encoded in; empty where its headers do not say one thing."""
    # Parameters such as charset=utf-8 say nothing that these two types leave open. Two different
    # types are none.
    types = {value.partition(";")[0].strip().lower() for value in content_types}
    return types.pop() if len(types) == 1 else ""


def write_protobuf(message: Message) -> bytes:
    """Encode an answer."""
    return message.SerializeToString()


def write_json(message: Message) -> bytes:
    """Encode an answer."""
    return orjson.dumps(MessageToDict(message))


def encoded(status: Status, content_types: Sequence[str]) -> tuple[str, bytes]:
    """Return media type and body: of the request's own encoding, JSON when it has none we know."""
    if media_type(content_types) == PROTOBUF:
        return PROTOBUF, write_protobuf(status)
    return JSON, write_json(status)


def refusal_response(
    content_types: Sequence[str],
    http_status: int,
    status: Status,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer to a request with these Content-Type headers."""
    chosen, body = encoded(status, content_types)
    return Response(body, http_status, headers, media_type=chosen)
