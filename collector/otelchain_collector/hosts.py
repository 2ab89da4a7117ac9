"""By which names a request for answers may call this collector.

Otherwise a web page could reach it by giving its own name the address 127.0.0.1.
"""

import re
from collections.abc import Collection
from typing import Final

from starlette.requests import Request

from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import is_loopback

# RFC 9110, 7.2, without what is not a name: a user in front (``localhost:1@evil.example``), or more
# behind the brackets or the port.
_HOST: Final = re.compile(r"(?:\[([^\[\]@/?#\s]+)\]|([^\[\]:@/?#\s]+))(?::[0-9]*)?")


class WrongHostError(CollectorError):
    """The Host header is not a name of this collector."""


class AllowedHosts:
    """The names.

    Args:
        names: Those besides loopback and the address that a request came in at; ``*`` is any name.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(name.lower() for name in names)

    def check(self, request: Request) -> None:
        """Accept the request.

        Raises:
            WrongHostError: It calls the collector by another name.
        """
        said = request.headers.get("host", "").strip().lower()
        host = _hostname(said)
        bound = (request.scope.get("server") or (None,))[0]
        if "*" in self._names or (host and host in {bound, *self._names}):
            return
        if not (is_loopback(host) or host.endswith(".localhost")):
            raise WrongHostError(f"host {host or said!r} is not this collector's address")


def _hostname(host: str) -> str:
    """Return a Host header without port and brackets; empty when it is none."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found[1] or found[2]
