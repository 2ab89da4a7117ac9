"""Interrupted LangGraph runs → the span link of the run that resumes them.

LangGraph names both by thread and checkpoint. Their span contexts are kept here, and in a file
when the resume may happen in another process; the store joins the rest by the same two names.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from opentelemetry.trace import SpanContext, TraceFlags, format_span_id, format_trace_id

from otelchain import attributes as names
from otelchain.content import Attributes

#: Interrupted runs that a process remembers, and that a file keeps; the oldest is forgotten first.
#: A human may take days to answer. About 400 bytes each in memory, 150 in the file.
INTERRUPTED_KEPT = 10_000

_LOCK_WAIT_SECONDS = 0.1  # hooks may run on the event loop

_log = logging.getLogger("otelchain")


class GraphThread(NamedTuple):
    """The LangGraph thread that a top-level graph run works on."""

    thread_id: str
    graph_name: str  # one thread id may be used with several graphs
    addressed: bool  # the caller named a checkpoint: time travel, or a resume of an old question


def graph_thread(name: str, metadata: Mapping[str, Any]) -> GraphThread | None:
    """Read the thread of a run from its metadata; None for runs inside a graph or without one."""
    thread_id = metadata.get("thread_id")
    small = type(thread_id) is int and abs(thread_id) < 2**63
    if not (small or isinstance(thread_id, (str, UUID))) or "langgraph_node" in metadata:
        return None
    return GraphThread(str(thread_id), name, bool(metadata.get("checkpoint_id")))


def interrupt_facts(event: Any) -> Attributes:
    """Say where a graph waits (LangGraph's GraphInterruptEvent); what it asks is content."""
    return {
        names.INTERRUPT_KIND: str(event.status),
        names.INTERRUPT_CHECKPOINT_ID: str(event.checkpoint_id),
        names.INTERRUPT_CHECKPOINT_NS: "|".join(event.checkpoint_ns),
    }


def resume_facts(event: Any) -> Attributes:
    """Say from where a graph went on (LangGraph's GraphResumeEvent)."""
    return {
        names.RESUMED: True,
        names.RESUME_CHECKPOINT_ID: str(event.checkpoint_id),
        names.RESUME_CHECKPOINT_NS: "|".join(event.checkpoint_ns),
    }


def is_answer(inputs: Any) -> bool:
    """Whether a graph is called with ``Command(resume=…)``.

    LangGraph tells handlers in the config of a resume, not those that `instrument` attaches.
    """
    kind = type(inputs)
    return (
        kind.__name__ == "Command"
        and kind.__module__.startswith("langgraph.")
        and inputs.resume is not None
    )


class InterruptLinks:
    """Find the interrupted run that a resumed one continues. Thread-safe."""

    def __init__(self) -> None:
        self._contexts: dict[str, SpanContext] = {}
        self._file: _ContextFile | None = None
        self._lock = Lock()

    def keep_in(self, file: Path) -> None:
        """Keep them in a file too, for the other processes that use it: workers, a restarted one.

        It holds digests of thread and checkpoint, and span contexts; no content. It is made when
        the first graph is interrupted. A path that cannot be used is named at once, in a warning.
        """
        self._file = _ContextFile(file)
        self._file.try_out()

    def interrupted(self, thread: GraphThread, event: Any, context: SpanContext) -> None:
        """Remember a run that LangGraph interrupted at the event's checkpoint."""
        self._remember((_checkpoint(thread, event), _waiting(thread)), context)

    def waits(self, thread: GraphThread, context: SpanContext) -> None:
        """Remember a run that was interrupted at a checkpoint which LangGraph has not told."""
        self._remember((_waiting(thread),), context)

    def continued(self, thread: GraphThread, event: Any) -> SpanContext | None:
        """Find the run that was interrupted at the checkpoint the event resumes from.

        Where a human has edited the state meanwhile there is a newer checkpoint; then it is the
        run of this graph that the thread still waits on, unless the caller named a checkpoint.
        """
        found = self._find(_checkpoint(thread, event))
        if found is None and not thread.addressed:
            found = self._find(_waiting(thread))
        return found

    def waiting(self, thread: GraphThread) -> SpanContext | None:
        """Find the run that the thread waits on, when no event names its checkpoint."""
        return None if thread.addressed else self._find(_waiting(thread))

    def ended(self, thread: GraphThread) -> None:
        """Note that a run of the thread ended without an interrupt: nothing waits any more."""
        key = _waiting(thread)
        with self._lock:
            self._contexts.pop(key, None)
        if self._file:
            self._file.remove(key)

    def forget_lock(self) -> None:
        """Make the lock anew in a forked child, where another thread may have held it."""
        self._lock = Lock()

    def _remember(self, keys: tuple[str, ...], context: SpanContext) -> None:
        if not context.is_valid:
            return
        with self._lock:
            for key in keys:
                self._contexts.pop(key, None)
                self._contexts[key] = context
            while len(self._contexts) > 2 * INTERRUPTED_KEPT:
                del self._contexts[next(iter(self._contexts))]
        if self._file:
            self._file.put(keys, context)

    def _find(self, key: str) -> SpanContext | None:
        if self._file:
            found = self._file.get(key)
            if self._file.works:
                return found  # also None: another process may have gone on meanwhile
        return self._contexts.get(key)


def _checkpoint(thread: GraphThread, event: Any) -> str:
    return _digest(thread.thread_id, *event.checkpoint_ns, event.checkpoint_id)


def _waiting(thread: GraphThread) -> str:
    return _digest("waiting", thread.thread_id, thread.graph_name)


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:32]


class _ContextFile:
    """Span contexts by key in an SQLite file. A file that cannot be used costs the link, once told.

    A connection for each call: calls are rare, come from any thread, and survive a fork.
    """

    def __init__(self, path: Path) -> None:
        self.works = True  # so far
        self._path = path
        self._reported = False

    def try_out(self) -> None:
        """Warn of a path that cannot be used, without making the file."""
        if self._path.exists():
            self._execute((_SELECT, ("",)))
        elif not self._path.parent.is_dir():
            self._report("its directory does not exist")
        elif not os.access(self._path.parent, os.W_OK):
            self._report("its directory cannot be written")

    def put(self, keys: tuple[str, ...], context: SpanContext) -> None:
        row = (
            format_trace_id(context.trace_id),
            format_span_id(context.span_id),
            int(context.trace_flags),
        )
        inserts = [(_INSERT, (key, *row)) for key in keys]
        self._execute(*inserts, (_TRIM, (2 * INTERRUPTED_KEPT,)))

    def get(self, key: str) -> SpanContext | None:
        rows = self._execute((_SELECT, (key,)))
        if not rows:
            return None
        trace_id, span_id, flags = rows[0]
        return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(flags))

    def remove(self, key: str) -> None:
        # Reading takes no lock, and most runs end with nothing to remove.
        if self._execute((_SELECT, (key,))):
            self._execute((_DELETE, (key,)))

    def _execute(self, *statements: tuple[str, tuple[Any, ...]]) -> list[Any]:
        import sqlite3  # 10 ms that only an application with such a file pays

        try:
            self._keep_private()
            with closing(sqlite3.connect(self._path, timeout=_LOCK_WAIT_SECONDS)) as connection:
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(_CREATE)
                with connection:
                    rows = [connection.execute(*each).fetchall() for each in statements][-1]
            self.works = True
            return rows
        except (sqlite3.Error, OSError, ValueError) as error:
            self._report(error)
            return []

    def _keep_private(self) -> None:
        """Let nobody else read it: the digests of short thread ids can be guessed.

        SQLite gives its journal the mode of the file.
        """
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        if os.name == "posix":
            found = self._path.stat()
            if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                self._path.chmod(0o600)  # an earlier release left it readable

    def _report(self, reason: object) -> None:
        self.works = False
        if not self._reported:
            self._reported = True
            _log.warning("interrupted runs cannot be kept in %s: %s", self._path, reason)


_CREATE = """
CREATE TABLE IF NOT EXISTS interrupted_runs (
    key TEXT PRIMARY KEY, trace_id TEXT NOT NULL, span_id TEXT NOT NULL, flags INTEGER NOT NULL
)
"""
_INSERT = "INSERT OR REPLACE INTO interrupted_runs VALUES (?, ?, ?, ?)"
_SELECT = "SELECT trace_id, span_id, flags FROM interrupted_runs WHERE key = ?"
_DELETE = "DELETE FROM interrupted_runs WHERE key = ?"
# A replaced row gets a new rowid, so the lowest are the oldest.
_TRIM = """
DELETE FROM interrupted_runs
WHERE rowid <= (SELECT max(rowid) FROM interrupted_runs) - ?
"""
