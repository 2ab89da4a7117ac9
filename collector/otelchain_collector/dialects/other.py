"""Spans of no LangChain tracer: HTTP clients, databases, the application's own."""

from otelchain_collector.dialects.dialect import Dialect
from otelchain_collector.dialects.values import identifier, text

DIALECT = Dialect(
    name="other",
    columns={
        "error_type": (text, ("error.type",)),
        "session_id": (identifier, ("session.id",)),
        "user_id": (identifier, ("user.id", "enduser.id")),
    },
)
