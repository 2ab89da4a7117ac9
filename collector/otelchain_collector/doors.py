"""Where the collector listens, what it takes to come in, and how others learn of it."""

import contextlib
import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator
from typing import NamedTuple

from otelchain.version import __version__
from otelchain_collector import discovery
from otelchain_collector.discovery import Discovery
from otelchain_collector.errors import CollectorError
from otelchain_collector.real_path import real_path
from otelchain_collector.settings import Address, CollectorSettings, is_loopback, parse_address
from otelchain_collector.tls import Tls
from otelchain_collector.tokens import Tokens

# Of descriptors beside connections: an idle collector has 10, and each process that answers SQL,
# each snapshot and each file that is opened anew takes some.
_OTHER_FILES = 64

_logger = logging.getLogger(__name__)


class Doors(NamedTuple):
    """Where it listens, and what it takes to come in."""

    grpc: Address
    http: Address
    tokens: Tokens
    tls: Tls | None


def doors_of(settings: CollectorSettings) -> Doors:
    """Read the settings, and warn of doors that are open to everybody.

    Raises:
        CollectorError: An address, a certificate or a token cannot be used, or an address needs a
            token.
    """
    tokens = Tokens(settings.token, settings.token_file)
    tls = Tls.of(settings)
    allowed = settings.allow_remote or tokens.required
    grpc = parse_address(settings.grpc, "--grpc", allow_remote=allowed)
    http = parse_address(settings.http, "--http", allow_remote=allowed)
    if not (is_loopback(grpc.host) and is_loopback(http.host)):
        if not tokens.required and settings.tls_client_ca is None:
            _logger.warning(
                "ANYONE who reaches %s or %s may write and read everything, without a token; set "
                "--token-file, or --tls-client-ca",
                grpc,
                http,
            )
        if tls is None:
            _logger.warning(
                "spans, answers and tokens travel unencrypted to and from other machines; set "
                "--tls-certificate and --tls-key"
            )
    return Doors(grpc, http, tokens, tls)


def too_few_files(open_files: int | None, max_connections: int) -> str:
    """Say what to do when not all connections can be open at once; empty when they can.

    Args:
        open_files: How many descriptors this process may have; None for any number.
        max_connections: To each port.
    """
    needed = 2 * max_connections + _OTHER_FILES
    if open_files is None or open_files >= needed:
        return ""
    return (
        f"this process may open {open_files} files, but --max-connections {max_connections} to "
        f"each of two ports and what else it opens need {needed}; raise the limit (ulimit -n, "
        f"LimitNOFILE= of systemd, --ulimit nofile= of Docker), or set --max-connections "
        f"{max((open_files - _OTHER_FILES) // 2, 1)}"
    )


class Sockets(NamedTuple):
    """What listens; connections wait there until it is served."""

    http: socket.socket
    grpc: socket.socket

    def addresses(self, doors: Doors) -> tuple[Address, Address]:
        """Return where HTTP and gRPC listen, with the ports that the system has chosen."""
        return (
            doors.http._replace(port=self.http.getsockname()[1]),
            doors.grpc._replace(port=self.grpc.getsockname()[1]),
        )


@contextlib.contextmanager
def listening(doors: Doors) -> Iterator[Sockets]:
    """Listen while the block runs.

    Raises:
        CollectorError: A port cannot be had.
    """
    with (
        _listening("--http", doors.http) as http,
        _listening("--grpc", doors.grpc) as grpc,
    ):
        yield Sockets(http, grpc)


@contextlib.contextmanager
def published(settings: CollectorSettings, doors: Doors, sockets: Sockets) -> Iterator[None]:
    """Tell other processes, and whoever started this one, where it answers."""
    http, grpc = sockets.addresses(doors)
    scheme = "http" if doors.tls is None else "https"
    database = real_path(settings.database)
    reached = Discovery(os.getpid(), str(_reached(http)), str(_reached(grpc)), __version__, scheme)
    discovery.write(database, reached)
    try:
        sys.stdout.write(
            f"otelchain collector ready: database={settings.database} grpc={grpc} http={http}\n"
        )
        sys.stdout.flush()
        yield
    finally:
        discovery.remove(database)


def _reached(address: Address) -> Address:
    """Return where this machine reaches what listens there: every address is none to call."""
    wildcards = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is replaced
    return address._replace(host=wildcards.get(address.host, address.host))


def _listening(option: str, address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        server = socket.create_server(address, family=family)
    except OSError as error:
        raise CollectorError(_why_not_bound(option, address, error)) from error
    # asyncio sends small answers at once (TCP_NODELAY) only on a socket that says that it is TCP;
    # otherwise the second part of an answer waits for the client to acknowledge the first, 40 ms.
    return socket.socket(server.family, server.type, socket.IPPROTO_TCP, fileno=server.detach())


def _why_not_bound(option: str, address: Address, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"port {address.port} of {address.host} is in use, perhaps by another collector; stop "
            f"the program that uses it or choose another port with {option}"
        )
    return f"cannot listen on {option} {address}: {getattr(error, 'strerror', None) or error}"
