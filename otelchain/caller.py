"""Who calls a hook, read off the stack: LangChain's callbacks do not say.

Only graphs and runnables with fallbacks are looked for, since only of them a run should tell what
no callback does; and the callback managers whose end is the last sign of a run that nobody ends.
The frames are those of the call that is under way; nothing is patched or kept.
"""

import sys
from types import FrameType
from typing import Any

_MANAGER = "langchain_core.callbacks.manager"
_TELLING = frozenset({"langchain_core.runnables.fallbacks", "langgraph.pregel.main"})
_RETRIEVERS = "langchain_core.retrievers"
_MAX_FRAMES = 12  # a hook of a subclass, the hook, the manager; a comprehension, the method


def telling_runnable() -> Any:
    """Return the graph or the runnable with fallbacks whose start this hook call reports, or None.

    None also where the hook is called in a thread of its own (``run_inline=False`` under async).
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no public way
    reported = False
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        module = frame.f_globals.get("__name__")
        if module == _MANAGER:
            reported = True
        elif reported:
            if module not in _TELLING:
                return None
            found = frame.f_locals.get("self")
            if found is not None:
                return found
        frame = frame.f_back
    return None


def manager_of_retriever() -> Any:
    """Return the callback manager of the ``BaseRetriever`` call that is starting its run, or None.

    The manager lives as long as the call, longer than the run: it is a local of the method.
    """
    manager, caller = _reporting()
    if manager is None or caller is None or caller.f_globals.get("__name__") != _RETRIEVERS:
        return None
    return manager.f_locals.get("self")


def run_manager() -> Any:
    """Return the callback manager of the run that reports an event, or None."""
    manager, _ = _reporting()
    return None if manager is None else manager.f_locals.get("self")


def _reporting() -> tuple[FrameType | None, FrameType | None]:
    """Find the frame of the callback manager's method and the one that called it."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - there is no public way
    manager: FrameType | None = None
    for _ in range(_MAX_FRAMES):
        if frame is None or (manager is not None and frame.f_globals.get("__name__") != _MANAGER):
            break
        if frame.f_globals.get("__name__") == _MANAGER:
            manager = frame
        frame = frame.f_back
    return manager, frame
