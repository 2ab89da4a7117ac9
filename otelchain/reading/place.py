"""Where a question is asked, and what is shown to be let in."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

DEFAULT_DATABASE: Final = Path("otelchain.duckdb")


@dataclass(frozen=True)
class Place:
    """A database file, or a collector with what it takes to be let in."""

    database: Path = DEFAULT_DATABASE
    endpoint: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @classmethod
    def taken_from(cls, values: MutableMapping[str, Any]) -> "Place":
        """Take the values of `PLACE` out of a command's values."""
        return cls(**{name: values.pop(name) for name in _names(cls)})

    @classmethod
    def of_context(cls, values: Mapping[str, Any]) -> "Place":
        """Return the place that a half-typed command line names so far."""
        return cls(**{name: values[name] for name in _names(cls) if values.get(name) is not None})


def _names(place: type[Place]) -> list[str]:
    return [field.name for field in fields(place)]
