"""What a connection to a collector is made with: address, token, certificates, no proxy."""

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    build_opener,
)

from otelchain.reading.place import Place
from otelchain.reading.source import NO_ANSWER, SourceError

_TOKEN_VARIABLE: Final = "OTELCHAIN_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class FileNames:
    """What the user calls the files of certificates, for what is said about them."""

    ca_file: str = "--ca-file"
    client_certificate: str = "--client-certificate"
    client_key: str = "--client-key"

    @property
    def show_one(self) -> str:
        """What to do where a certificate is wanted."""
        return f"set {self.client_certificate} and {self.client_key}"


OPTIONS: Final = FileNames()


def address(endpoint: str) -> str:
    """Return an endpoint with its scheme and without a slash at the end.

    Raises:
        SourceError: It is not an HTTP address.
    """
    text = endpoint.strip() if "://" in endpoint else f"http://{endpoint.strip()}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise SourceError(
            f"--endpoint {endpoint!r} is not an HTTP address; for example http://127.0.0.1:4318"
        )
    return text.rstrip("/")


def token(place: Place) -> str:
    """Return the token to show; empty when there is none.

    Raises:
        SourceError: The file cannot be read, or there is no token in it.
    """
    if place.token_file is None:
        return os.environ.get(_TOKEN_VARIABLE, "").strip()
    for line in _text(place.token_file).splitlines():
        if words := line.partition("#")[0].split():
            return words[0]
    raise SourceError(f"there is no token in --token-file {place.token_file}")


def opener(base: str, place: Place, context: ssl.SSLContext | None = None) -> OpenerDirector:
    """Return an opener that takes no proxy to this machine, whatever the variables say.

    Args:
        base: An address.
        place: Names the certificates.
        context: In place of these, where TLS is spoken.

    Raises:
        SourceError: A certificate file cannot be used.
    """
    parts = urlsplit(base)
    handlers: list[Any] = [_NoRedirects]
    if parts.scheme == "https":
        handlers.append(HTTPSHandler(context=context or _context(place)))
    if is_loopback(parts.hostname or ""):
        handlers.append(ProxyHandler({}))
    return build_opener(*handlers)


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, as far as its name says."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reason(error: object, names: FileNames = OPTIONS) -> str:
    """Say in a few words why there is no connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; set {names.ca_file}"
    # With TLS 1.3 a client without a certificate may meet either.
    if isinstance(error, (ConnectionError, ssl.SSLEOFError)) and not isinstance(
        error, ConnectionRefusedError
    ):
        return (
            "it closed the connection; if it speaks TLS, write https://, and if it wants a "
            f"certificate, {names.show_one}"
        )
    if isinstance(error, ssl.SSLError):
        # Not every alert has a reason of its own, but all have a text.
        said = str(error.reason or error).lower().replace("_", " ")
        if "wrong version number" in said:
            return "it does not speak TLS; write http://"
        if "alert certificate required" in said:
            return f"it wants a certificate; {names.show_one}"
        return said
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__ if isinstance(error, Exception) else str(error)


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: a collector sends none, and the token would go along."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Return no request."""


def tls_context(
    ca_file: Path | None,
    client_certificate: Path | None,
    client_key: Path | None,
    names: FileNames = OPTIONS,
    fallback: Path | None = None,
) -> ssl.SSLContext:
    """Return a context that trusts the named authority alone.

    Args:
        ca_file: The authority, or a folder of such.
        client_certificate: What to show.
        client_key: Its key.
        names: What the user calls these files.
        fallback: Authorities when none is named; None are the system's.

    Raises:
        SourceError: A file cannot be used.
    """
    trusted = ca_file or fallback
    try:
        context = ssl.create_default_context(
            cafile=None if trusted is None or trusted.is_dir() else trusted,
            capath=trusted if trusted is not None and trusted.is_dir() else None,
        )
    except OSError as error:
        raise SourceError(f"cannot use {names.ca_file} {ca_file}: {_why(error)}") from error
    _show(context, client_certificate, client_key, names)
    return context


def _context(place: Place) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if place.ca_file is not None:
            context.load_verify_locations(place.ca_file)
    except OSError as error:
        raise SourceError(f"cannot use --ca-file {place.ca_file}: {_why(error)}") from error
    _show(context, place.client_certificate, place.client_key, OPTIONS)
    return context


def _show(
    context: ssl.SSLContext, certificate: Path | None, key: Path | None, names: FileNames
) -> None:
    try:
        if certificate is not None:
            context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise SourceError(
            f"cannot use {names.client_certificate} {certificate} with {names.client_key} {key}: "
            f"{_why(error)}"
        ) from error


def _why(error: Exception) -> str:
    # Of OpenSSL's errors only the first has a text of its own.
    if isinstance(error, ssl.SSLError):
        return f"it is not PEM ({error.reason or 'SSL'})"
    return str(getattr(error, "strerror", None) or error)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SourceError(f"cannot read --token-file {path}: {why}") from error
