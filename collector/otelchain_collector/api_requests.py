"""What the routes beside ``/v1/…`` share: JSON bodies in, errors out, and who has gone."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from otelchain_collector.rendering import JSON
from otelchain_collector.statuses import RETRY_AFTER_SECONDS

#: Headers of an answer that asks to come again.
AGAIN: Final = {"retry-after": str(RETRY_AFTER_SECONDS)}
_MAX_BODY_BYTES: Final = 1024 * 1024


class Refused(Exception):  # noqa: N818 - an answer that is an error, not a failure of ours
    """A request that cannot be answered: the HTTP status and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def json_body(request: Request, fields: set[str]) -> dict[str, Any]:
    """Return the body, an object with no other fields.

    Raises:
        Refused: It is something else.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A web page of another site cannot send this type without asking first.
        raise Refused(415, "the body must have the content type application/json")
    text = b""
    async for chunk in request.stream():
        text += chunk
        if len(text) > _MAX_BODY_BYTES:
            raise Refused(413, f"the body is larger than {_MAX_BODY_BYTES} bytes")
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refused(400, "the body is not JSON") from error
    if not isinstance(body, dict) or not set(body) <= fields:
        raise Refused(400, f"the body must be an object with: {', '.join(sorted(fields))}")
    return body


def whole_number(body: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """Return a field that is a whole number from 0 to ``most``.

    Raises:
        Refused: It is something else.
    """
    number = body.get(name, default)
    if type(number) is not int or not 0 <= number <= most:
        raise Refused(400, f"{name} must be a whole number up to {most}")
    return number


async def gone(request: Request) -> None:
    """Wait until the client has closed the connection; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def error_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that says what is wrong."""
    return Response(orjson.dumps({"error": text}), status, headers, media_type=JSON)


def json_answer(value: Any) -> Response:
    """Return a value."""
    return Response(orjson.dumps(value), media_type=JSON)
