"""The server for HTTP (uvicorn), and the layers that a request passes before the application."""

import contextlib
import logging
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from otelchain_collector.admission import Door
from otelchain_collector.auth import HttpAuth
from otelchain_collector.limits import FULL, http_protocol
from otelchain_collector.metrics import HttpMetrics, Metrics
from otelchain_collector.receive_http import NOWHERE
from otelchain_collector.request_head import RequestHead
from otelchain_collector.response_headers import ResponseHeaders
from otelchain_collector.settings import CollectorSettings
from otelchain_collector.tls import Tls
from otelchain_collector.tokens import Tokens

# Longer than the 5 s between two batches of an SDK; with uvicorn's 5 s, sends would meet a
# connection that is just being closed.
_KEEP_ALIVE_SECONDS = 75


class HttpServer(uvicorn.Server):
    """A server that leaves signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`; uvicorn would raise them again after it has stopped."""
        yield


def guarded(app: Starlette, tokens: Tokens, metrics: Metrics) -> ASGIApp:
    """Put the layers around the application that each request passes, the outermost last."""
    inner = HttpMetrics(HttpAuth(app, NOWHERE, tokens), metrics.requests)
    return ResponseHeaders(RequestHead(inner))


def http_server(
    app: ASGIApp, settings: CollectorSettings, tls: Tls | None, drain_seconds: int
) -> HttpServer:
    """Return the server, which ends open requests within ``drain_seconds`` when it stops."""
    context = None if tls is None else tls.http_context()
    door = Door(settings.max_connections, settings.request_seconds, context, FULL)
    return HttpServer(
        uvicorn.Config(
            app,
            # httptools, which uvicorn takes when it is there, costs the same: 70 µs of CPU a span.
            http=http_protocol(door, settings.request_seconds),
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            # Whose address a request comes from is nobody's business here.
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=drain_seconds,
        )
    )
