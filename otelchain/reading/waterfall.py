"""The runs of a trace → a waterfall: a line each, with a bar that shows when it ran."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from otelchain.reading.run_line import STATUS_STYLES, Run, duration
from otelchain.reading.run_tree import heading
from otelchain.reading.screen import drawn
from otelchain.reading.times import unix_nano
from otelchain.reading.visible import visible

# Where nothing limits the width.
_PIPED_WIDTH: Final = 100
# Below this, a bar beside the name says nothing: it gets a line of its own.
_NARROW: Final = 50
_WIDEST_LABEL_SHARE: Final = 0.5
_GAP: Final = 2
# Bar and end mark, so that a run that did not end well is seen without colours.
_MARKS: Final = {
    "error": ("━", "✗", "error"),
    "handled_error": ("━", "!", "handled error"),
    "interrupted": ("━", "?", "interrupted, waits for an answer"),
    "cancelled": ("━", "×", "cancelled"),  # noqa: RUF001 - a cross
    "abandoned": ("━", "×", "abandoned"),  # noqa: RUF001 - a cross
    "pending": ("┄", ">", "pending, has not ended"),
}
_ENDED_WELL: Final = ("━", "", "")


@dataclass(frozen=True)
class Scale:
    """Where moments are on a bar.

    Args:
        begin: Nanoseconds since 1970 at the left end.
        end: At the right end; after the begin.
        cells: Cells of the bar.
    """

    begin: int
    end: int
    cells: int

    @classmethod
    def of(cls, runs: Sequence[Run], cells: int) -> "Scale":
        """Return a scale that the runs fill."""
        starts = [unix_nano(run["start_time"]) for run in runs]
        ends = [unix_nano(run["end_time"]) for run in runs if run["end_time"]]
        return cls(min(starts), max([*starts, *ends, min(starts) + 1]), cells)

    def span(self, run: Run) -> tuple[int, int]:
        """Return the first cell of a run and the one after its last; a bar has one at least."""
        first = self._cell(unix_nano(run["start_time"]))
        last = self._cell(unix_nano(run["end_time"])) if run["end_time"] else self.cells - 1
        return first, max(first, last) + 1

    def _cell(self, moment: int) -> int:
        share = (moment - self.begin) * self.cells // (self.end - self.begin)
        return min(max(share, 0), self.cells - 1)


def waterfall_text(runs: Sequence[Run], screen: Console) -> str:
    """Return the runs as a waterfall.

    Args:
        runs: Rows of the query ``trace``, each after its parent with its ``depth``.
        screen: What it is drawn for.
    """
    width = screen.width if screen.is_terminal else _PIPED_WIDTH
    lines = _beside(runs, width) if width >= _NARROW else _below(runs, width)
    parts = [heading(runs), *lines, *_legend(runs)]
    if screen.is_terminal:
        for line in parts:
            line.truncate(width, overflow="ellipsis")
    return "".join(drawn(screen, line) for line in parts)


def _beside(runs: Sequence[Run], width: int) -> Iterator[Text]:
    labels = [_label(run) for run in runs]
    times = [_took(run) for run in runs]
    time_cells = max(map(len, times))
    label_cells = min(max(map(cell_len, labels)), int(width * _WIDEST_LABEL_SHARE))
    scale = Scale.of(runs, width - label_cells - time_cells - 2 * _GAP)
    yield Text(" " * (width - scale.cells) + _axis(scale), style="dim")
    for run, label, time in zip(runs, labels, times, strict=True):
        yield Text.assemble(
            _name(run, _cut(label, label_cells)),
            " " * _GAP,
            time.rjust(time_cells),
            " " * _GAP,
            _bar(run, scale),
        )


def _below(runs: Sequence[Run], width: int) -> Iterator[Text]:
    scale = Scale.of(runs, max(width, 2))
    for run in runs:
        yield _name(run, _cut(f"{_label(run)}  {_took(run)}", width))
        yield _bar(run, scale)


def _label(run: Run) -> str:
    kind = f" [{run['run_type']}]" if run["run_type"] else ""
    return "  " * int(run["depth"]) + visible(f"{run['name']}{kind}")


def _cut(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text + " " * (cells - cell_len(text))
    return set_cell_size(text, max(cells - 1, 0)) + "…"


def _name(run: Run, label: str) -> Text:
    failed = run["status"] in {"error", "pending"}
    return Text(label, style=STATUS_STYLES[run["status"]] if failed else "bold")


def _took(run: Run) -> str:
    return "pending" if run["duration_ms"] is None else duration(run["duration_ms"])


def _bar(run: Run, scale: Scale) -> Text:
    line, mark, _ = _MARKS.get(run["status"], _ENDED_WELL)
    first, after = scale.span(run)
    drawn_line = line * (after - first - len(mark)) + mark
    return Text(" " * first).append(drawn_line, style=STATUS_STYLES.get(run["status"], ""))


def _axis(scale: Scale) -> str:
    whole = duration((scale.end - scale.begin) / 1e6)
    return "0" + whole.rjust(scale.cells - 1)


def _legend(runs: Sequence[Run]) -> Iterator[Text]:
    found = dict.fromkeys(run["status"] for run in runs if run["status"] in _MARKS)
    parts = [f"{_MARKS[status][1]} {_MARKS[status][2]}" for status in found]
    if parts:
        yield Text("  ".join(parts), style="dim")
    for run in runs:
        if run.get("resumes_trace_id"):
            yield Text(f"{visible(run['name'])} resumes trace {run['resumes_trace_id']}")
