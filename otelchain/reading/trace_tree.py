"""A trace as an object of Python: prints as a tree, shows itself in a notebook, gives its rows."""

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from otelchain.reading.run_line import Run, facts
from otelchain.reading.run_tree import heading, tree_text
from otelchain.reading.screen import unlimited
from otelchain.reading.visible import visible
from otelchain.reading.waterfall import Scale, waterfall_text
from otelchain_collector.json_values import json_rows

if TYPE_CHECKING:
    import pandas as pd

# Shown in a notebook, which is saved with all that it shows.
_CONTENT_CHARS: Final = 2_000
_COLOURS: Final = {
    "ok": "#3a9d5d",
    "error": "#c62828",
    "handled_error": "#d98e04",
    "cancelled": "#d98e04",
    "interrupted": "#0097a7",
    "abandoned": "#8e24aa",
    "pending": "#1565c0",
}
# Bars in tenths of a percent of their column.
_PARTS: Final = 1_000


class TraceTree:
    """The runs of one trace, each after its parent.

    Args:
        rows: Of the query ``trace``, one at least.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        values = json_rows(rows.to_batches())
        self._runs: list[Run] = [dict(zip(rows.column_names, row, strict=True)) for row in values]

    @property
    def trace_id(self) -> str:
        """The whole id."""
        return str(self._runs[0]["trace_id"])

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """The runs as a DataFrame in the order of the tree; ``depth`` is 0 for a root."""
        return self.to_frame()

    def to_frame(self, *, json: bool = False) -> "pd.DataFrame":
        """Return the same as a DataFrame of its own.

        Args:
            json: Decode inputs and outputs; text that is not JSON stays text.
        """
        from otelchain.reading.frames import frame

        return frame(self._rows, decode_json=json)

    def __len__(self) -> int:
        return len(self._runs)

    def __str__(self) -> str:
        return tree_text(self._runs, unlimited()).rstrip("\n")

    __repr__ = __str__

    def waterfall(self) -> str:
        """Return the trace as text with a bar for each run, to print."""
        return waterfall_text(self._runs, unlimited()).rstrip("\n")

    def _repr_html_(self) -> str:
        """Return HTML in which everything that was stored is escaped, without scripts."""
        scale = Scale.of(self._runs, _PARTS)
        rows = "".join(_row(run, scale) for run in self._runs)
        return (
            f"<div><p><b>{escape(heading(self._runs).plain)}</b></p>"
            f'<table style="width:100%;text-align:left"><tbody>{rows}</tbody></table></div>'
        )


def _row(run: Run, scale: Scale) -> str:
    colour = _COLOURS.get(str(run["status"]), "#757575")
    first, after = scale.span(run)
    bar = (
        f'<div style="margin-left:{first / 10:.1f}%;width:{max(after - first, 5) / 10:.1f}%;'
        f'min-width:2px;height:0.8em;background:{colour}"></div>'
    )
    indent = f"padding-left:{1.5 * int(run['depth']):.1f}em"
    return (
        f'<tr><td style="text-align:left;vertical-align:top;{indent}">'
        f"{escape(facts(run).plain)}{_contents(run)}</td>"
        f'<td style="width:40%;vertical-align:top">{bar}</td></tr>'
    )


def _contents(run: Run) -> str:
    return "".join(
        f"<details><summary>{column}</summary><pre>{_escaped(run[column])}</pre></details>"
        for column in ("inputs", "outputs", "error")
        if run[column]
    )


def _escaped(value: Any) -> str:
    text = str(value)
    shown = text[:_CONTENT_CHARS] + ("…" if len(text) > _CONTENT_CHARS else "")
    return escape("\n".join(visible(line) for line in shown.splitlines()))
