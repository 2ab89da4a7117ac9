"""Whether an exporter speaks TLS, and with which files; each protocol has rules of its own."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from otelchain.reading.connect import FileNames, tls_context

#: How the variables begin that are for traces, logs and metrics alike.
EVERY_SIGNAL: Final = "OTEL_EXPORTER_OTLP_"
_KINDS: Final = ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
#: What Python's HTTP library prefers to the exporter's own.
BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True)
class Security:
    """Whether an exporter speaks TLS.

    Attributes:
        is_secure: It does.
        variable: The variable ..._INSECURE that decided; empty when the address did.
        scheme: Of the address; empty when it has none.
    """

    is_secure: bool
    variable: str
    scheme: str


@dataclass(frozen=True)
class Files:
    """The certificates that an exporter would use.

    Attributes:
        names: The variables that name them; those for every signal where none does.
    """

    ca_file: Path | None
    client_certificate: Path | None
    client_key: Path | None
    names: FileNames

    @property
    def missing_half(self) -> str:
        """The variable that is missing where a key comes without its certificate, or it alone."""
        if bool(self.client_key) == bool(self.client_certificate):
            return ""
        return self.names.client_certificate if self.client_key else self.names.client_key

    def context(self) -> ssl.SSLContext:
        """What the exporter over HTTP would connect with: a named authority is the only one.

        Raises:
            SourceError: A file cannot be used.
        """
        return tls_context(
            self.ca_file, self.client_certificate, self.client_key, self.names, _bundle()
        )


def security_of(
    environment: Mapping[str, str], endpoint: str, protocol: str, signal: str
) -> Security:
    """Decide as the exporters do: gRPC speaks TLS unless something says that it shall not."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return Security(False, "", "")  # It is no address, which is said elsewhere.
    # HOST:PORT looks like SCHEME:PATH.
    scheme = parts.scheme if parts.netloc else ""
    if protocol != "grpc" or scheme == "https":
        return Security(scheme == "https", "", scheme)
    for variable in (f"{EVERY_SIGNAL}{signal}_INSECURE", f"{EVERY_SIGNAL}INSECURE"):
        # Empty is set, too: to something that is not true.
        if (value := environment.get(variable)) is not None:
            return Security(value.lower() != "true", variable, scheme)
    return Security(scheme != "http", "", scheme)


def files_of(environment: Mapping[str, str], protocol: str, signal: str) -> Files:
    """Read the variables for certificates as the exporters do."""
    own = f"{EVERY_SIGNAL}{signal}_"
    if protocol != "grpc":
        names = {
            kind: own + kind if environment.get(own + kind) else EVERY_SIGNAL + kind
            for kind in _KINDS
        }
        bundle = next((name for name in BUNDLES if environment.get(name)), names["CERTIFICATE"])
        return _files(environment, {**names, "CERTIFICATE": bundle})
    # gRPC takes all three of one prefix, and none where that has no authority.
    is_named = f"{own}CERTIFICATE" in environment
    if is_named and environment.get(f"{own}INSECURE", "").lower() != "true":
        prefix = own
    else:
        prefix = EVERY_SIGNAL
    names = {kind: prefix + kind for kind in _KINDS}
    return _files(environment if environment.get(names["CERTIFICATE"]) else {}, names)


def unused_files(environment: Mapping[str, str], files: Files, signal: str) -> dict[str, str]:
    """Return the variables of client certificates that gRPC leaves out, and what to set for each.

    It takes those that begin as the variable of the authority does, and no others.
    """
    if files.client_certificate or files.client_key:
        return {}
    own = f"{EVERY_SIGNAL}{signal}_"
    unused = {}
    for kind in _KINDS[1:]:
        if environment.get(own + kind):
            unused[own + kind] = f"{own}CERTIFICATE"
        elif environment.get(EVERY_SIGNAL + kind):
            is_for_the_signal = files.names.ca_file.startswith(own)
            missing = own + kind if is_for_the_signal else f"{EVERY_SIGNAL}CERTIFICATE"
            unused[EVERY_SIGNAL + kind] = missing
    return unused


def _files(environment: Mapping[str, str], names: Mapping[str, str]) -> Files:
    ca_file, certificate, key = (
        Path(value) if (value := environment.get(names[kind])) else None for kind in _KINDS
    )
    return Files(ca_file, certificate, key, FileNames(*(names[kind] for kind in _KINDS)))


def _bundle() -> Path | None:
    """The authorities that the exporter over HTTP trusts when none is named; not the system's."""
    try:
        import certifi
    except ModuleNotFoundError:
        return None
    return Path(certifi.where())
