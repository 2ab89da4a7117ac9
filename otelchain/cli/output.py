"""Answer → text in one of five formats.

A table on a terminal fits its width: long texts are cut with ``…``. Everywhere else (other formats,
a pipe, a file) every value is whole, there is no colour, and lines are as long as they need to be.
Only a table rounds, to thousandths.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from otelchain.cli.cells import is_number, plain
from otelchain.reading.visible import escape_json, visible

if TYPE_CHECKING:
    from rich.console import Console

    from otelchain_collector.answer import Answer, JSONValue


def answer_text(
    answer: "Answer", format_name: str, screen: "Callable[[], Console]", *, on_terminal: bool
) -> str:
    """Return an answer as text.

    Args:
        answer: The rows.
        format_name: One of `otelchain.cli.options.FORMATS`, and not parquet, which is no text.
        screen: Makes what a table is drawn for.
        on_terminal: A terminal will show it, and must not obey it.
    """
    if format_name == "table":
        from otelchain.cli.table import table_text

        return table_text(answer, screen())
    text = _FORMATS[format_name](answer)
    # A file gets the values as they are; a terminal must not obey them.
    return _visible_lines(text) if format_name == "csv" and on_terminal else text


def remark(answer: "Answer", format_name: str, more: str) -> None:
    """Say on standard error what an answer leaves unsaid.

    Args:
        answer: What was printed.
        format_name: How it was printed.
        more: How to get the rows that the limit cut off.
    """
    if not answer.rows and format_name in _NOTHING:
        click.echo(_NOTHING[format_name], err=True)
    if answer.has_more:
        click.echo(f"more rows exist; {more}", err=True)


def to_json(answer: "Answer") -> str:
    """Return a JSON array with one object per line."""
    lines = ",\n".join(_objects(answer))
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def to_jsonl(answer: "Answer") -> str:
    """Return one JSON object per line."""
    return "".join(f"{line}\n" for line in _objects(answer))


def to_csv(answer: "Answer") -> str:
    """Return CSV as RFC 4180 has it: CRLF, and quotes where needed; NULL is an empty field."""
    head = csv_line([column.name for column in answer.columns])
    return head + "".join(csv_line(row) for row in answer.rows)


def csv_line(values: "Sequence[JSONValue]") -> str:
    """Return one line of CSV with its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow([plain(value) for value in values])
    return text.getvalue()


def to_markdown(answer: "Answer") -> str:
    """Return a Markdown table; pipes are escaped and line breaks become ``<br>``."""
    columns = answer.columns
    lines = [
        markdown_line([column.name for column in columns]),
        _bars("---:" if is_number(column.type) else "---" for column in columns),
        *(markdown_line(row) for row in answer.rows),
    ]
    return "".join(lines)


def markdown_line(values: "Sequence[JSONValue]") -> str:
    """Return one line of a Markdown table with its end."""
    return _bars(_markdown(plain(value)) for value in values)


def markdown_rule(columns: int) -> str:
    """Return the line below the names of so many columns."""
    return _bars(["---"] * columns)


def _bars(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


# Formats that people read; a program sees for itself that there is nothing.
_NOTHING: Final = {"table": "no rows", "text": "nothing found"}
_FORMATS: Final[dict[str, Callable[["Answer"], str]]] = {
    "json": to_json,
    "jsonl": to_jsonl,
    "csv": to_csv,
    "markdown": to_markdown,
}


def _objects(answer: "Answer") -> list[str]:
    names = _unique([column.name for column in answer.columns])
    return [
        escape_json(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
        for row in answer.rows
    ]


def _unique(names: list[str]) -> list[str]:
    """Number the repeated names, since an object keeps one value per name."""
    seen: set[str] = set()
    found = []
    for name in names:
        candidate, number = name, 1
        while candidate in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        found.append(candidate)
    return found


def _markdown(text: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    # HTML in a stored text would be obeyed by whoever renders the table.
    safe = (
        visible(line)
        .replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        for line in lines
    )
    return "<br>".join(safe)


def _visible_lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))
