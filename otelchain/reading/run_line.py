"""What one line says about a run: name, type, status, duration, tokens, model, notes."""

from collections.abc import Iterator
from typing import Any, Final

from rich.text import Text

from otelchain.reading.visible import visible

STATUS_STYLES: Final = {
    "ok": "green",
    "error": "bold red",
    "handled_error": "yellow",
    "cancelled": "yellow",
    "interrupted": "cyan",
    "abandoned": "magenta",
    "pending": "bold blue",
}

#: A row of the query ``trace``, as JSON values by column.
Run = dict[str, Any]


def facts(run: Run) -> Text:
    """Return the whole line."""
    line = Text.assemble((visible(run["name"]), "bold"))
    status = str(run["status"])
    parts = [
        (f"[{run['run_type']}]" if run["run_type"] else "", "dim"),
        (status, STATUS_STYLES.get(status, "")),
        (took(run), ""),
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
        yield counted(run["document_count"], "document")
    if run["langgraph_node"]:
        step = f" step {run['langgraph_step']}" if run["langgraph_step"] is not None else ""
        yield f"node {run['langgraph_node']}{step}"
    if run.get("resumes_trace_id"):
        yield f"resumes trace {run['resumes_trace_id']}"
    if run["detached"]:
        yield f"({run['detached']})"


def counted(number: int, noun: str) -> str:
    """Return ``1 run``, ``2 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def took(run: Run) -> str:
    """Return how long a run took; of one that has not ended, since when: that does not change."""
    if run["duration_ms"] is None:
        return f"since {run['start_time']}"
    return duration(run["duration_ms"])


def duration(milliseconds: float) -> str:
    """Return a duration with three digits or so, in the unit that fits it."""
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
