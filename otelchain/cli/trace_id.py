"""An argument that is a trace: its id, the beginning of one, or ``last``."""

from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

import otelchain_queries
from otelchain.cli.completing import rows_of
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:  # Before click 8.4 it took no type.
    _ParamType = click.ParamType

# The newest; who looks for an older one has its id.
_NEWEST: Final = {"limit": "100"}


class TraceId(_ParamType):
    """A trace; the shell completes the newest ones."""

    name = "trace_id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return the text; only the store knows whether there is such a trace."""
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the traces whose id begins so; none when nobody can be asked."""
        rows = rows_of(ctx, lambda source: source.query(otelchain_queries.load("traces"), _NEWEST))
        traces = [(str(row[0]), " ".join(map(str, row[2:5]))) for row in rows]
        found = [
            CompletionItem(trace_id, help=visible(text))
            for trace_id, text in [*traces, ("last", "the newest trace")]
        ]
        return [item for item in found if str(item.value).startswith(incomplete)]
