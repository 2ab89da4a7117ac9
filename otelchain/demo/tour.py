"""The tour of ``otelchain demo``: run the application, then question its traces."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

import click

from otelchain.demo import planted
from otelchain.demo.application import (
    HANDBOOK_QUESTION,
    ORDER_QUESTION,
    handbook_chain,
    support_agent,
)
from otelchain.demo.errors import DemoError, first_line
from otelchain.demo.models import ModelFor, real_models, scripted_models
from otelchain.demo.sidecar import running_collector
from otelchain.handler import OtelCallbackHandler
from otelchain.provider import configure

SERVICE_NAME = "support-assistant"

STOPS: Sequence[tuple[str, Sequence[str]]] = (
    ("Which retrievers failed or found nothing?", ("query", "failed-retrievers")),
    ("Which tools are slow?", ("query", "slow-tools", "--min-duration", "1s")),
    ("Where did one branch fail and another succeed?", ("query", "mixed-status-parents")),
    ("What happened in the newest trace, step by step?", ("show", "last")),
    ("What else is wrong, in words?", ("diagnose", "--each", "1")),
)

SETTINGS_LEFT_OUT = ("OTEL_", "OTELCHAIN_", "LANGSMITH_", "LANGCHAIN_")
"""Prefixes of variables that would send the demo's spans elsewhere, or change what it shows."""


@dataclass(frozen=True)
class Tour:
    """What ``otelchain demo`` was asked to do.

    Args:
        database: The file to write; spans are added when it exists.
        model: ``provider:name`` of a real model, or None for the scripted ones.
        program: How the reader types the command, so that what is printed can be pasted.
        run: Runs ``otelchain`` with arguments, in this process.
    """

    database: Path
    model: str | None
    program: str
    run: Callable[[list[str]], object]

    def typed(self, arguments: Sequence[str]) -> str:
        """Give the command line for these arguments on this database."""
        return f"{self.program} {join([*arguments, '--database', str(self.database)])}"


def give(tour: Tour) -> None:
    """Run the application once and print what its traces answer.

    Raises:
        DemoError: A part did not start, or a planted secret was found in the file.
    """
    _use_no_settings_of_the_shell()
    model_for = real_models(tour.model) if tour.model else scripted_models()
    if tour.database.exists():
        click.echo(f"{tour.database} exists; this run's traces are added to it.")
    with running_collector(tour.database) as endpoint:
        click.echo(f"Collector: {endpoint} writes {tour.database}")
        _run_application(tour, model_for, endpoint)
        for question, arguments in STOPS:
            _heading(question)
            click.echo(f"$ {tour.typed(arguments)}")
            tour.run([*arguments, "--database", str(tour.database)])
    _show_that_no_secret_was_stored(tour.database)
    _say_what_to_type_next(tour)


def _use_no_settings_of_the_shell() -> None:
    for name in list(os.environ):
        if name.startswith(SETTINGS_LEFT_OUT):
            del os.environ[name]
    # A proxy is for the model provider, not for the collector on this machine.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(
        filter(None, ["127.0.0.1", os.environ.get("NO_PROXY") or os.environ.get("no_proxy")])
    )


def _run_application(tour: Tour, model_for: ModelFor, endpoint: str) -> None:
    provider = configure(service_name=SERVICE_NAME, endpoint=endpoint, set_global=False)
    try:
        _ask_both_questions(model_for, OtelCallbackHandler(tracer_provider=provider))
        delivered = provider.force_flush()
    except Exception as error:
        if tour.model is None:
            raise
        raise DemoError(f"--model {tour.model} failed: {first_line(error)}") from error
    finally:
        provider.shutdown()
    if not delivered:
        raise DemoError(f"the spans could not be delivered to {endpoint}")


def _ask_both_questions(model_for: ModelFor, handler: OtelCallbackHandler) -> None:
    chain = handbook_chain(model_for).with_config(callbacks=[handler])
    _heading(f"Customer: {HANDBOOK_QUESTION}")
    click.echo("Assistant: " + "".join(chain.stream(HANDBOOK_QUESTION)))

    agent = support_agent(model_for).with_config(callbacks=[handler])
    _heading(f"Customer: {ORDER_QUESTION}")
    result = agent.invoke(
        {"question": ORDER_QUESTION},
        {
            "configurable": {"thread_id": "conversation-17"},
            "metadata": {"user_id": "customer-2041", "session_token": planted.SESSION_TOKEN},
        },
    )
    click.echo("Assistant: " + result["answer"])


def _show_that_no_secret_was_stored(database: Path) -> None:
    _heading("Were the secrets stored?")
    leaked = planted.found_in(_everything_stored(database))
    if leaked:
        raise DemoError(f"{database} contains planted secrets: {', '.join(leaked)}")
    click.echo(
        f"{len(planted.SECRETS)} secrets were in prompts, documents, tool results, metadata and an"
        f" error message;\nnone of them is in the bytes of {database} or in any of its rows."
    )


def _everything_stored(database: Path) -> Iterator[bytes]:
    import duckdb

    for path in (database, database.with_name(database.name + ".wal")):
        if path.exists():
            yield path.read_bytes()
    # DuckDB compresses text in the file, so the bytes alone do not prove it: read every row too.
    with duckdb.connect(str(database), read_only=True) as connection:
        for table in ("spans", "rejected_spans"):
            rows = connection.execute(f"SELECT {table}::VARCHAR FROM {table}")  # noqa: S608
            yield from (row[0].encode() for row in rows.fetchall())


def _say_what_to_type_next(tour: Tour) -> None:
    sql = "SELECT name, run_type, duration_ms FROM runs ORDER BY duration_ms DESC LIMIT 5"
    _heading("The database stays. Next, type:")
    click.echo(f"  {tour.program} query")
    for arguments in (["query", "traces"], ["show", "last"], ["sql", sql]):
        click.echo(f"  {tour.typed(arguments)}")


def _heading(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)
