"""Where an application with this environment sends its spans, by OpenTelemetry's variables."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from otelchain.cli.doctor.exporter_tls import EVERY_SIGNAL, Files, Security, files_of, security_of

Signal = Literal["TRACES", "LOGS", "METRICS"]

_DEFAULTS: Final = {"http/protobuf": "http://localhost:4318", "grpc": "http://localhost:4317"}
# gRPC's own ways of writing an address; in `dns://HOST/…` the exporter takes HOST for the address.
_GRPC_NAME: Final = re.compile(
    r"(dns|unix|unix-abstract|ipv4|ipv6|vsock|xds):(///)?[^/\s]\S*|unix:/\S+"
)
_SPACE: Final = re.compile(r"\s")
# RFC 9110, 5.6.2, and what both transports take for a value.
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\t]*")
_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Exporter:
    """The exporter that ``configure()`` would make, or that of another signal.

    Attributes:
        signal: What it sends.
        endpoint: Whole URL; over HTTP with its path.
        protocol: ``http/protobuf`` or ``grpc``, or what the variable says.
        security: Whether it speaks TLS, and what decided that.
        files: The certificates that it would use with TLS.
        headers: What it sends along, names in lower case.
        timeout_seconds: For all tries of one batch.
        compression: As the variable says; None when it is not set.
        variables: The variable that decided, for each of ENDPOINT, PROTOCOL, HEADERS, TIMEOUT and
            COMPRESSION that is set.
    """

    signal: Signal
    endpoint: str
    protocol: str
    security: Security
    files: Files
    headers: Mapping[str, str]
    timeout_seconds: float
    compression: str | None
    variables: Mapping[str, str]

    def variable(self, what: str) -> str:
        """The name of the variable to change; when none is set, the one for every signal."""
        return self.variables.get(what, EVERY_SIGNAL + what)

    @property
    def origin(self) -> str:
        """Which variable the endpoint comes from."""
        return (
            f"from {self.variable('ENDPOINT')}" if "ENDPOINT" in self.variables else "the default"
        )

    @property
    def path(self) -> str:
        """Where collectors take this signal over HTTP."""
        return f"/v1/{self.signal.lower()}"

    def setting(self, base: str) -> str:
        """What to set so that it sends to ``SCHEME://HOST:PORT``."""
        variable = self.variable("ENDPOINT")
        # Only the variable for every signal gets the path added.
        whole = self.protocol != "grpc" and variable != EVERY_SIGNAL + "ENDPOINT"
        return f"{variable}={base}{self.path if whole else ''}"

    @property
    def target(self) -> str:
        """What gRPC gets: without scheme and path."""
        return urlsplit(self.endpoint).netloc or self.endpoint

    @property
    def address(self) -> SplitResult | None:
        """The parts of the endpoint; None when it is no address of a host."""
        # gRPC takes HOST:PORT alone.
        bare = self.protocol == "grpc" and "://" not in self.endpoint
        try:
            parts = urlsplit(f"//{self.endpoint}" if bare else self.endpoint)
            usable = parts.hostname and parts.port != 0 and not _SPACE.search(self.endpoint)
        except ValueError:
            return None
        return parts if usable else None

    @property
    def can_be_reached(self) -> bool:
        """Whether there is something to try."""
        is_name = self.protocol == "grpc" and _GRPC_NAME.fullmatch(self.endpoint)
        return bool(is_name) or self.address is not None

    @property
    def bad_headers(self) -> list[str]:
        """The names of the headers that cannot be sent; never their values."""
        return sorted(
            name
            for name, value in self.headers.items()
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value))
        )

    @classmethod
    def of(cls, environment: Mapping[str, str], signal: Signal = "TRACES") -> "Exporter":
        """Read the variables as OpenTelemetry's exporters do: those for the signal win."""
        variables = {}
        values = {}
        for what in ("PROTOCOL", "ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION"):
            for prefix in (f"{EVERY_SIGNAL}{signal}_", EVERY_SIGNAL):
                if value := environment.get(prefix + what, "").strip():
                    variables[what], values[what] = prefix + what, value
                    break
        protocol = values.get("PROTOCOL", "http/protobuf")
        if protocol == "grpc":
            # Here an empty variable is one that is set, to nothing.
            for name, what in (
                (f"{EVERY_SIGNAL}{signal}_COMPRESSION", "COMPRESSION"),
                (f"{EVERY_SIGNAL}COMPRESSION", "COMPRESSION"),
                (f"{EVERY_SIGNAL}ENDPOINT", "ENDPOINT"),
            ):
                if environment.get(name) == "" and variables.get(what) in (
                    None,
                    EVERY_SIGNAL + what,
                ):
                    variables[what], values[what] = name, ""
        endpoint = values.get("ENDPOINT", _DEFAULTS.get(protocol, ""))
        if protocol != "grpc" and variables.get("ENDPOINT") in (None, EVERY_SIGNAL + "ENDPOINT"):
            endpoint = f"{endpoint.removesuffix('/')}/v1/{signal.lower()}"
        return cls(
            signal,
            endpoint,
            protocol,
            security_of(environment, endpoint, protocol, signal),
            files_of(environment, protocol, signal),
            _headers(values.get("HEADERS", "")),
            _seconds(values.get("TIMEOUT", "")),
            values["COMPRESSION"].lower() if "COMPRESSION" in values else None,
            variables,
        )


def _headers(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}


def _seconds(text: str) -> float:
    # `numbers` says what is none.
    try:
        seconds = float(text)
    except ValueError:
        return _TIMEOUT_SECONDS
    return seconds if math.isfinite(seconds) and seconds > 0 else _TIMEOUT_SECONDS
