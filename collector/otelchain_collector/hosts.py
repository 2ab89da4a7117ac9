"""By which names a request for answers may call this collector.

Otherwise a web page could reach it by giving its own name the address 127.0.0.1.
"""

from collections.abc import Collection

from starlette.requests import Request

from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import is_loopback


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
        host = _hostname(request.headers.get("host", ""))
        bound = (request.scope.get("server") or ("",))[0]
        if "*" in self._names or host in {bound, *self._names}:
            return
        if not (is_loopback(host) or host.endswith(".localhost")):
            raise WrongHostError(f"host {host!r} is not this collector's address")


def _hostname(host: str) -> str:
    """Return the Host header without the port and without the brackets of IPv6."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
