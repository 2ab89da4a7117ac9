"""HTTP's door: each request shows a token that permits it, before its body is read."""

from typing import Final

import orjson
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from otelchain_collector.refusals import refusal_response
from otelchain_collector.tokens import Permission, Tokens, Verdict

#: By the first part of the path. Everything else needs some valid token, so that a new route is
#: never open by mistake.
_PERMISSIONS: Final[dict[str, Permission]] = {
    "v1": "write",
    "queries": "read",
    "sql": "sql",
    "snapshot": "sql",
    "metrics": "metrics",
    "reindex": "maintain",
}
#: What asks after a collector's health has no token, and learns nothing but its state.
_OPEN: Final = frozenset({"/healthz", "/livez", "/readyz"})
_ASKER: Final = "otelchain.asker"

_TEXTS: Final = {
    Verdict.MISSING: "a token is needed; send it as: Authorization: Bearer TOKEN",
    Verdict.SEVERAL: "there is more than one Authorization header; send one",
    Verdict.INVALID: "the token is not one of this collector's",
    Verdict.FORBIDDEN: "the token does not permit this; it needs the permission {permission!r}",
}
_CHALLENGES: Final = {
    Verdict.MISSING: 'Bearer realm="otelchain"',
    Verdict.SEVERAL: 'Bearer realm="otelchain", error="invalid_request"',
    Verdict.INVALID: 'Bearer realm="otelchain", error="invalid_token"',
    Verdict.FORBIDDEN: 'Bearer realm="otelchain", error="insufficient_scope", scope="{permission}"',
}


def refusal_text(verdict: Verdict, permission: Permission | None) -> str:
    """Say what is wrong with a token, over either transport."""
    return _TEXTS[verdict].format(permission=permission)


def asker_of(scope: Scope) -> bytes | None:
    """Return who sent a request, which says nothing about the token; None where none is needed."""
    asker: bytes | None = scope.get(_ASKER)
    return asker


class HttpAuth:
    """ASGI: pass on the requests whose token permits them; answer the others 401 or 403."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        path = scope["path"]
        permission = _PERMISSIONS.get(path.split("/", 2)[1] if path.startswith("/") else "")
        headers = Headers(scope=scope)
        authorization = tuple(headers.getlist("authorization"))
        verdict = self._tokens.check(authorization, permission)
        if verdict is Verdict.ALLOWED or path in _OPEN:
            asker = self._tokens.identity(authorization)
            await self._app({**scope, _ASKER: asker}, receive, send)
            return
        response = _refusal(verdict, permission, headers.getlist("content-type"), path)
        await response(scope, receive, send)


def _refusal(
    verdict: Verdict, permission: Permission | None, content_types: list[str], path: str
) -> Response:
    text = refusal_text(verdict, permission)
    status = 403 if verdict is Verdict.FORBIDDEN else 401
    headers = {"www-authenticate": _CHALLENGES[verdict].format(permission=permission)}
    if not path.startswith("/v1/"):
        return Response(
            orjson.dumps({"error": text}), status, headers, media_type="application/json"
        )
    code = code_pb2.PERMISSION_DENIED if status == 403 else code_pb2.UNAUTHENTICATED
    return refusal_response(content_types, status, Status(code=code, message=text), headers)
