"""What a run with content off leaves in the runs around it: its error, its question to a human.

Both travel up from run to run as the same object, or as the cause of another one. Their texts are
the content of the run they come from, so the runs above leave them out too.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from otelchain.runs import OpenRun, OpenRuns

_MAX_CHAINED = 200  # exceptions that are looked at; a longer chain counts as withheld


def hand_up(run: OpenRun, error: BaseException, runs: OpenRuns) -> None:
    """Tell the open runs above a run with content off which error they may see pass."""
    marks = {_mark(error), *question_ids(error)}
    above = run.parent_run_id
    while above is not None:
        parent = runs.get(above)
        if parent is None:
            return
        parent.withheld = marks | (parent.withheld or set())
        above = parent.parent_run_id


def comes_from_below(run: OpenRun, error: BaseException) -> bool:
    """Whether an error is, was caused by or asks what a run with content off raised below."""
    if not run.withheld:
        return False
    marks = run.withheld
    chained = any(seen is None or _mark(seen) in marks for seen in _chain(error))
    return chained or asks(run, question_ids(error))


def _mark(error: BaseException) -> object:
    """Tell an error by its number and type.

    A reference would keep its frames alive as long as the runs above. A later error may get the
    number of one that is gone; if it is of the same type too, its text is left out for nothing.
    """
    return id(error), type(error)


def asks(run: OpenRun, ids: Sequence[str]) -> bool:
    """Whether one of these interrupts was raised by a run with content off below."""
    marks = run.withheld or set()
    return any(each in marks for each in ids)


def question_ids(error: BaseException) -> list[str]:
    """Name the interrupts that a ``GraphInterrupt`` carries; none for any other error."""
    asked = error.args[0] if error.args else ()
    return interrupt_ids(asked) if isinstance(asked, (list, tuple)) else []


def interrupt_ids(interrupts: Sequence[Any]) -> list[str]:
    """Name LangGraph's interrupts."""
    return [each.id for each in interrupts if isinstance(getattr(each, "id", None), str)]


def _chain(error: BaseException) -> Iterator[BaseException | None]:
    """Walk over an error, its causes and the members of its groups; None for too many of them."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        if len(seen) >= _MAX_CHAINED:
            yield None
            return
        seen.add(id(each))
        yield each
        waiting.extend(
            linked
            for linked in (each.__cause__, each.__context__, *getattr(each, "exceptions", ()))
            if isinstance(linked, BaseException)
        )
