"""The command ``otelchain demo``."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from shlex import join
from shutil import which

import click

from otelchain.demo.errors import DemoError

NEEDED = ("duckdb", "langchain_core", "langgraph", "pandas", "starlette", "uvicorn")
"""Modules of the extra ``demo`` that the base install does not bring."""

_MOST_SPANS = 1_000_000_000


@click.command("demo")
@click.option(
    "--database",
    type=click.Path(dir_okay=False, path_type=Path),
    default="otelchain-demo.duckdb",
    show_default=True,
    help="DuckDB file to write; traces are added when it exists.",
)
@click.option(
    "--model",
    metavar="PROVIDER:NAME",
    help="Run on this real model instead of scripted answers; the provider's key must be set.",
)
@click.option(
    "--spans",
    type=click.IntRange(1, _MOST_SPANS),
    metavar="N",
    help="Instead, write about N made-up spans of the last 30 days into a new database.",
)
@click.pass_context
def demo_command(
    context: click.Context, database: Path, model: str | None, spans: int | None
) -> None:
    """Trace a small support assistant and show what its traces answer.

    The assistant runs on scripted models and needs no key. Its spans go through a real
    collector process into the database, which stays there for your own questions.

    With --spans the database is filled at once, for trying questions and dashboards on a
    store as large as yours will be: six services with sessions, users, models, tools and
    troubles, traced by five instrumentations; a million spans are about 0.2 GB.

    \b
    Examples:
      otelchain demo
      otelchain demo --model openai:gpt-5-mini
      otelchain demo --spans 1000000 --database million.duckdb
    """  # noqa: D301 - click reads the character \b
    _require_the_extra()
    if spans is not None:
        if model is not None:
            raise DemoError("--spans and --model are two demos; give one of them")
        _write_many(database, spans)
        return
    from otelchain.demo.tour import Tour, give

    root = context.find_root().command
    give(
        Tour(
            database=database,
            model=model,
            program=_as_typed(sys.argv[0]),
            run=lambda arguments: root.main(arguments, "otelchain", standalone_mode=False),
        )
    )


def _write_many(database: Path, spans: int) -> None:
    from otelchain.demo.many import DAYS, write_many

    program = _as_typed(sys.argv[0])
    with click.progressbar(length=spans, label="Writing spans", file=sys.stderr) as progress:
        written = write_many(database, spans, time.time_ns(), progress=progress.update)
    size_mb = database.stat().st_size / 1e6
    click.echo(f"{written:,} spans of {DAYS} days are in {database} ({size_mb:,.0f} MB).")
    click.echo("Next, type:")
    for question in (["query", "traces"], ["diagnose", "--since", "24h"]):
        click.echo(f"  {program} {join([*question, '--database', str(database)])}")


def _require_the_extra() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DemoError(f"the demo needs {', '.join(missing)}; try: pip install 'otelchain[demo]'")


def _as_typed(started_as: str) -> str:
    """Give ``otelchain`` when the shell finds it, else the path it was started with."""
    found = which("otelchain")
    if found and Path(found).resolve() == Path(started_as).resolve():
        return "otelchain"
    return started_as if Path(started_as).name == "otelchain" else "otelchain"
