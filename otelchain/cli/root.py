"""The commands, each loaded when it is needed: ``otelchain --version`` imports no database."""

import difflib
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

import otelchain_queries
from otelchain.cli.group import Commands
from otelchain.reading.extras import MissingExtraError, extra_of
from otelchain.version import __version__

# Name -> (home, what --help says where its extra is not installed).
_HOMES = {
    "collector": (
        "otelchain_collector.command:collector_command",
        "Receive OTLP traces and keep them in a DuckDB file.",
    ),
    "completion": (
        "otelchain.cli.completion:completion_command",
        "Print the script with which a shell completes commands and ids.",
    ),
    "compact": (
        "otelchain.cli.compact:compact_command",
        "Write the database anew, without the room that deleted rows leave.",
    ),
    "demo": ("otelchain.demo.command:demo_command", "Trace a small application and question it."),
    "diagnose": ("otelchain.cli.diagnose:diagnose_command", "Say in words what is wrong."),
    "doctor": (
        "otelchain.cli.doctor.command:doctor_command",
        "Find out why spans do not arrive, or answers do not come.",
    ),
    "export": (
        "otelchain.cli.exporting:export_command",
        "Write stored traces, logs and metrics to files.",
    ),
    "import": (
        "otelchain.cli.importing:import_command",
        "Bring traces, logs and metrics from files into the store.",
    ),
    "query": ("otelchain.cli.query:query_command", "Answer a named question about traced runs."),
    "redact": ("otelchain.cli.redact:redact_command", "Try a redaction policy."),
    "reindex": (
        "otelchain.cli.reindex:reindex_command",
        "Apply the rules of this version to stored spans.",
    ),
    "show": ("otelchain.cli.show:show_command", "Print the runs of one trace as a tree."),
    "sessions": ("otelchain.cli.lists:sessions_command", "List the sessions, newest first."),
    "snapshot": (
        "otelchain.cli.snapshot:snapshot_command",
        "Copy the database, also while it is being written.",
    ),
    "sql": ("otelchain.cli.sql:sql_command", "Answer a SELECT in DuckDB's SQL."),
    "tail": ("otelchain.cli.tail:tail_command", "Print runs as they arrive."),
    "traces": ("otelchain.cli.lists:traces_command", "List the traces, newest first."),
}


class _Root(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _HOMES:
            return None
        home, help_text = _HOMES[cmd_name]
        module, _, attribute = home.partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            extra = extra_of(error)
            if extra is None:
                raise
            return _missing(cmd_name, help_text, extra)
        # Click cuts what it derives itself, and never what it is told.
        command.short_help = help_text
        return command

    def hint(self, ctx: click.Context, name: str) -> str:
        """Say which command may have been meant; a query's name is no command of its own."""
        queries = otelchain_queries.names()
        near = difflib.get_close_matches(name, queries, 1, cutoff=0.8)
        if near and not difflib.get_close_matches(name, self.list_commands(ctx), 1, cutoff=0.8):
            return f"did you mean 'otelchain query {near[0]}'?"
        return super().hint(ctx, name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show a character gets its number, not a traceback.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        return super().main(*args, **kwargs)


def _missing(name: str, help_text: str, extra: str) -> click.Command:
    def refuse(**_: object) -> None:
        raise MissingExtraError(f"otelchain {name}", extra)

    return click.Command(
        name,
        callback=refuse,
        help=help_text,
        add_help_option=False,
        params=[click.Argument(["rest"], nargs=-1)],
        context_settings={"ignore_unknown_options": True},
    )


@click.group(cls=_Root, invoke_without_command=True)
@click.version_option(__version__, prog_name="otelchain")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """See what a LangChain or LangGraph application did.

    Exit codes: 0 done; 1 there are rows that --fail-on-rows or --fail-if names, or what was
    checked, examined or imported is not all right; 2 it could not be done; 130 Ctrl-C; 141 nobody
    reads the output any more.

    \b
    Example:
      otelchain demo
      otelchain diagnose --since 24h
      otelchain query slow-tools --since 24h
      otelchain show last
    """  # noqa: D301 - click reads the character \b
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
