"""Send an empty request where the application's spans go, and see who answers."""

import http.client
import os
from collections.abc import Iterator
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding, Level
from otelchain.cli.doctor.probing import SECONDS, clock, start, token
from otelchain.cli.place import Place
from otelchain.reading.connect import opener, reason
from otelchain.reading.extras import extra_of
from otelchain.reading.source import SourceError

_PROTOBUF: Final = "application/x-protobuf"
_NO_SUCH_PATH: Final = (404, 405)
_REMEDY: Final = "name files that exist, in PEM"
_TRACES_PATH: Final = "/v1/traces"


def certificates(exporter: Exporter, place: Place) -> Iterator[Finding]:
    """Find files of certificates that cannot be used; without TLS they are not needed yet."""
    files = exporter.files
    if _would_abort(exporter):
        yield Finding(
            "certificate",
            "error",
            f"{files.names.client_certificate} and {files.names.client_key} go together: with one "
            "of them alone gRPC ends the application's process",
            f"set {files.missing_half}",
        )
        return
    try:
        files.context()
    except SourceError as error:
        level: Level = "error" if exporter.security.is_secure else "warning"
        yield Finding("certificate", level, str(error), _REMEDY)
        mine = (files.ca_file, files.client_certificate, files.client_key)
        if (place.ca_file, place.client_certificate, place.client_key) == mine:
            return
    try:
        opener("https://localhost", place)
    except SourceError as error:
        level = "error" if (place.endpoint or "").startswith("https://") else "warning"
        yield Finding("certificate", level, str(error), _REMEDY)


def _would_abort(exporter: Exporter) -> bool:
    is_grpc_with_tls = exporter.protocol == "grpc" and exporter.security.is_secure
    return is_grpc_with_tls and bool(exporter.files.missing_half)


def probe(exporter: Exporter) -> Iterator[Finding]:
    """Send an empty request as the exporter would; nothing is stored by it."""
    if not exporter.can_be_reached or exporter.bad_headers:
        return  # `exporter_settings` has said so.
    if _would_abort(exporter):
        return  # `certificates` has said so.
    if exporter.protocol == "grpc":
        yield from _grpc(exporter)
    elif exporter.protocol == "http/protobuf":
        yield from _http(exporter)


def _http(exporter: Exporter) -> Iterator[Finding]:
    url = exporter.endpoint
    if not url.startswith(("http://", "https://")):
        yield Finding("port", "error", f"{url!r} is not an HTTP address", "begin it with http://")
        return
    headers = {**exporter.headers, "content-type": _PROTOBUF}
    request = Request(url, b"", headers, method="POST")  # noqa: S310 - checked above
    try:
        # Not with the options of the command: the application does not have them.
        context = exporter.files.context() if exporter.security.is_secure else None
        with opener(url, Place(), context).open(request, timeout=SECONDS) as response:
            response.read(1000)
            yield _answered(exporter, response.status, response.headers.get("content-type", ""))
            yield from clock(response.headers.get("date"))
    except HTTPError as error:
        with error:
            yield _answered(exporter, error.code, error.headers.get("content-type", ""))
    except URLError as error:
        yield _silent(exporter, error.reason)
    except SourceError:
        return  # `certificates` has said so.
    except (OSError, http.client.HTTPException) as error:
        yield _silent(exporter, error)


def _answered(exporter: Exporter, status: int, content_type: str) -> Finding:
    url = exporter.endpoint
    if status in (401, 403):
        what = "wants a token" if status == 401 else "does not let this token write"
        return Finding("port", "error", f"{url} {what} ({status})", token(exporter))
    if status == 200 and content_type.startswith(_PROTOBUF):
        return Finding("port", "ok", f"{url} takes OTLP")
    return Finding(
        "port",
        "error",
        f"what answers at {url} takes no OTLP there (status {status}, {content_type or 'no type'})",
        (_other_path(exporter) if status in _NO_SUCH_PATH else "")
        or "another program may use the port; " + start(exporter),
    )


def _other_path(exporter: Exporter) -> str:
    path = urlsplit(exporter.endpoint).path.rstrip("/")
    variable = exporter.variable("ENDPOINT")
    if path.endswith(_TRACES_PATH * 2):
        return f"take {_TRACES_PATH} out of {variable}: the exporter adds it"
    if not path.endswith(_TRACES_PATH):
        return f"add {_TRACES_PATH} to {variable}: the exporter adds nothing to it"
    return ""


def _silent(exporter: Exporter, error: object) -> Finding:
    url = exporter.endpoint
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
        return Finding(
            "port",
            "error",
            f"what listens at {url} does not speak HTTP/1.1",
            f"it is a gRPC port; set {exporter.variable('PROTOCOL')}=grpc, or use the HTTP port "
            "(usually 4318)",
        )
    why = reason(error, exporter.files.names)
    return Finding("port", "error", f"nothing answers at {url} ({why})", start(exporter))


def _grpc(exporter: Exporter) -> Iterator[Finding]:
    # What gRPC writes to standard error comes in the findings, too.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
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
            f"{exporter.variable('PROTOCOL')}=http/protobuf",
        )
        return
    yield from answered(exporter)
