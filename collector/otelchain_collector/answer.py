"""What a question is answered with: rows as JSON values, or as an Arrow stream.

Loads neither DuckDB nor Arrow, so that a command which needs no database can print rows too.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from otelchain.errors import OtelchainError

JSONValue: TypeAlias = bool | int | float | str | list["JSONValue"] | dict[str, "JSONValue"] | None

# The most rows that one answer may have: it is held in memory, here and by the reader.
MAX_ROWS: Final = 100_000
#: How the refusal of an answer begins that takes too many bytes.
TOO_LARGE: Final = "the answer is larger than"
DEFAULT_MAX_SECONDS: Final = 30.0


class QueryFailed(OtelchainError):  # noqa: N818 - it is the outcome of a question, told in one line
    """A question cannot be answered; the text is one line."""


@dataclass(frozen=True)
class Column:
    """A column of an answer; ``type`` is DuckDB's name for the type it had there."""

    name: str
    type: str


@dataclass(frozen=True)
class Answer:
    """A result as JSON values.

    Attributes:
        columns: Name and DuckDB type of each column.
        rows: One list per row, a value per column.
        has_more: More rows exist than the limit let through.
    """

    columns: tuple[Column, ...]
    rows: list[list[JSONValue]]
    has_more: bool = False

    @property
    def body(self) -> bytes:
        """The answer as it travels."""
        return self.to_json()

    def to_json(self) -> bytes:
        """Return the answer as it travels over HTTP."""
        columns = [{"name": column.name, "type": column.type} for column in self.columns]
        return orjson.dumps({"columns": columns, "rows": self.rows, "has_more": self.has_more})

    @classmethod
    def from_json(cls, text: bytes) -> "Answer":
        """Return what `to_json` wrote.

        Raises:
            ValueError: It is something else.
        """
        found = orjson.loads(text)
        try:
            columns = tuple(Column(column["name"], column["type"]) for column in found["columns"])
            return cls(columns, list(found["rows"]), bool(found["has_more"]))
        except (KeyError, TypeError) as error:
            raise ValueError("not an answer") from error


@dataclass(frozen=True)
class ArrowAnswer:
    """A result as an Arrow IPC stream, with DuckDB's types where Arrow has them, else as text."""

    stream: bytes
    has_more: bool = False

    @property
    def body(self) -> bytes:
        """The answer as it travels."""
        return self.stream
