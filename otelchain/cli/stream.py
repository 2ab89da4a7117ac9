"""Rows that come one after another → text, each row as soon as it is there."""

import json
from collections.abc import Mapping
from typing import Any, Final

from otelchain.cli.output import csv_line, markdown_line, markdown_rule
from otelchain.reading.visible import escape_json

#: Formats that need no row before the first is printed; a table needs all of them.
STREAMED: Final = ("jsonl", "json", "csv", "markdown")


class Stream:
    """Makes text of rows.

    Args:
        format_name: One of `STREAMED`.
    """

    def __init__(self, format_name: str) -> None:
        self._format = format_name
        self._begun = False

    def row(self, row: Mapping[str, Any]) -> str:
        """Return the text of one more row, after what comes before the first."""
        first, self._begun = not self._begun, True
        if self._format == "csv":
            return (csv_line(list(row)) if first else "") + csv_line(list(row.values()))
        if self._format == "markdown":
            head = markdown_line(list(row)) + markdown_rule(len(row)) if first else ""
            return head + markdown_line(list(row.values()))
        text = escape_json(json.dumps(row, ensure_ascii=False))
        if self._format == "jsonl":
            return f"{text}\n"
        return f"[\n{text}" if first else f",\n{text}"

    def end(self) -> str:
        """Return what comes after the last row."""
        if self._format != "json":
            return ""
        return "\n]\n" if self._begun else "[]\n"
