"""Commands and settings for the generated documents: the same on every machine."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

import click

from otelchain.cli.root import cli
from otelchain.redaction import PolicyRule, policy_file, presets
from otelchain.redaction.detectors import DEFAULT_RULES
from otelchain.redaction.places import PLACES
from otelchain.settings import HandlerSettings
from otelchain.spool.settings import SpoolSettings
from otelchain_collector.settings import setting_texts

_WIDTH: Final = 100


def command_help() -> list[tuple[str, str]]:
    """Return (command line, help text) of every command, parents first.

    Lines are at most 100 characters wide, whatever the terminal.
    """
    return list(_help(cli, "otelchain", None))


def handler_settings_table() -> str:
    """Return the settings of the application's side as a Markdown table."""
    return _table(
        (f"`{setting.metadata['variable']}`", _shown(setting.default), setting.metadata["help"])
        for settings in (HandlerSettings, SpoolSettings)
        for setting in dataclasses.fields(settings)
    )


def collector_settings_table() -> str:
    """Return the settings of the collector as a Markdown table."""
    return _table(
        (
            ", ".join(f"`{name}`" for name in (text.option, text.variable) if name),
            text.default,
            text.help,
        )
        for text in setting_texts()
    )


def redaction_file_table(part: str) -> str:
    """Return a part of a redaction policy file as a Markdown table.

    Args:
        part: ``file``, ``hash``, ``rules``, ``places``, ``presets`` or ``detectors``.
    """
    rows: dict[str, Iterable[tuple[str, str]]] = {
        "file": ((name, text) for name, (_, text) in policy_file.FILE_ENTRIES.items()),
        "hash": policy_file.HASH_ENTRIES.items(),
        "rules": ((entry.name, entry.metadata["help"]) for entry in dataclasses.fields(PolicyRule)),
        "places": PLACES.items(),
        "presets": ((name, preset.help) for name, preset in presets.PRESETS.items()),
        "detectors": ((family, _rules_of(family)) for family in presets.DETECTORS),
    }
    lines = [f"| `{name}` | {text} |" for name, text in rows[part]]
    return "\n".join(["| | |", "| --- | --- |", *lines, ""])


def _rules_of(family: str) -> str:
    names = dict.fromkeys(rule.name for rule in DEFAULT_RULES if rule.family == family)
    kind = "a person" if family in presets.PERSONAL_FAMILIES else "a secret"
    return f"{kind}: {', '.join(names) or family}"


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def _table(rows: Iterable[tuple[str, str, str]]) -> str:
    head = ["| setting | default | |", "| --- | --- | --- |"]
    shown = [
        f"| {name} | {f'`{default}`' if default else ''} | {text} |" for name, default, text in rows
    ]
    return "\n".join([*head, *shown, ""])


def _help(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        color=False,
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from _help(found, child, context)
