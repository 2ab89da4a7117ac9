"""``otelchain traces`` and ``otelchain sessions``: queries that are commands as well."""

from otelchain.cli.named_query import named_command
from otelchain_queries import load

traces_command = named_command(
    load("traces"), "traces", "otelchain traces --service shop --since 24h"
)
sessions_command = named_command(
    load("sessions"), "sessions", "otelchain sessions --since yesterday"
)
