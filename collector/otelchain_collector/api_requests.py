"""What the routes beside ``/v1/…`` share: JSON bodies in, errors out, and who has gone."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from otelchain_collector.budget import QueueFullError
from otelchain_collector.rendering import JSON
from otelchain_collector.statuses import RETRY_AFTER_SECONDS

#: Headers of an answer that asks to come again.
AGAIN: Final = {"retry-after": str(RETRY_AFTER_SECONDS)}
#: What is said when the system refuses something that an answer takes.
OUT_OF_SOMETHING: Final = "the system has no room for this now (files, processes); ask in a second"
_MAX_BODY_BYTES: Final = 1024 * 1024
#: What the bodies of all questions together may have, from their first byte to the answer.
MAX_BODIES_BYTES: Final = 8 * 1024 * 1024

_TOO_MUCH: Final = "too many large questions at once; ask again in a second"


class Refused(Exception):  # noqa: N818 - an answer that is an error, not a failure of ours
    """A request that cannot be answered: the HTTP status, why, and headers."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self._status = status
        self._headers = headers

    def answer(self) -> Response:
        """Return the answer."""
        return error_answer(self._status, str(self), self._headers)


async def json_body(
    request: Request,
    fields: set[str],
    *,
    max_bytes: int = _MAX_BODY_BYTES,
    hold: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the body, an object with no other fields.

    Args:
        request: Whose body.
        fields: Those that it may have.
        max_bytes: The largest body.
        hold: Hears of its bytes as they come, and may raise QueueFullError.

    Raises:
        Refused: It is something else.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A web page of another site cannot send this type without asking first.
        raise Refused(415, "the body must have the content type application/json")
    text = bytearray()
    async for chunk in request.stream():
        if len(text) + len(chunk) > max_bytes:
            raise Refused(413, f"the body is larger than {max_bytes} bytes")
        try:
            hold(len(chunk))
        except QueueFullError as error:
            raise Refused(503, _TOO_MUCH, AGAIN) from error
        text += chunk
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
