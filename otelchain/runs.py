"""The open runs and their spans: found by run id from any thread, bounded in number and age."""

import time
from dataclasses import dataclass, field
from threading import Lock
from uuid import UUID

from opentelemetry.trace import Span, SpanContext

#: Contexts of ended runs that are kept, so that a child which starts after its parent ended
#: (background work, late streams) still finds its place. About 300 bytes each.
ENDED_KEPT = 4_096


@dataclass(eq=False, slots=True)
class OpenRun:
    """One run between its start and its end."""

    run_id: UUID
    parent_run_id: UUID | None
    span: Span
    start_time_unix_nano: int
    streamed: bool = False
    interrupted: bool = False
    children: set[UUID] = field(default_factory=set)


class OpenRuns:
    """Find a run's span from any thread.

    LangChain may report the start and the end of one run from different threads and contexts, so
    spans are kept here by run id and not in the OpenTelemetry context. Iteration order is start
    order, so the oldest run is always the first.

    Args:
        max_runs: Most runs open at once.
        max_age_seconds: Longest time a run stays open.
    """

    def __init__(self, max_runs: int, max_age_seconds: int) -> None:
        self._max_runs = max_runs
        self._max_age_nano = max_age_seconds * 1_000_000_000
        self._runs: dict[UUID, OpenRun] = {}
        self._ended: dict[UUID, SpanContext] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: UUID) -> bool:
        return run_id in self._runs

    def add(self, run: OpenRun) -> None:
        """Take a started run and note it with its parent, if that is open."""
        with self._lock:
            self._runs[run.run_id] = run
            parent = self._runs.get(run.parent_run_id) if run.parent_run_id else None
            if parent is not None:
                parent.children.add(run.run_id)

    def get(self, run_id: UUID) -> OpenRun | None:
        """Find an open run."""
        return self._runs.get(run_id)

    def ended_context(self, run_id: UUID) -> SpanContext | None:
        """Find the span context of a run that ended not long ago."""
        return self._ended.get(run_id)

    def pop(self, run_id: UUID) -> OpenRun | None:
        """Take a run out to end it. Whoever gets it is the only one to do so."""
        with self._lock:
            return self._pop(run_id)

    def pop_descendants(self, run: OpenRun) -> list[OpenRun]:
        """Take out the open runs below a run, deepest last."""
        taken: list[OpenRun] = []
        with self._lock:
            waiting = list(run.children)
            while waiting:
                child = self._pop(waiting.pop())
                if child is not None:
                    taken.append(child)
                    waiting.extend(child.children)
        return taken

    def pop_overdue(self) -> list[OpenRun]:
        """Take out runs beyond the bounds, oldest first; cheap when there are none."""
        oldest_allowed = time.time_ns() - self._max_age_nano
        overdue: list[OpenRun] = []
        with self._lock:
            while self._runs:
                oldest = next(iter(self._runs.values()))
                full = len(self._runs) > self._max_runs
                if not full and oldest.start_time_unix_nano > oldest_allowed:
                    break
                self._pop(oldest.run_id)
                overdue.append(oldest)
        return overdue

    def pop_all(self) -> list[OpenRun]:
        """Take out every open run, children before their parents."""
        with self._lock:
            runs = list(reversed(self._runs.values()))
            self._runs.clear()
            return runs

    def forget(self) -> None:
        """Drop every run without ending it: in a forked child they belong to the parent process."""
        self._lock = Lock()
        self._runs.clear()

    def _pop(self, run_id: UUID) -> OpenRun | None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return None
        parent = self._runs.get(run.parent_run_id) if run.parent_run_id else None
        if parent is not None:
            parent.children.discard(run_id)
        self._ended[run_id] = run.span.get_span_context()
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]
        return run
