"""What a user gives for a trace id → the id: its beginning, or ``last``, is enough everywhere."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import otelchain_queries
from otelchain.errors import OtelchainError

if TYPE_CHECKING:
    from otelchain.reading.source import Source
    from otelchain_queries import Query

# The query that finds a trace takes less than an id itself; every other compares whole ids.
_FINDS: Final = "trace"
_WHOLE: Final = re.compile(r"[0-9a-f]{32}")


class UnknownTraceError(OtelchainError):
    """No stored trace has that id."""

    def __init__(self, trace_id: str) -> None:
        if trace_id == "last":
            text = "there are no traces yet; trace an application, or see one with: otelchain demo"
        else:
            text = f"no trace has an id that begins with {trace_id!r}; list them: otelchain traces"
        super().__init__(text)


def whole_trace_id(source: "Source", text: str) -> str:
    """Return the whole id; a whole one is not looked for, and no text means no trace.

    Args:
        source: Where the trace is.
        text: An id with or without hyphens, the beginning of one, or ``last`` for the newest trace.

    Raises:
        UnknownTraceError: No trace has that id.
        QueryFailed: Several ids begin so; the text lists them.
    """
    plain = text.strip().lower().replace("-", "")
    if not plain or _WHOLE.fullmatch(plain):
        return plain
    query = otelchain_queries.load(_FINDS)
    answer = source.query(query, {"trace_id": text.strip(), "limit": "1"})
    if not answer.rows:
        raise UnknownTraceError(text)
    place = [column.name for column in answer.columns].index("trace_id")
    return str(answer.rows[0][place])


def with_whole_id(source: "Source", query: "Query", values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a query's parameters with the whole id of the trace; raises as above."""
    found = dict(values)
    if found.get("trace_id") and query.name != _FINDS:
        found["trace_id"] = whole_trace_id(source, found["trace_id"])
    return found
