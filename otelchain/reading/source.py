"""Where answers come from, and what is wrong with it.

The same question gives the same `Answer` from a running collector (remote.py) and from the database
file (file_source.py); opening.py chooses.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol

from otelchain.errors import OtelchainError

if TYPE_CHECKING:
    from otelchain_collector.answer import Answer, ArrowAnswer
    from otelchain_queries import Query

NO_ANSWER: Final = "no answer in time"


class SourceError(OtelchainError):
    """No answers can be had from where the user pointed."""


class Source(Protocol):
    """A collector or a file."""

    def query(self, query: "Query", values: Mapping[str, str]) -> "Answer":
        """Answer a named query."""
        ...

    def sql(self, sql: str, max_rows: int) -> "Answer":
        """Answer one SELECT."""
        ...

    def check(self) -> None:
        """Raise `SourceError` when it is plain that nothing can be asked here."""
        ...

    def held(self) -> "AbstractContextManager[Source]":
        """Give the same to be asked several times, opened once."""
        ...

    def query_arrow(self, query: "Query", values: Mapping[str, str]) -> "ArrowAnswer":
        """Answer a named query with DuckDB's types."""
        ...

    def sql_arrow(self, sql: str, max_rows: int) -> "ArrowAnswer":
        """Answer one SELECT with DuckDB's types."""
        ...
