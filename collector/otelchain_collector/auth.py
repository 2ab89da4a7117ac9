"""HTTP's door: each request shows a token that permits it, before its body is read."""

from typing import Final

from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from otelchain_collector.api_requests import error_answer
from otelchain_collector.refusals import refusal_response
from otelchain_collector.signals import SIGNALS
from otelchain_collector.tokens import Permission, Tokens, Verdict

_OTLP_PATHS: Final = [path for signal in SIGNALS for path in signal.paths]
#: What each route needs, by its path as the application has it; a route that is not here is refused
#: at the start. None: any valid token, since a question is stopped by the token that asked it.
_PERMISSIONS: Final[dict[str, Permission | None]] = {
    **dict[str, Permission | None].fromkeys(_OTLP_PATHS, "write"),
    "/queries": "read",
    "/queries/{name}": "read",
    "/sql": "sql",
    "/questions/{id}": None,
    "/snapshot": "sql",
    "/metrics": "metrics",
    "/reindex": "maintain",
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
    """ASGI: pass on the requests whose token permits them; answer the others 401 or 403.

    The application's own routes say what a path is, so that no spelling of one is another thing
    here than there. What none of them matches does not reach the application.

    Args:
        app: The application.
        nowhere: Answers those with a valid token whose path is none of the application's.
        tokens: Who may come in.

    Raises:
        ValueError: It is not known what a route needs.
    """

    def __init__(self, app: Starlette, nowhere: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._nowhere = nowhere
        self._tokens = tokens
        self._routes = [route for route in app.routes if isinstance(route, Route)]
        known = _PERMISSIONS.keys() | _OPEN
        if unknown := [
            str(route) for route in app.routes if getattr(route, "path", "") not in known
        ]:
            raise ValueError(f"what do these need? {', '.join(unknown)}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        # Also with a method that the route does not take: it is refused behind this door.
        paths = {route.path for route in self._routes if route.matches(scope)[0] is not Match.NONE}
        headers = Headers(scope=scope)
        authorization = tuple(headers.getlist("authorization"))
        if not (paths and paths <= _OPEN):
            # One path, unless two routes match; then it takes what each of them needs.
            needed: set[Permission | None] = {_PERMISSIONS.get(path) for path in paths}
            for permission in needed or {None}:
                verdict = self._tokens.check(authorization, permission)
                if verdict is not Verdict.ALLOWED:
                    kinds = headers.getlist("content-type")
                    response = _refusal(verdict, permission, kinds, scope["path"])
                    await response(scope, receive, send)
                    return
        asker = self._tokens.identity(authorization)
        inside = self._app if paths else self._nowhere
        await inside({**scope, _ASKER: asker}, receive, send)


def _refusal(
    verdict: Verdict, permission: Permission | None, content_types: list[str], path: str
) -> Response:
    text = refusal_text(verdict, permission)
    status = 403 if verdict is Verdict.FORBIDDEN else 401
    headers = {"www-authenticate": _CHALLENGES[verdict].format(permission=permission)}
    if not path.startswith("/v1/"):
        return error_answer(status, text, headers)
    code = code_pb2.PERMISSION_DENIED if status == 403 else code_pb2.UNAUTHENTICATED
    return refusal_response(content_types, status, Status(code=code, message=text), headers)
