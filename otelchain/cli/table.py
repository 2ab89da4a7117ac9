"""Answer → a table that fits the terminal, or a list of records when even that is too wide."""

import math
from dataclasses import replace
from typing import Final

from rich.box import Box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from otelchain.cli.cells import is_number, plain
from otelchain.reading.screen import drawn
from otelchain.reading.visible import visible
from otelchain_collector.answer import Answer, JSONValue

# Below this, a cut text says nothing: rows are then printed one value per line.
_NARROWEST_TEXT: Final = 8
_GAP: Final = 2
_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})
_ID_CHARS: Final = 8
_WHOLE_ID_CHARS: Final = 32
_DASHES: Final = Box("    \n    \n -  \n    \n    \n    \n    \n    \n", ascii=True)


def table_text(answer: Answer, screen: Console) -> str:
    """Return an answer as a table drawn for that screen."""
    if [column.name for column in answer.columns] == ["explain_key", "explain_value"]:
        return _plans(answer)
    shown = _for_reading(answer) if screen.is_terminal else answer
    names, cells = _written(shown, screen.is_terminal)
    widths = _fitted(
        _widths(names, cells), [_is_rigid(c.type) for c in shown.columns], screen.width
    )
    if widths is None:
        return _records(screen, answer, shown)
    table = Table(box=_DASHES, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
    for column, name, width in zip(shown.columns, names, widths, strict=True):
        table.add_column(
            Text(name, style="bold"),
            justify="right" if is_number(column.type) else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    return drawn(screen, table)


def _written(answer: Answer, on_terminal: bool) -> tuple[list[str], list[list[str]]]:
    cells = [
        [
            _cell(value, column.type, on_terminal)
            for value, column in zip(row, answer.columns, strict=True)
        ]
        for row in answer.rows
    ]
    return [visible(column.name) for column in answer.columns], cells


def _for_reading(answer: Answer) -> Answer:
    """Leave out what a person does not miss: columns without a value, the tails of ids."""
    kept = [
        place
        for place in range(len(answer.columns))
        if not answer.rows or any(row[place] not in (None, "", []) for row in answer.rows)
    ]
    columns = tuple(answer.columns[place] for place in kept)
    rows = [
        [_short_id(answer.columns[place].name, row[place]) for place in kept] for row in answer.rows
    ]
    return replace(answer, columns=columns, rows=rows)


def _short_id(column: str, value: JSONValue) -> JSONValue:
    """Cut a trace or span id to its beginning; every command takes that for the whole."""
    return value[:_ID_CHARS] if column in _IDS and isinstance(value, str) else value


def _plans(answer: Answer) -> str:
    """Return what EXPLAIN drew: it is made of lines already."""
    lines = [visible(line) for row in answer.rows for line in plain(row[1]).splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: JSONValue, kind: str, on_terminal: bool) -> str:
    if isinstance(value, float) and math.isfinite(value):
        # Thousandths are enough to read; other formats have every digit.
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) >= 1 else f"{value:.3g}"
    text = visible(plain(value))
    if on_terminal and kind.startswith("TIMESTAMP") and "." in text:
        whole, _, fraction = text.partition(".")
        return f"{whole}.{fraction[:3]}Z"
    return text


def _widths(names: list[str], cells: list[list[str]]) -> list[int]:
    return [
        max([cell_len(name), *(cell_len(row[place]) for row in cells)])
        for place, name in enumerate(names)
    ]


def _is_rigid(kind: str) -> bool:
    """Tell whether a cut value would say something else, as half a number does."""
    return is_number(kind) or kind.startswith(("TIMESTAMP", "DATE", "BOOLEAN"))


def _fitted(widths: list[int], rigid: list[bool], available: int) -> list[int] | None:
    """Cut the widest texts until a row fits; None when what is left of them says nothing."""
    room = available - _GAP * (len(widths) - 1)
    room -= sum(width for width, keep in zip(widths, rigid, strict=True) if keep)
    texts = sorted(width for width, keep in zip(widths, rigid, strict=True) if not keep)
    limit = max(texts, default=0)
    for place, widest in enumerate(texts):
        limit = room // (len(texts) - place)
        if widest > limit:
            break
        room -= widest
    if room < 0 or limit < min(_NARROWEST_TEXT, max(texts, default=0)):
        return None
    return [width if keep else min(width, limit) for width, keep in zip(widths, rigid, strict=True)]


def _records(screen: Console, answer: Answer, shown: Answer) -> str:
    names, cells = _written(answer, screen.is_terminal)
    # Names that leave no room for a value are cut as well.
    most = max(screen.width // 2, 1) if screen.is_terminal else screen.width
    margin = min(max(cell_len(name) for name in names) + _GAP, most)
    if screen.is_terminal and margin + _WHOLE_ID_CHARS > screen.width:
        # An id that is cut anywhere, with a sign for it, cannot be copied.
        names, cells = _written(shown, on_terminal=True)
    records = []
    for number, row in enumerate(cells, start=1):
        lines = [Text(f"--- row {number}", style="bold")]
        for name, cell in zip(names, row, strict=True):
            if cell:
                label = set_cell_size(name, margin - 1) + " "
                lines.append(Text.assemble((label, "dim"), cell))
                lines[-1].truncate(screen.width, overflow="ellipsis")
        records.append(drawn(screen, Text("\n").join(lines)))
    return "".join(records)
