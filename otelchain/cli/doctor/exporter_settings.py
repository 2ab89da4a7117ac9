"""Settings of the exporter that do not do what they seem to."""

from collections.abc import Iterator, Mapping
from typing import Final

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.exporter_tls import BUNDLES, unused_files
from otelchain.cli.doctor.finding import Finding

# Over gRPC it fails even on "none", and on nothing at all.
_COMPRESSIONS: Final = {"http/protobuf": ("", "none", "gzip", "deflate"), "grpc": ("gzip",)}


def exporter_settings(environment: Mapping[str, str], exporter: Exporter) -> Iterator[Finding]:
    """Say where spans go, and what is wrong with the variables that say so."""
    tls = " with TLS" if exporter.protocol == "grpc" and exporter.security.is_secure else ""
    yield Finding(
        "exporter",
        "ok",
        f"spans go to {exporter.endpoint} over {exporter.protocol}{tls} ({exporter.origin})",
    )
    if exporter.protocol not in _COMPRESSIONS:
        yield Finding(
            "exporter",
            "error",
            f"{exporter.variable('PROTOCOL')}={exporter.protocol} is not one that configure() "
            "knows",
            "use http/protobuf or grpc",
        )
    elif not exporter.can_be_reached:
        yield Finding(
            "exporter",
            "error",
            f"{exporter.endpoint!r} is no address ({exporter.origin})",
            "write it as http://HOST:PORT",
        )
    for name in exporter.bad_headers:
        yield Finding(
            "exporter",
            "error",
            f"the header {name!r} of {exporter.variable('HEADERS')} cannot be sent: a name has no "
            "spaces, a value only characters of ASCII on one line",
            "take the other characters out",
        )
    known = _COMPRESSIONS.get(exporter.protocol, ())
    if exporter.compression is not None and known and exporter.compression not in known:
        yield Finding(
            "exporter",
            "error",
            f"{exporter.variable('COMPRESSION')}={exporter.compression} is not one that Python's "
            f"exporter over {exporter.protocol} knows",
            f"unset it, or set it to {' or '.join(filter(None, known))}",
        )
    if exporter.timeout_seconds > 600:
        yield Finding(
            "exporter",
            "warning",
            f"{exporter.variable('TIMEOUT')}={exporter.timeout_seconds:g} is in seconds in Python, "
            "not in milliseconds",
            "divide it by 1000, or unset it for 10 seconds",
        )
    if exporter.security.is_secure:
        yield from _certificates(environment, exporter)


def _certificates(environment: Mapping[str, str], exporter: Exporter) -> Iterator[Finding]:
    if exporter.protocol == "grpc":
        unused = unused_files(environment, exporter.files, exporter.signal)
        for name, missing in unused.items():
            yield Finding(
                "exporter",
                "warning",
                f"the exporter over grpc does not read {name}: it takes only those that go with "
                "the variable of the authority",
                f"set {missing}",
            )
        return
    used = exporter.files.names.ca_file
    beaten = (f"OTEL_EXPORTER_OTLP_{prefix}CERTIFICATE" for prefix in (f"{exporter.signal}_", ""))
    loser = next((each for each in beaten if environment.get(each)), None)
    if used in BUNDLES and loser is not None:
        yield Finding(
            "exporter",
            "warning",
            f"{used} is used by the HTTP exporter instead of {loser}",
            f"unset {used} for the application",
        )
