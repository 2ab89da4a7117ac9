"""``otelchain redact``: try a redaction policy, and apply it to what is stored already."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.group import Commands
from otelchain.cli.options import DATABASE, TEXTS, format_option, with_options
from otelchain.cli.place import PLACE, Place

if TYPE_CHECKING:
    from otelchain_collector.redaction.report import Report

_FOUND: Final = 1  # exit code of --fail-on-findings


class _Redact(Commands):
    noun = "redact command"


@click.group("redact", cls=_Redact)
def redact_command() -> None:
    """Try a redaction policy, check its file, or apply it to what is stored already.

    \b
    Example:
      otelchain redact test --policy redaction.toml < message.txt
      otelchain redact check redaction.toml
      otelchain redact scan --policy strict
    """  # noqa: D301 - click reads the character \b


def _unknown() -> int:
    """Leave it to whoever reads the rows to say how many there are."""
    return 0


def _print_report(report: "Report", format_name: str) -> None:
    from otelchain.cli.output import answer_text, remark
    from otelchain.cli.printing import print_text

    answer = report.answer()
    text = answer_text(answer, format_name, on_terminal=sys.stdout.isatty())
    print_text(text, format_name)
    remark(answer, format_name, "")


def _warn_of_damaged_logs(database: Path) -> None:
    from otelchain_collector.redaction.rewrite import damaged_logs

    for log in damaged_logs(database):
        click.echo(
            f"not looked at: {log}, a damaged log, which may hold any of it too; delete it when it "
            "is of no use any more",
            err=True,
        )


_POLICY: Final = click.Option(
    ["--policy"],
    metavar="FILE",
    envvar="OTELCHAIN_REDACTION",
    show_envvar=True,
    help="Policy file, or the name of a preset.  [default: personal]",
)


@redact_command.command("test")
@with_options(
    _POLICY,
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


@redact_command.command("scan")
@with_options(
    _POLICY,
    format_option(TEXTS),
    click.Option(
        ["--fail-on-findings"], is_flag=True, help="Exit with 1 when something was found."
    ),
    *PLACE,
)
@click.pass_context
def scan_command(
    context: click.Context,
    /,
    policy: str | None,
    format_name: str,
    fail_on_findings: bool,
    **values: Any,
) -> None:
    """Report what a policy finds in what is stored: place, rule, count, some span ids; no value.

    Nothing is changed. A collector that has the file open is asked; that needs a token that may ask
    SQL, where it wants one.

    \b
    Example:
      otelchain redact scan --policy redaction.toml
      otelchain redact scan --policy strict --format json --fail-on-findings
    """  # noqa: D301 - click reads the character \b
    from otelchain.cli.progress import progress
    from otelchain.reading.source import open_source
    from otelchain.redaction.policy_file import load
    from otelchain_collector.redaction.scan import scan
    from otelchain_collector.redaction.stored import StoredRedaction

    redaction = StoredRedaction(load(policy or ""))
    place = Place.taken_from(values)
    with progress("Scanning", _unknown) as advance:
        report = scan(open_source(place), redaction, advance)
    _print_report(report, format_name)
    if not place.endpoint:  # Otherwise the file may be on another machine.
        _warn_of_damaged_logs(place.database)
    if fail_on_findings and report:
        context.exit(_FOUND)


@redact_command.command("apply")
@with_options(
    _POLICY,
    DATABASE,
    format_option(TEXTS),
    click.Option(["--yes"], is_flag=True, help="Rewrite the file; without it, only report."),
)
def apply_command(policy: str | None, database: Path, format_name: str, yes: bool) -> None:
    """Take what a policy finds out of a database FILE, for good; report what that was.

    The file is copied without it and then replaced: no old byte stays in file or log, and a crash
    leaves the file as it was. It needs as much free space as the file has, and no collector may
    have the file open: stop it first. Copies that you made are yours to remove, and damaged logs
    that lie beside the file (NAME.wal.damaged-TIME): before that, nothing is rewritten.

    \b
    Example:
      otelchain redact apply --policy redaction.toml --database traces.duckdb
      otelchain redact apply --policy redaction.toml --database traces.duckdb --yes
    """  # noqa: D301 - click reads the character \b
    from otelchain.cli.progress import in_percent, progress
    from otelchain.reading.remote import CollectorSource
    from otelchain.reading.source import open_source
    from otelchain.redaction.policy_file import load
    from otelchain_collector.redaction.rewrite import rewrite
    from otelchain_collector.redaction.scan import scan
    from otelchain_collector.redaction.stored import StoredRedaction

    redaction = StoredRedaction(load(policy or ""))
    if yes:
        with progress("Redacting", lambda: 100) as advance:
            report = rewrite(database, redaction, in_percent(advance))
        _print_report(report, format_name)
        click.echo(f"{database} was rewritten", err=True)
        return
    source = open_source(Place(database))
    with progress("Scanning", _unknown) as advance:
        report = scan(source, redaction, advance)
    _print_report(report, format_name)
    _warn_of_damaged_logs(database)
    stop = "stop its collector and " if isinstance(source, CollectorSource) else ""
    click.echo(f"{database} is as it was; {stop}add --yes to rewrite it", err=True)
