"""The command ``otelchain demo``."""

import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import click

from otelchain.demo.errors import DemoError

NEEDED = ("duckdb", "langchain_core", "langgraph", "pandas", "starlette", "uvicorn")
"""Modules of the extra ``demo`` that the base install does not bring."""


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
@click.pass_context
def demo_command(context: click.Context, database: Path, model: str | None) -> None:
    """Trace a small support assistant and show what its traces answer.

    The assistant runs on scripted models and needs no key. Its spans go through a real
    collector process into the database, which stays there for your own questions.

    \b
    Examples:
      otelchain demo
      otelchain demo --model openai:gpt-5-mini
    """  # noqa: D301 - click reads the character \b
    _require_the_extra()
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
