"""``otelchain redact``: try a redaction policy, and apply it to what is stored already."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.asking import Asking, Question, asking_options
from otelchain.cli.group import Commands
from otelchain.cli.options import DATABASE, with_options
from otelchain.cli.place import Place
from otelchain.cli.showing import Showing, showing_options
from otelchain.errors import RedactionPolicyError
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    from otelchain.reading.source import Source
    from otelchain_collector.answer import Answer, JSONValue
    from otelchain_collector.redaction.stored import StoredRedaction


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


def _warn_of_damaged_logs(database: Path) -> None:
    from otelchain_collector.salvage import logs_laid_aside

    for log in logs_laid_aside(database):
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
    *showing_options("text"),
)
def test_command(policy: str | None, preset: str | None, attribute: str, **values: Any) -> None:
    """Redact standard input, and say which rule found what where; a value itself is never shown.

    As text, the redacted input goes to standard output and what was found to standard error; every
    other format has a row for each finding, and one for each rule that failed. JSON is treated as
    the tree it is: the path says where, and start counts characters of the string there.

    \b
    Example:
      otelchain redact test --policy redaction.toml < message.txt
      otelchain redact test --preset secrets --format json --fail-on-rows < fixture.json
    """  # noqa: D301 - click reads the character \b
    from otelchain.cli.findings import findings_answer, tell
    from otelchain.redaction.loading import load, load_preset
    from otelchain.redaction.places import foreign_place

    showing = Showing.taken_from(values)
    redactor = load_preset(preset) if preset is not None else load(policy or "")
    text = sys.stdin.buffer.read().decode(errors="replace")
    findings = redactor.findings(text, foreign_place(attribute))
    redacted = str(findings.redacted)
    whole_lines = redacted if redacted.endswith("\n") else f"{redacted}\n"
    answer = showing.show(findings_answer(findings), drawings={"text": lambda *_: whole_lines})
    if showing.format_name == "text":
        tell(findings)
    showing.end(answer)


@redact_command.command("check")
@with_options(
    click.Argument(
        ["files"], nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
    ),
    *showing_options("text"),
)
def check_command(files: tuple[Path, ...], **values: Any) -> None:
    """Read each policy FILE; say what it does, or what is wrong with it (exit code 1).

    \b
    Example:
      otelchain redact check redaction.toml
      otelchain redact check *.toml --format json
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.answer import Answer, Column

    showing = Showing.taken_from(values)
    columns = tuple(Column(name, "VARCHAR") for name in ("file", "summary", "problem"))
    rows: list[list[JSONValue]] = [[str(file), *_checked(file)] for file in files]
    lines = "".join(f"{file}: {summary}\n" for file, summary, _ in rows if summary)
    answer = showing.show(Answer(columns, rows), drawings={"text": lambda *_: lines})
    showing.end(answer, failed=any(problem for *_, problem in rows))


def _checked(file: Path) -> tuple[str | None, str | None]:
    """Return what the policy does, and what is wrong with it; one of both."""
    from otelchain.redaction import Redactor

    try:
        file.read_bytes()
    except OSError as error:  # Not a mistake in the policy.
        raise click.UsageError(f"cannot read {str(file)!r}: {error.strerror}") from error
    try:
        return Redactor.from_file(file).summary(), None
    except RedactionPolicyError as error:
        click.echo(visible(str(error)), err=True)
        return None, str(error)


@redact_command.command("scan")
@with_options(_POLICY, *asking_options())
def scan_command(policy: str | None, **values: Any) -> None:
    """Report what a policy finds in what is stored: place, rule, count, some span ids; no value.

    Nothing is changed. A collector that has the file open is asked; that needs a token that may ask
    SQL, where it wants one.

    \b
    Example:
      otelchain redact scan --policy redaction.toml
      otelchain redact scan --policy strict --format json --fail-on-rows
    """  # noqa: D301 - click reads the character \b
    from otelchain.redaction.loading import load
    from otelchain_collector.redaction.stored import StoredRedaction

    asking = Asking.taken_from(values)
    redaction = StoredRedaction(load(policy or ""))
    if not asking.place.endpoint:  # Otherwise the file may be on another machine.
        _warn_of_damaged_logs(asking.place.database)
    asking.answer(Question(lambda source: _scan(source, redaction)))


def _scan(source: "Source", redaction: "StoredRedaction") -> "Answer":
    from otelchain.cli.progress import progress
    from otelchain_collector.redaction.scan import scan

    # Whoever reads the rows says how many there are.
    with progress("Scanning", lambda: 0) as advance:
        return scan(source, redaction, advance).answer()


@redact_command.command("apply")
@with_options(
    _POLICY,
    DATABASE,
    click.Option(["--yes"], is_flag=True, help="Rewrite the file; without it, only report."),
    *showing_options(),
)
def apply_command(policy: str | None, database: Path, yes: bool, **values: Any) -> None:
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
    from otelchain.reading.opening import open_source
    from otelchain.reading.remote import CollectorSource
    from otelchain.redaction.loading import load
    from otelchain_collector.redaction.rewrite import rewrite
    from otelchain_collector.redaction.stored import StoredRedaction

    showing = Showing.taken_from(values)
    redaction = StoredRedaction(load(policy or ""))
    if yes:
        with progress("Redacting", lambda: 100) as advance:
            answer = rewrite(database, redaction, in_percent(advance)).answer()
        done = "was rewritten"
    else:
        with open_source(Place(database)).held() as source:
            answer = _scan(source, redaction)
        # A collector that runs has the file open.
        stop = "stop its collector and " if isinstance(source, CollectorSource) else ""
        done = f"is as it was; {stop}add --yes to rewrite it"
    showing.show(answer)
    if not yes:
        _warn_of_damaged_logs(database)
    click.echo(f"{database} {done}", err=True)
    showing.end(answer)
