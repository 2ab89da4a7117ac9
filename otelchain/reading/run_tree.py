"""The runs of a trace → a tree on the terminal, with what went into each run and what came out."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from otelchain.reading.run_line import Run, counted, facts
from otelchain.reading.screen import drawn
from otelchain.reading.visible import visible

# Where nothing limits the width, enough of a content to know it again.
_CONTENT_CHARS: Final = 200
_CONTENT: Final = (("in", "inputs"), ("out", "outputs"), ("error", "error"))
_FAILED: Final = frozenset({"error", "handled_error"})


def tree_text(runs: Sequence[Run], screen: Console, *, full: bool = False) -> str:
    """Return the runs as a tree.

    Args:
        runs: Rows of the query ``trace``, each after its parent with its ``depth``.
        screen: What it is drawn for.
        full: With contents whole; otherwise one shortened line for each.
    """
    parts = [heading(runs), *_trees(runs, screen, full)]
    return "".join(drawn(screen, part) for part in parts)


def _trees(runs: Sequence[Run], screen: Console, full: bool) -> list[Tree]:
    roots: list[Tree] = []
    path: list[Tree] = []
    for run in runs:
        depth = min(int(run["depth"]), len(path))
        del path[depth:]
        # What Rich puts before a line: four cells for each level.
        label = _label(run, screen.width - 4 * depth, full, screen.is_terminal)
        node = path[-1].add(label) if path else Tree(label)
        if not path:
            roots.append(node)
        path.append(node)
    return roots


def heading(runs: Sequence[Run]) -> Text:
    """Return the line above a tree: the trace, when it began, what it holds, whose it is."""
    first = runs[0]
    parts = [f"trace {first['trace_id']}", str(first["start_time"]), counted(len(runs), "run")]
    pending = sum(run["status"] == "pending" for run in runs)
    if pending:
        parts[-1] += f", {pending} pending"
    if first["service_name"]:
        parts.append(f"service {first['service_name']}")
    if first["session_id"]:
        parts.append(f"session {first['session_id']}")
    return Text(visible("  ".join(parts)), style="bold")


def _label(run: Run, width: int, full: bool, on_terminal: bool) -> Text:
    lines = [facts(run)]
    for word, column in _CONTENT:
        if run[column]:
            told = _reason(run) if word == "error" else word
            lines.extend(_content(told, str(run[column]), full))
    if on_terminal and not full:
        for line in lines:
            line.truncate(max(width, 4), overflow="ellipsis")
    return Text("\n").join(lines)


def _content(word: str, text: str, full: bool) -> Iterator[Text]:
    style = "red" if word == "error" else ""
    lines = text.splitlines() or [""]
    if not full:
        shown = visible(" ".join(text.split()))
        if len(shown) > _CONTENT_CHARS:
            shown = shown[: _CONTENT_CHARS - 1] + "…"
        lines = [shown]
    for number, line in enumerate(lines):
        label = f"  {word if number == 0 else '':5} "
        yield Text.assemble((label, "dim"), (visible(line), style))


def _reason(run: Run) -> str:
    """Name what the column ``error`` holds: of a run that did not fail, why it ended."""
    if run["status"] in _FAILED:
        return "error"
    return "asks" if run["status"] == "interrupted" else "ended"
