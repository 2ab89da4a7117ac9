"""The runs of a trace → a tree on the terminal, with what went into each run and what came out."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from otelchain.cli.table import console, print_plain
from otelchain.reading.visible import visible

# Where nothing limits the width, enough of a content to know it again.
_CONTENT_CHARS: Final = 200
_STATUS_STYLES: Final = {
    "ok": "green",
    "error": "bold red",
    "handled_error": "yellow",
    "cancelled": "yellow",
    "interrupted": "cyan",
    "abandoned": "magenta",
    "pending": "bold blue",
}
_CONTENT: Final = (("in", "inputs"), ("out", "outputs"), ("error", "error"))
_FAILED: Final = frozenset({"error", "handled_error"})

Run = dict[str, Any]


def print_tree(runs: Sequence[Run], *, full: bool) -> None:
    """Print runs, each after its parent with its ``depth``, on standard output.

    Args:
        runs: Rows of the query ``trace``.
        full: Print contents whole; otherwise one shortened line for each.
    """
    screen = console()
    print_plain(screen, _heading(runs))
    for tree in _trees(runs, screen, full):
        print_plain(screen, tree)


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


def _heading(runs: Sequence[Run]) -> Text:
    first = runs[0]
    parts = [f"trace {first['trace_id']}", str(first["start_time"]), _counted(len(runs), "run")]
    pending = sum(run["status"] == "pending" for run in runs)
    if pending:
        parts[-1] += f", {pending} pending"
    if first["service_name"]:
        parts.append(f"service {first['service_name']}")
    if first["session_id"]:
        parts.append(f"session {first['session_id']}")
    return Text(visible("  ".join(parts)), style="bold")


def _label(run: Run, width: int, full: bool, on_terminal: bool) -> Text:
    lines = [_facts(run)]
    for word, column in _CONTENT:
        if run[column]:
            told = _reason(run) if word == "error" else word
            lines.extend(_content(told, str(run[column]), full))
    if on_terminal and not full:
        for line in lines:
            line.truncate(max(width, 20), overflow="ellipsis")
    return Text("\n").join(lines)


def _facts(run: Run) -> Text:
    line = Text.assemble((visible(run["name"]), "bold"))
    status = str(run["status"])
    parts = [
        (f"[{run['run_type']}]" if run["run_type"] else "", "dim"),
        (status, _STATUS_STYLES.get(status, "")),
        (_took(run), ""),
        (_tokens(run), ""),
        (run["model"] or "", "dim"),
        *((text, "dim") for text in _notes(run)),
    ]
    for text, style in parts:
        if text:
            line.append("  ").append(visible(text), style=style)
    return line


def _notes(run: Run) -> Iterator[str]:
    if run["retry_attempt"]:
        yield f"attempt {run['retry_attempt']}"
    if run["document_count"] is not None:
        yield _counted(run["document_count"], "document")
    if run["langgraph_node"]:
        step = f" step {run['langgraph_step']}" if run["langgraph_step"] is not None else ""
        yield f"node {run['langgraph_node']}{step}"
    if run["detached"]:
        yield f"({run['detached']})"


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


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _took(run: Run) -> str:
    """How long a run took; of one that has not ended, when it started: that does not change."""
    if run["duration_ms"] is None:
        return f"since {run['start_time']}"
    return _duration(run["duration_ms"])


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.3g} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.2f} s"
    minutes, seconds = divmod(milliseconds / 1000, 60)
    return f"{minutes:.0f} min {seconds:.0f} s"


def _tokens(run: Run) -> str:
    if run["input_tokens"] is None and run["output_tokens"] is None:
        total = run["total_tokens"]
        return "" if total is None else f"{total} tokens"
    came, went = run["input_tokens"], run["output_tokens"]
    return f"{'?' if came is None else came} → {'?' if went is None else went} tokens"
