"""The runnable that starts a run, read off the stack: LangChain's callbacks do not say which.

Only graphs and runnables with fallbacks are looked for, since only of them a run should tell what
no callback does. The frames are those of the call that is under way; nothing is patched or kept.
"""

import sys
from types import FrameType
from typing import Any

_MANAGER = "langchain_core.callbacks.manager"
_TELLING = frozenset({"langchain_core.runnables.fallbacks", "langgraph.pregel.main"})
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
