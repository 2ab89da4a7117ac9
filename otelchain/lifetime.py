"""What becomes of open runs when the process exits or forks.

Handlers put themselves on the list; `configure` ends what is open before it closes its provider.
"""

import atexit
import os
from typing import Protocol
from weakref import WeakSet


class OpensRuns(Protocol):
    """Something with runs that may never report an end."""

    def end_open_runs(self, reason: str) -> None:
        """End every open run as abandoned."""

    def forget_open_runs(self) -> None:
        """Drop every open run without ending it."""


_handlers: WeakSet[OpensRuns] = WeakSet()


def watch(handler: OpensRuns) -> None:
    """End a handler's open runs at exit, and drop them in a forked child.

    Exit functions run last in, first out: registered with each handler, the function runs before
    the shutdown of a provider that was made earlier.
    """
    _handlers.add(handler)
    atexit.unregister(end_all)
    atexit.register(end_all)


def end_all() -> None:
    """End the open runs of every handler of this process."""
    for handler in list(_handlers):
        handler.end_open_runs("process exit")


def _forget_all() -> None:
    for handler in list(_handlers):
        handler.forget_open_runs()


if hasattr(os, "register_at_fork"):
    # The runs of a forked child's parent go on in the parent; ended here they would be stored
    # as abandoned, and the parent's true end would be dropped as a duplicate.
    os.register_at_fork(after_in_child=_forget_all)
