"""``python -m otelchain.conformance``: try the installed tracers and print what they do."""

import sys
from collections.abc import Sequence
from importlib import metadata

import click

from otelchain.conformance import report
from otelchain.conformance.launch import try_all
from otelchain.conformance.probe import Probe, all_probes
from otelchain.conformance.subject import Subject
from otelchain.conformance.tracers import UnknownTracerError, find, installed
from otelchain.conformance.verdict import FAIL, Verdict

_OURS = "otelchain"


@click.command(name="python -m otelchain.conformance")
@click.option(
    "--tracer",
    "tracers",
    multiple=True,
    metavar="NAME",
    help="Try only this tracer; may be repeated. MODULE:FACTORY tries your own: the factory takes "
    "a TracerProvider and returns a callback handler. Default: every known tracer installed here.",
)
@click.option(
    "--only",
    "wanted",
    multiple=True,
    metavar="PROBE",
    help="Try only this probe, or the probes whose names start with it; may be repeated.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    show_default=True,
    help="How the verdicts are printed.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say what was seen in each probe.")
@click.option("--list", "listing", is_flag=True, help="List the probes and stop.")
def main(
    tracers: tuple[str, ...], wanted: tuple[str, ...], style: str, verbose: bool, listing: bool
) -> None:
    """Try LangChain tracers: lost spans, leaks, wrong parents, secrets, odd values.

    Exit code 1 when otelchain fails a probe, or, when otelchain is not among the tracers, when any
    of them does.

    \b
    Example:
      python -m otelchain.conformance --tracer my_package.tracing:make_handler -v
    """  # noqa: D301 - click reads the character \b
    probes = _chosen(wanted)
    if listing:
        for each in probes:
            click.echo(f"{each.name:<36} {each.title}")
        return
    try:
        subjects = [find(name) for name in tracers] or installed()
    except UnknownTracerError as error:
        raise click.ClickException(str(error)) from error
    results = {subject.name: _try(subject, probes) for subject in subjects}
    click.echo(_printed(style, probes, results, subjects, verbose=verbose))
    sys.exit(_exit_code(results))


def _chosen(wanted: Sequence[str]) -> list[Probe]:
    every = all_probes()
    for name in wanted:
        if not any(each.name.startswith(name) for each in every):
            raise click.ClickException(f"no probe is named {name!r}; --list shows them")
    return [each for each in every if not wanted or each.name.startswith(tuple(wanted))]


def _try(subject: Subject, probes: Sequence[Probe]) -> dict[str, Verdict]:
    """Try every probe; says on a terminal which tracer it is at."""
    verdicts: dict[str, Verdict] = {}
    names = [each.name for each in probes]
    with click.progressbar(
        length=len(names), label=subject.name, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        for name, verdict in try_all(subject.name, names):
            verdicts[name] = verdict
            bar.update(1)
    return verdicts


def _printed(
    style: str,
    probes: Sequence[Probe],
    results: report.Results,
    subjects: Sequence[Subject],
    *,
    verbose: bool,
) -> str:
    if style == "json":
        return report.as_json(probes, results, versions(subjects))
    if style == "markdown":
        return report.as_markdown(probes, results, details=verbose)
    return report.as_table(probes, results, details=verbose)


def versions(subjects: Sequence[Subject]) -> dict[str, str]:
    """Versions of what was tried, and of what it was tried with."""
    names = ["langchain-core", "langgraph", "opentelemetry-sdk"]
    names += [name for subject in subjects for name in subject.distributions]
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _exit_code(results: report.Results) -> int:
    ours = {name: verdicts for name, verdicts in results.items() if name.startswith(_OURS)}
    judged = ours or results
    failed = any(v.outcome == FAIL for verdicts in judged.values() for v in verdicts.values())
    return 1 if failed else 0


if __name__ == "__main__":
    main()
