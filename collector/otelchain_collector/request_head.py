"""ASGI, outermost: a request's target and headers, before anything goes by them.

A target that is a whole address, as a proxy's are, becomes its path (RFC 9112, 3.2.2: a server MUST
accept ``POST http://host/v1/traces HTTP/1.1``, and the host in it counts instead of the header).
Heads that are too large, or that two servers could read in two ways, are refused; so are control
characters in a path: no path of ours has one, and `$` of a pattern also matches before a newline.
"""

import re
from typing import Final
from urllib.parse import unquote

from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from otelchain_collector.refusals import refusal_response

# h11 looks at the size only of what has not come whole.
_MAX_HEAD_BYTES: Final = 64 * 1024
# As Unicode has them (Cc), and its two separators of lines.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SCHEMES: Final = (b"http://", b"https://")


class RequestHead:
    """Pass requests on with a path as their target; answer the others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        refused = _refused(scope)
        if refused is None:
            scope = _with_path(scope)
            refused = _path_refused(scope)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await refused(scope, receive, send)


def _refused(scope: Scope) -> Response | None:
    headers = scope["headers"]
    target_bytes = len(scope["raw_path"]) + len(scope["query_string"])
    if target_bytes + sum(len(name) + len(value) for name, value in headers) > _MAX_HEAD_BYTES:
        text = f"the target and headers are larger than {_MAX_HEAD_BYTES} bytes"
        return _refusal(scope, 431, text)
    if not scope["http_version"].startswith("1."):
        return _refusal(scope, 505, "this port speaks HTTP/1.1")
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        # RFC 9112, 6.3: an attempt at request smuggling.
        return _refusal(scope, 400, "Transfer-Encoding and Content-Length exclude each other")
    return None


def _path_refused(scope: Scope) -> Response | None:
    if _CONTROL.search(scope["path"]):
        return _refusal(scope, 400, "the path has a control character in it")
    return None


def _refusal(scope: Scope, http_status: int, message: str) -> Response:
    status = Status(code=code_pb2.INVALID_ARGUMENT, message=message)
    # The rest of the connection may be anything.
    headers = {"connection": "close"}
    return refusal_response(
        Headers(scope=scope).getlist("content-type"), http_status, status, headers
    )


def _with_path(scope: Scope) -> Scope:
    target = scope["raw_path"]
    if not target[:8].lower().startswith(_SCHEMES):
        return scope
    authority, slash, path = target.partition(b"://")[2].partition(b"/")
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {
        **scope,
        "path": unquote((slash + path or b"/").decode("ascii")),
        "raw_path": slash + path or b"/",
        "headers": [(b"host", authority), *others],
    }
