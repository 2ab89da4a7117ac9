"""Where a question is asked, and what is shown to be let in."""

from collections.abc import MutableMapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Place:
    """A database file, or a collector with what it takes to be let in."""

    database: Path
    endpoint: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @classmethod
    def taken_from(cls, values: MutableMapping[str, Any]) -> "Place":
        """Take the values of `PLACE` out of a command's values."""
        return cls(**{field.name: values.pop(field.name) for field in fields(cls)})
