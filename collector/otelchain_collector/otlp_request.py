"""A request as both encodings give it: readable records as a message, the others as reasons."""

from dataclasses import dataclass, field
from typing import Any

from otelchain_collector.rows import RejectedRecord


class MalformedRequestError(Exception):
    """The body as a whole cannot be decoded; the text says where and why."""


@dataclass(frozen=True)
class OtlpRequest:
    """One Export request.

    ``message`` is the signal's Export…ServiceRequest, ``size_bytes`` the size of what it was read
    from, decompressed.
    """

    message: Any
    size_bytes: int
    unreadable: list[RejectedRecord] = field(default_factory=list)


def service_name(resource: Any) -> str | None:
    """Return the service that a Resource names, if it does."""
    for attribute in resource.attributes:
        if attribute.key == "service.name":
            return str(attribute.value.string_value)
    return None
