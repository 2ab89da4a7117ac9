"""The doors: each request shows a token that permits it, before its body is read."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
import orjson
from google.protobuf.json_format import MessageToDict
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

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
_PROTOBUF: Final = "application/x-protobuf"

_TEXTS: Final = {
    Verdict.MISSING: "a token is needed; send it as: Authorization: Bearer TOKEN",
    Verdict.INVALID: "the token is not one of this collector's",
    Verdict.FORBIDDEN: "the token does not permit this; it needs the permission {permission!r}",
}
_CHALLENGES: Final = {
    Verdict.MISSING: 'Bearer realm="otelchain"',
    Verdict.INVALID: 'Bearer realm="otelchain", error="invalid_token"',
    Verdict.FORBIDDEN: 'Bearer realm="otelchain", error="insufficient_scope", scope="{permission}"',
}


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
        verdict = self._tokens.check(headers.get("authorization"), permission)
        if verdict is Verdict.ALLOWED or path in _OPEN:
            await self._app(scope, receive, send)
            return
        response = _refusal(verdict, permission, headers.get("content-type", ""), path)
        await response(scope, receive, send)


def _refusal(
    verdict: Verdict, permission: Permission | None, content_type: str, path: str
) -> Response:
    text = _TEXTS[verdict].format(permission=permission)
    status = 403 if verdict is Verdict.FORBIDDEN else 401
    headers = {"www-authenticate": _CHALLENGES[verdict].format(permission=permission)}
    if not path.startswith("/v1/"):
        return Response(
            orjson.dumps({"error": text}), status, headers, media_type="application/json"
        )
    code = code_pb2.PERMISSION_DENIED if status == 403 else code_pb2.UNAUTHENTICATED
    message = Status(code=code, message=text)
    if content_type.partition(";")[0].strip().lower() == _PROTOBUF:
        return Response(message.SerializeToString(), status, headers, media_type=_PROTOBUF)
    return Response(
        orjson.dumps(MessageToDict(message)), status, headers, media_type="application/json"
    )


class GrpcAuth(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # no types are published
    """Pass on the calls whose token permits writing; end the others."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Return the handler of the call, or one that refuses it without reading its message."""
        metadata = dict(handler_call_details.invocation_metadata)
        verdict = self._tokens.check(metadata.get("authorization"), "write")
        if verdict is Verdict.ALLOWED:
            return await continuation(handler_call_details)
        forbidden = verdict is Verdict.FORBIDDEN
        code = grpc.StatusCode.PERMISSION_DENIED if forbidden else grpc.StatusCode.UNAUTHENTICATED

        async def refuse(_: Any, context: Any) -> None:
            await context.abort(code, _TEXTS[verdict].format(permission="write"))

        # As a stream, because the message of a unary call is read before its handler is asked.
        return grpc.stream_unary_rpc_method_handler(refuse)
