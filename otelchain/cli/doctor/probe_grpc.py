"""The probe's request over gRPC; a module of its own, since an application need not have grpcio."""

from collections.abc import Iterator
from typing import Any, Final

import grpc

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding
from otelchain.cli.doctor.probing import SECONDS, clock, start, token

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
# A connection of its own, not one that waits because it has failed before.
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)
# What gRPC's C core says of something that answers as an HTTP server does: no settings of HTTP/2, a
# status that is not gRPC's, with TLS no agreement on HTTP/2.
_HTTP_ANSWERS: Final = ("expected settings frame", "http status", "http1", "alpn", "content-type")
_NO_NAME: Final = ("errors resolving", "dns resolution failed", "name resolution")


def answered(exporter: Exporter) -> Iterator[Finding]:
    """Send an empty request; nothing is stored by it."""
    metadata = tuple(exporter.headers.items())
    try:
        with _channel(exporter) as channel:
            export = channel.unary_unary(_METHOD)
            _, call = export.with_call(b"", timeout=SECONDS, metadata=metadata)
            headers = dict(call.initial_metadata())
    except grpc.RpcError as error:
        yield Finding("port", "error", *_refusal(exporter, error))
        return
    except OSError:
        return  # `certificates` has said so.
    yield Finding("port", "ok", f"{exporter.target} takes OTLP over gRPC")
    # gRPC knows no such header; our collector sends it.
    yield from clock(headers.get("date"))


def _channel(exporter: Exporter) -> Any:
    if not exporter.security.is_secure:
        return grpc.insecure_channel(exporter.target, _OPTIONS)
    files = exporter.files
    contents = (
        file and file.read_bytes()
        for file in (files.ca_file, files.client_key, files.client_certificate)
    )
    return grpc.secure_channel(exporter.target, grpc.ssl_channel_credentials(*contents), _OPTIONS)


def _refusal(exporter: Exporter, error: Any) -> tuple[str, str]:
    """Say what is wrong, and what to do."""
    target, code = exporter.target, error.code()
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return f"{target} does not let you write ({code.name})", token(exporter)
    details = str(error.details())
    said = details.lower()
    if any(part in said for part in _HTTP_ANSWERS):
        return f"what listens at {target} does not speak gRPC", (
            f"it is an HTTP port; set {exporter.variable('PROTOCOL')}=http/protobuf, or use the "
            "gRPC port (usually 4317)"
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"what answers at {target} takes no OTLP traces", start(exporter)
    if code is grpc.StatusCode.UNAVAILABLE:
        return _no_connection(exporter, details)
    why = "no answer in time" if code is grpc.StatusCode.DEADLINE_EXCEEDED else details
    return f"nothing answers at {target} ({code.name.lower()}: {why})", start(exporter)


def _no_connection(exporter: Exporter, details: str) -> tuple[str, str]:
    target, names, said = exporter.target, exporter.files.names, details.lower()
    if "wrong_version_number" in said:
        return f"what listens at {target} does not speak TLS, and the exporter does", _plain(
            exporter
        )
    if "certificate_verify_failed" in said or "hostname verification" in said:
        why = details.partition("CERTIFICATE_VERIFY_FAILED: ")[2].removesuffix(": OK") or details
        return (
            f"the certificate of {target} is not trusted: {why}",
            f"set {names.ca_file} to its authority, and reach it by a name that it has",
        )
    if any(part in said for part in _NO_NAME):
        remedy = f"correct {exporter.variable('ENDPOINT')}"
        return f"the name in {target} is not known: {details}", remedy
    if "refused" in said:
        return f"nothing answers at {target} (connection refused)", start(exporter)
    if "socket closed" in said or "connection reset" in said:
        return f"what listens at {target} closes the connection: {details}", (
            # gRPC shows a certificate only where it is told an authority.
            f"if it wants a certificate, {names.show_one}, beside {names.ca_file}"
            if exporter.security.is_secure
            else f"if it speaks TLS, set {exporter.setting(f'https://{target}')}"
        )
    return f"no connection to {target}: {details}", start(exporter)


def _plain(exporter: Exporter) -> str:
    """Say how to have it speak without TLS, by what made it speak with TLS."""
    security = exporter.security
    plain = exporter.setting(f"http://{exporter.target}")
    if security.scheme == "https":
        return f"write {plain}"
    if not security.variable:
        return f"write {plain}, or OTEL_EXPORTER_OTLP_INSECURE=true"
    if security.scheme == "http":
        return f"unset {security.variable}, or set it to true: it goes before http://"
    return f"set {security.variable}=true"
