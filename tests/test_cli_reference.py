"""Help texts: complete, with an example, and the same on every machine."""

import click
import pytest

from otelchain.cli.reference import command_help
from stored_runs import asked

EVERY_COMMAND = command_help()


def test_every_command_is_in_the_reference() -> None:
    names = [name for name, _ in EVERY_COMMAND]

    assert names[0] == "otelchain"
    assert {"otelchain collector", "otelchain demo", "otelchain show", "otelchain sql"} < set(names)
    assert "otelchain query slow-tools" in names


@pytest.mark.parametrize(("name", "text"), EVERY_COMMAND, ids=[name for name, _ in EVERY_COMMAND])
def test_a_help_text_ends_in_an_example(name: str, text: str) -> None:
    description, _, _ = text.partition("\nOptions:")

    example = description.partition("\n  Example")[2]
    assert f"\n    {name}" in example, description


def test_the_reference_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("OTELCHAIN_DATABASE", "elsewhere.duckdb")

    assert command_help() == EVERY_COMMAND
    assert max(len(line) for _, text in EVERY_COMMAND for line in text.splitlines()) <= 100


def test_help_is_what_the_reference_says() -> None:
    shown = asked("query", "traces", "--help").stdout.decode()

    assert shown.split() == dict(EVERY_COMMAND)["otelchain query traces"].split()


def test_every_option_has_a_help_text() -> None:
    from otelchain.cli import cli

    def options(command: click.Command, context: click.Context) -> list[click.Option]:
        own = [param for param in command.params if isinstance(param, click.Option)]
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                own += options(child, context)
        return own

    assert [found.name for found in options(cli, click.Context(cli)) if not found.help] == []
