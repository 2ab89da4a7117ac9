"""Findings of a redaction policy → a redacted text with a table, or one JSON object."""

import json
from typing import TYPE_CHECKING

import click

from otelchain.reading.visible import escape_json, visible

if TYPE_CHECKING:
    from otelchain.redaction.findings import Findings

_HEAD = ("rule", "start", "length", "path")


def print_findings(findings: "Findings", format_name: str) -> None:
    """Print the redacted text on standard output.

    As ``table``, what was found goes to standard error, so that a pipe gets the text alone; as
    ``json``, everything is one object.
    """
    if format_name == "json":
        click.echo(escape_json(json.dumps(_as_object(findings), ensure_ascii=False)))
        return
    click.echo(findings.redacted, nl=not str(findings.redacted).endswith("\n"))
    rows = [(f.rule, str(f.start), str(f.end - f.start), f.path) for f in findings.found]
    click.echo(_table(rows) if rows else "nothing found", err=True)
    for rule, number in findings.failures.items():
        texts = "1 text" if number == 1 else f"{number} texts"
        click.echo(f"rule {rule} failed on {texts}; nothing of them is shown", err=True)


def _as_object(findings: "Findings") -> dict[str, object]:
    return {
        "redacted": findings.redacted,
        "findings": [
            {"rule": f.rule, "path": f.path, "start": f.start, "length": f.end - f.start}
            for f in findings.found
        ],
        "failures": findings.failures,
    }


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    shown = [_HEAD, *(tuple(map(visible, row)) for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(_HEAD))]
    lines = []
    for rule, start, length, path in shown:
        cells = rule.ljust(widths[0]), start.rjust(widths[1]), length.rjust(widths[2]), path
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
