"""Where an application with this environment sends its spans, by OpenTelemetry's variables."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_DEFAULTS: Final = {
    "http/protobuf": "http://localhost:4318/v1/traces",
    "grpc": "http://localhost:4317",
}
_PREFIXES: Final = ("OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_")
_TRACES_PATH: Final = "/v1/traces"
_SPACE: Final = re.compile(r"\s")
# RFC 9110, 5.6.2, and what both transports take for a value.
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\t]*")
_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Exporter:
    """The exporter that ``configure()`` would make.

    Attributes:
        endpoint: Whole URL; over HTTP with its path.
        protocol: ``http/protobuf`` or ``grpc``, or what the variable says.
        origin: Which variable the endpoint comes from.
        headers: What it sends along, names in lower case.
        timeout_seconds: For all tries of one batch.
        compression: As the variable says; empty when it is not set.
    """

    endpoint: str
    protocol: str
    origin: str
    headers: Mapping[str, str]
    timeout_seconds: float
    compression: str

    @property
    def address(self) -> SplitResult | None:
        """The parts of the endpoint; None when it is no address."""
        # gRPC takes HOST:PORT alone.
        bare = self.protocol == "grpc" and "://" not in self.endpoint
        try:
            parts = urlsplit(f"//{self.endpoint}" if bare else self.endpoint)
            usable = parts.hostname and parts.port != 0 and not _SPACE.search(self.endpoint)
        except ValueError:
            return None
        return parts if usable else None

    @property
    def bad_headers(self) -> list[str]:
        """The names of the headers that cannot be sent; never their values."""
        return sorted(
            name
            for name, value in self.headers.items()
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value))
        )

    @property
    def is_https_over_http(self) -> bool:
        """Whether Python's HTTP library checks a certificate."""
        return self.protocol != "grpc" and self.endpoint.startswith("https://")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Exporter":
        """Read the variables as OpenTelemetry's exporters do: those for traces win."""
        protocol = _first(environment, "PROTOCOL")[1] or "http/protobuf"
        name, endpoint = _first(environment, "ENDPOINT")
        if not endpoint:
            endpoint, origin = _DEFAULTS.get(protocol, ""), "the default"
        else:
            origin = f"from {name}"
            if protocol != "grpc" and name == "OTEL_EXPORTER_OTLP_ENDPOINT":
                endpoint = endpoint.rstrip("/") + _TRACES_PATH
        return cls(
            endpoint,
            protocol,
            origin,
            _headers(_first(environment, "HEADERS")[1]),
            _seconds(_first(environment, "TIMEOUT")[1]),
            _first(environment, "COMPRESSION")[1].lower(),
        )


def _first(environment: Mapping[str, str], what: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if value := environment.get(prefix + what, "").strip():
            return prefix + what, value
    return "", ""


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
