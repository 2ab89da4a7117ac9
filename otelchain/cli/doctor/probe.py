"""Send an empty request where the application's spans go, and see who answers."""

import http.client
from collections.abc import Iterator
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import Request

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding, Level
from otelchain.cli.doctor.probing import SECONDS, START, TOKEN, clock
from otelchain.cli.place import Place
from otelchain.reading.connect import opener, reason
from otelchain.reading.extras import extra_of
from otelchain.reading.source import SourceError

_PROTOBUF: Final = "application/x-protobuf"
_IS_GRPC: Final = (
    "it is a gRPC port; set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or use the HTTP port (usually 4318)"
)


def certificates(exporter: Exporter, place: Place) -> Iterator[Finding]:
    """Find files of certificates that cannot be used; without TLS they are not needed yet."""
    endpoints = (exporter.endpoint, place.endpoint or "http://")
    level: Level = "warning" if all(each.startswith("http://") for each in endpoints) else "error"
    try:
        opener("https://localhost", place)
    except SourceError as error:
        yield Finding("certificate", level, str(error), "name files that exist, in PEM")


def probe(exporter: Exporter, place: Place) -> Iterator[Finding]:
    """Send an empty request as the exporter would; nothing is stored by it."""
    if exporter.address is None or exporter.bad_headers:
        return  # `exporter_settings` has said so.
    if exporter.protocol == "grpc":
        yield from _grpc(exporter, place)
    elif exporter.protocol == "http/protobuf":
        yield from _http(exporter, place)


def _http(exporter: Exporter, place: Place) -> Iterator[Finding]:
    url = exporter.endpoint
    if not url.startswith(("http://", "https://")):
        yield Finding("port", "error", f"{url!r} is not an HTTP address", "begin it with http://")
        return
    headers = {**exporter.headers, "content-type": _PROTOBUF}
    request = Request(url, b"", headers, method="POST")  # noqa: S310 - checked above
    try:
        with opener(url, place).open(request, timeout=SECONDS) as response:
            response.read(1000)
            yield _answered(url, response.status, response.headers.get("content-type", ""))
            yield from clock(response.headers.get("date"))
    except HTTPError as error:
        with error:
            yield _answered(url, error.code, error.headers.get("content-type", ""))
    except URLError as error:
        yield _silent(url, error.reason)
    except SourceError:
        return  # `certificates` has said so.
    except (OSError, http.client.HTTPException) as error:
        yield _silent(url, error)


def _answered(url: str, status: int, content_type: str) -> Finding:
    if status in (401, 403):
        what = "wants a token" if status == 401 else "does not let this token write"
        return Finding("port", "error", f"{url} {what} ({status})", TOKEN)
    if status == 200 and content_type.startswith(_PROTOBUF):
        return Finding("port", "ok", f"{url} takes OTLP")
    return Finding(
        "port",
        "error",
        f"what answers at {url} takes no OTLP there (status {status}, {content_type or 'no type'})",
        "another program may use the port; " + START,
    )


def _silent(url: str, error: object) -> Finding:
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
        return Finding("port", "error", f"what listens at {url} does not speak HTTP/1.1", _IS_GRPC)
    return Finding("port", "error", f"nothing answers at {url} ({reason(error)})", START)


def _grpc(exporter: Exporter, place: Place) -> Iterator[Finding]:
    try:
        from otelchain.cli.doctor.probe_grpc import answered
    except ModuleNotFoundError as error:
        if extra_of(error) is None:
            raise
        yield Finding(
            "port",
            "error",
            "the protocol is grpc, and the package grpcio is not installed here",
            "pip install opentelemetry-exporter-otlp-proto-grpc, or set "
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        )
        return
    yield from answered(exporter, place)
