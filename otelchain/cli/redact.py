"""``otelchain redact``: try a redaction policy before anything depends on it."""

import sys
from pathlib import Path
from typing import Final

import click

from otelchain.cli.group import Commands
from otelchain.cli.options import format_option, with_options

_FOUND: Final = 1  # exit code of --fail-on-findings


class _Redact(Commands):
    noun = "redact command"


@click.group("redact", cls=_Redact)
def redact_command() -> None:
    """Try a redaction policy, or check its file.

    \b
    Example:
      otelchain redact test --policy redaction.toml < message.txt
      otelchain redact check redaction.toml
    """  # noqa: D301 - click reads the character \b


@redact_command.command("test")
@with_options(
    click.Option(
        ["--policy"],
        metavar="FILE",
        envvar="OTELCHAIN_REDACTION",
        show_envvar=True,
        help="Policy file, or the name of a preset.  [default: personal]",
    ),
    click.Option(
        ["--preset"],
        metavar="NAME",
        help="A preset instead: secrets, personal, strict or off.",
    ),
    click.Option(
        ["--attribute"],
        metavar="KEY",
        default="otelchain.input",
        show_default=True,
        help="Treat the text as this attribute of a span, such as otelchain.metadata or "
        "gen_ai.output.messages: rules may be bound to a place.",
    ),
    format_option(("table", "json")),
    click.Option(
        ["--fail-on-findings"],
        is_flag=True,
        help="Exit with 1 when something was found or a rule failed.",
    ),
)
@click.pass_context
def test_command(
    context: click.Context,
    policy: str | None,
    preset: str | None,
    attribute: str,
    format_name: str,
    fail_on_findings: bool,
) -> None:
    """Redact standard input, and say which rule found what where; a value itself is never shown.

    JSON is treated as the tree it is: the path says where, and start counts characters of the
    string there.

    \b
    Example:
      otelchain redact test --policy redaction.toml < message.txt
      otelchain redact test --preset secrets --format json --fail-on-findings < fixture.json
    """  # noqa: D301 - click reads the character \b
    from otelchain.cli.findings import print_findings
    from otelchain.redaction.places import foreign_place
    from otelchain.redaction.policy_file import load, load_preset

    redactor = load_preset(preset) if preset is not None else load(policy or "")
    text = sys.stdin.buffer.read().decode(errors="replace")
    findings = redactor.findings(text, foreign_place(attribute))
    print_findings(findings, format_name)
    if fail_on_findings and (findings.found or findings.failures):
        context.exit(_FOUND)


@redact_command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def check_command(file: Path) -> None:
    """Read the policy FILE; say what it does, or what is wrong with it (exit code 2).

    \b
    Example:
      otelchain redact check redaction.toml
    """  # noqa: D301 - click reads the character \b
    from otelchain.redaction import Redactor

    click.echo(f"{file}: {Redactor.from_file(file).summary()}")
