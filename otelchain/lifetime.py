"""The tables of open runs of this process, and what becomes of them when it exits or forks."""

import atexit
import os
from threading import Lock
from uuid import UUID
from weakref import WeakKeyDictionary

from opentelemetry.trace import TracerProvider

from otelchain import span_end
from otelchain.runs import OpenRun, OpenRuns

_tables: WeakKeyDictionary[TracerProvider, OpenRuns] = WeakKeyDictionary()
_lock = Lock()  # of the dictionary; readers walk copies


def table_of(provider: TracerProvider) -> OpenRuns:
    """Return the table that all handlers of a provider share.

    Exit functions run last in, first out: registered again with each handler, ours runs before the
    shutdown of a provider that was made earlier.
    """
    atexit.unregister(end_all)
    atexit.register(end_all)
    with _lock:
        return _tables.setdefault(provider, OpenRuns())


def _all_tables() -> list[OpenRuns]:
    with _lock:
        return list(_tables.values())


def find(run_id: UUID) -> OpenRun | None:
    """Find an open run in any table."""
    for table in _all_tables():
        run = table.get(run_id)
        if run is not None:
            return run
    return None


def end_all() -> None:
    """End every open run as abandoned."""
    for table in _all_tables():
        for run in table.pop_all():
            span_end.abandon(run, "process exit")


def _forget_all() -> None:
    global _lock
    _lock = Lock()  # another thread of the parent may have held it
    for table in _all_tables():
        table.forget()


if hasattr(os, "register_at_fork"):
    # The runs of a forked child's parent go on in the parent; ended here they would be stored
    # as abandoned, and the parent's true end would be dropped as a duplicate.
    os.register_at_fork(after_in_child=_forget_all)
