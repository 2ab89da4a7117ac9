"""An argument that is a trace: its id, the beginning of one, or ``last``."""

from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

import otelchain_queries
from otelchain.cli.place import Place
from otelchain.errors import OtelchainError
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:  # Before click 8.4 it took no type.
    _ParamType = click.ParamType

# The newest; who looks for an older one has its id.
_COMPLETED: Final = 100


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
        try:
            rows = _newest(Place.of_context(ctx.params))
        except (OtelchainError, ModuleNotFoundError):
            rows = []
        found = [
            CompletionItem(row[0], help=visible(" ".join(str(value) for value in row[1:])))
            for row in [*rows, ["last", "the newest trace"]]
        ]
        return [item for item in found if str(item.value).startswith(incomplete)]


def _newest(place: Place) -> list[list[Any]]:
    from otelchain.reading.source import open_source

    query = otelchain_queries.load("traces")
    answer = open_source(place).query(query, {"limit": str(_COMPLETED)})
    names = [column.name for column in answer.columns]
    shown = [names.index(name) for name in ("trace_id", "name", "status", "start_time")]
    return [[row[place] for place in shown] for row in answer.rows]
