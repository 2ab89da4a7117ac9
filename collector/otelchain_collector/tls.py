"""TLS for both ports from three PEM files that are read again when they change.

A connection has the files as they were when it began. Files that cannot be used while the collector
runs (a key that does not fit its certificate yet) are logged, and the ones before stay in use.
"""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import CollectorSettings

_READ_AGAIN_SECONDS: Final = 1.0
# What each port speaks, by the names of RFC 7301.
_HTTP: Final = "http/1.1"
_GRPC: Final = "h2"

_logger = logging.getLogger(__name__)


class _Loaded(NamedTuple):
    http: ssl.SSLContext
    grpc: ssl.SSLContext


class Tls:
    """The certificate in use.

    Args:
        certificate: PEM, with its chain.
        key: PEM.
        client_ca: PEM; with it every client has to show a certificate.

    Raises:
        CollectorError: A file cannot be read, or the three do not fit each other.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._stamps = self._stamp()
        self._loaded = self._load()
        self._looked_at = time.monotonic()

    @classmethod
    def of(cls, settings: CollectorSettings) -> "Tls | None":
        """Return what the settings ask for; None for unencrypted ports.

        Raises:
            CollectorError: One setting lacks another, or the files cannot be used.
        """
        certificate, key, ca = (
            settings.tls_certificate,
            settings.tls_key,
            settings.tls_client_ca,
        )
        if certificate is None and key is None and ca is None:
            return None
        if certificate is None or key is None:
            raise CollectorError("TLS needs both --tls-certificate and --tls-key")
        return cls(certificate, key, ca)

    def http_context(self) -> ssl.SSLContext:
        """Return a context for a server that never changes it: each handshake takes the newest."""
        return self._changing(_HTTP, lambda loaded: loaded.http)

    def grpc_context(self) -> ssl.SSLContext:
        """Return one for the other port, which speaks HTTP/2."""
        return self._changing(_GRPC, lambda loaded: loaded.grpc)

    def _changing(
        self, alpn: str, newest_of: Callable[[_Loaded], ssl.SSLContext]
    ) -> ssl.SSLContext:
        def newest(connection: Any, _: str | None, __: ssl.SSLContext) -> None:
            connection.context = newest_of(self._newest())

        context = _context(self._certificate, self._key, self._client_ca, alpn)
        # Called in every handshake, with or without a name in it.
        context.sni_callback = newest
        return context

    def _newest(self) -> _Loaded:
        if time.monotonic() - self._looked_at >= _READ_AGAIN_SECONDS:
            self._looked_at = time.monotonic()
            try:
                stamps = self._stamp()
                if stamps != self._stamps:
                    self._loaded, self._stamps = self._load(), stamps
                    _logger.info("read the certificate again from %s", self._certificate)
            except CollectorError as error:
                _logger.error("the certificate from before stays in use: %s", error)
        return self._loaded

    def _stamp(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            _stamp(option, path)
            for option, path in (
                ("--tls-certificate", self._certificate),
                ("--tls-key", self._key),
                ("--tls-client-ca", self._client_ca),
            )
            if path is not None
        )

    def _load(self) -> _Loaded:
        files = self._certificate, self._key, self._client_ca
        return _Loaded(_context(*files, _HTTP), _context(*files, _GRPC))


def _stamp(option: str, path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise CollectorError(f"cannot read {option} {path}: {error.strerror}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _context(certificate: Path, key: Path, client_ca: Path | None, alpn: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([alpn])
    # A resumed session would skip the check against authorities that have changed since.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        # A password would be asked for on the terminal, and the collector would wait for ever.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise CollectorError(
            f"cannot use --tls-certificate {certificate} with --tls-key {key} ({_reason(error)}); "
            "both must be PEM, the key without a password and belonging to the certificate"
        ) from error
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise CollectorError(
                f"cannot use --tls-client-ca {client_ca} ({_reason(error)}); it must be PEM"
            ) from error
    return context


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(getattr(error, "strerror", None) or "it is not PEM")
