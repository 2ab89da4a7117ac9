"""Findings of a redaction policy in one text → rows, and the same in words."""

from typing import TYPE_CHECKING, Final

import click

from otelchain.reading.visible import visible

if TYPE_CHECKING:
    from otelchain.redaction.findings import Findings
    from otelchain_collector.answer import Answer, JSONValue

_COLUMNS: Final = (
    ("rule", "VARCHAR"),
    ("start", "BIGINT"),
    ("length", "BIGINT"),
    ("path", "VARCHAR"),
    ("failed_texts", "BIGINT"),
)
_TOLD: Final = 4  # columns of the table in words; what failed is said in a sentence


def findings_answer(findings: "Findings") -> "Answer":
    """Return a row for each place that was found, and one for each rule that failed."""
    from otelchain_collector.answer import Answer, Column

    columns = tuple(Column(*column) for column in _COLUMNS)
    found: list[list[JSONValue]] = [
        [f.rule, f.start, f.end - f.start, f.path, 0] for f in findings.found
    ]
    failed: list[list[JSONValue]] = [
        [rule, None, None, None, number] for rule, number in findings.failures.items()
    ]
    return Answer(columns, [*found, *failed])


def tell(findings: "Findings") -> None:
    """Say on standard error what was found, so that a pipe gets the redacted text alone."""
    rows = [(f.rule, str(f.start), str(f.end - f.start), f.path) for f in findings.found]
    if rows:
        click.echo(_table(rows), err=True)
    for rule, number in findings.failures.items():
        texts = "1 text" if number == 1 else f"{number} texts"
        click.echo(f"rule {rule} failed on {texts}; nothing of them is shown", err=True)


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    names = [name for name, _ in _COLUMNS[:_TOLD]]
    shown = [names, *([visible(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(_TOLD)]
    lines = []
    for rule, start, length, path in shown:
        cells = rule.ljust(widths[0]), start.rjust(widths[1]), length.rjust(widths[2]), path
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
