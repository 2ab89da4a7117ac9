"""The probe's request over gRPC; a module of its own, since an application need not have grpcio."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import grpc

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding
from otelchain.cli.doctor.probing import SECONDS, START, TOKEN, clock
from otelchain.cli.place import Place

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_IS_HTTP: Final = (
    "it is an HTTP port; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or use the gRPC port "
    "(usually 4317)"
)


def answered(exporter: Exporter, place: Place) -> Iterator[Finding]:
    """Send an empty request; nothing is stored by it."""
    parts = urlsplit(exporter.endpoint)
    target = parts.netloc or exporter.endpoint
    metadata = tuple(exporter.headers.items())
    try:
        with _channel(parts.scheme, target, place) as channel:
            export = channel.unary_unary(_METHOD)
            _, call = export.with_call(b"", timeout=SECONDS, metadata=metadata)
            headers = dict(call.initial_metadata())
    except grpc.RpcError as error:
        yield _refusal(target, error)
        return
    except OSError:
        return  # `certificates` has said so.
    yield Finding("port", "ok", f"{target} takes OTLP over gRPC")
    # gRPC knows no such header; our collector sends it.
    yield from clock(headers.get("date"))


def _channel(scheme: str, target: str, place: Place) -> Any:
    if scheme != "https":
        return grpc.insecure_channel(target)
    files = (place.ca_file, place.client_key, place.client_certificate)
    return grpc.secure_channel(
        target, grpc.ssl_channel_credentials(*(file and file.read_bytes() for file in files))
    )


def _refusal(target: str, error: Any) -> Finding:
    code = error.code()
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Finding("port", "error", f"{target} does not let you write ({code.name})", TOKEN)
    if code is grpc.StatusCode.UNAVAILABLE and "refused" not in str(error.details()).lower():
        return Finding("port", "error", f"what listens at {target} does not speak gRPC", _IS_HTTP)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Finding("port", "error", f"what answers at {target} takes no OTLP traces", START)
    return Finding("port", "error", f"nothing answers at {target} ({code.name.lower()})", START)
