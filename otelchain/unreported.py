"""Runs whose end LangChain never reports: found by what happens to their task, batch or thread.

langchain-core tells nobody of a retriever that is cancelled or interrupted by Ctrl-C, of an
``agenerate`` that is cancelled, and of the siblings of a failed ``generate`` item. Below a chain
the chain's own end closes them (`RunRecorder`); here are the runs that have no chain above.
"""

import asyncio
import sys
from asyncio import _get_running_loop
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import FrameType
from typing import Any

from otelchain import status
from otelchain.runs import OpenRun, OpenRuns

EndRun = Callable[[OpenRun, status.Status, str], None]

# First parts of the modules that stand between an application's call and our hook.
_LIBRARIES = frozenset(
    {"langchain", "langchain_classic", "langchain_core", "langgraph", "otelchain"}
)
# LangChain reports every end of a chain, a tool and a plain model. A streamed chain or graph may be
# read on in another task than the one that started it, and a plain model's start is reported in a
# task of its own.
_UNREPORTED = frozenset({"retriever", "chat_model"})


def watch(run: OpenRun, runs: OpenRuns, end: EndRun) -> None:
    """Watch a root run: end it with its task, or when its thread has gone on without it.

    Args:
        run: A run without a parent, started just now in this thread.
        runs: The open runs.
        end: Ends a run as the given status, for the given reason; called at most once per run.
    """
    if run.task is not None:
        if run.run_type in _UNREPORTED:
            end_with_task(run, end, "task ended")
        return
    left = runs.retrievers_of_thread(get_ident())
    if left or run.run_type == "retriever":
        run.os_thread, run.caller_depth = get_ident(), _caller_depth()
    for other in left:
        # A retriever that called this run has its own caller further out on the stack. One whose
        # caller is where ours is, or further in, was left by an exception that nobody reported.
        if other is not run and other.caller_depth >= run.caller_depth:
            end(other, status.ABANDONED, "its thread went on without it")


def end_batch_siblings(run: OpenRun, runs: OpenRuns, end: EndRun) -> None:
    """End the other items of a failed batch of a chat model.

    ``BaseChatModel.generate`` stops at the first item that raises: those before it have answered
    unseen, those after it never ran. The async twin reports every item itself.
    """
    if run.batch_size > 1 and run.run_type == "chat_model" and current_task() is None:
        for other in runs.siblings(run):
            if other.batch_size > 1:
                end(other, status.ABANDONED, "another item of its batch failed")


def end_with_task(run: OpenRun, end: EndRun, reason: str) -> None:
    """End a run when its task is done, unless its end is reported before."""
    assert run.task is not None
    run.watcher = partial(_task_done, run, end, reason)
    run.task.add_done_callback(run.watcher)


def current_task() -> "asyncio.Task[Any] | None":
    """Return the task that runs in this thread, None outside of an event loop."""
    # asyncio.current_task() raises without a loop, which costs more than all the rest of a start.
    return asyncio.current_task() if _get_running_loop() is not None else None


def _task_done(run: OpenRun, end: EndRun, reason: str, task: "asyncio.Task[Any]") -> None:
    if task.cancelled():
        end(run, status.CANCELLED, "task was cancelled")
    elif not run.may_outlive_its_call:
        end(run, status.ABANDONED, reason)


def _caller_depth() -> int:
    """Count the frames from the outermost to the first that is not LangChain's or ours."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no public way
    while frame is not None and _first_part(frame) in _LIBRARIES:
        frame = frame.f_back
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back
    return depth


def _first_part(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
