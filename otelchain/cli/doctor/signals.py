"""Logs and metrics that go elsewhere than the spans they belong to."""

from collections.abc import Iterator, Mapping
from typing import Final

from otelchain.cli.doctor.exporter import Exporter, Signal
from otelchain.cli.doctor.finding import Finding
from otelchain.cli.doctor.probing import is_same_host

_OTHERS: Final[tuple[Signal, ...]] = ("LOGS", "METRICS")
_DECIDING: Final = ("ENDPOINT", "PROTOCOL", "HEADERS")
_PORTS: Final = {"http": 80, "https": 443}


def signals(environment: Mapping[str, str], traces: Exporter) -> Iterator[Finding]:
    """Compare both with traces; without a variable of their own it is no more than a note."""
    for signal in _OTHERS:
        if environment.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() not in ("", "otlp"):
            continue
        other = Exporter.of(environment, signal)
        difference = _difference(traces, other)
        if difference is None:
            continue
        own, of_traces = _own_variables(other), _own_variables(traces)
        every = [name.replace("_TRACES_", "_") for name in of_traces]
        yield Finding(
            "exporter",
            "warning" if own else "note",
            f"{signal.lower()} {difference}",
            f"correct or unset {', '.join(own)}"
            if own
            else f"set {', '.join(every)} in place of {', '.join(of_traces)}",
        )


def _own_variables(exporter: Exporter) -> list[str]:
    """Return the variables for its signal alone that decide where it sends."""
    names = (*map(exporter.variable, _DECIDING), exporter.security.variable)
    return [name for name in names if f"_{exporter.signal}_" in name]


def _difference(traces: Exporter, other: Exporter) -> str | None:
    here, there = traces.address, other.address
    if here is None:
        return None  # That has been said.
    if there is None:
        return f"go to {other.endpoint!r}, which is no address ({other.origin})"
    ports = [parts.port or _PORTS.get(parts.scheme) for parts in (here, there)]
    is_same_port = ports[0] == ports[1]
    is_same_protocol = traces.protocol == other.protocol
    # A collector has a port for each protocol.
    if not is_same_host(here.hostname, there.hostname) or is_same_port < is_same_protocol:
        return f"go to {other.endpoint} ({other.origin}), traces to {traces.endpoint}"
    if is_same_port > is_same_protocol:
        return (
            f"go to {other.endpoint} over {other.protocol}, traces to the same port over "
            f"{traces.protocol}: one of them is not spoken there"
        )
    if traces.security.is_secure != other.security.is_secure:
        return f"go to {there.netloc} {_tls(other)} TLS, traces {_tls(traces)} it"
    if other.protocol != "grpc" and not there.path.endswith(other.path):
        return f"go to {other.endpoint}, which does not end with {other.path}"
    if traces.headers != other.headers:
        # A header may be a token.
        return "are sent with other headers than traces"
    return None


def _tls(exporter: Exporter) -> str:
    return "with" if exporter.security.is_secure else "without"
