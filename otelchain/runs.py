"""The open runs and their spans: found by run id from any thread, bounded in number and age."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol
from uuid import UUID

from opentelemetry.trace import Span, SpanContext
from opentelemetry.util.types import AttributeValue

from otelchain.interrupt_links import GraphThread, InterruptLinks
from otelchain.status import Status
from otelchain.usage_facts import StreamedUsage

#: Contexts of ended runs that are kept, so that a child which starts after its parent ended
#: (background work, late streams) still finds its place. About 300 bytes each.
ENDED_KEPT = 4_096

# How often the age of the oldest run is looked at; ages are hours.
_ADDS_BETWEEN_LOOKS = 64


class Owner(Protocol):
    """Who started a run: the recorder of one handler."""

    def fail(self, run_id: UUID, error: BaseException) -> None:
        """End a run that raised."""

    def end_unreported(self, run: "OpenRun", how: Status, reason: str) -> None:
        """End a run whose end LangChain does not report."""


@dataclass(eq=False, slots=True)
class OpenRun:
    """One run between its start and its end."""

    run_id: UUID
    parent_run_id: UUID | None
    run_type: str
    span: Span
    start_time_unix_nano: int
    owner: "Owner"
    """The recorder that started the span; only it may note, end or describe the run."""
    attributes: dict[str, AttributeValue]
    """What was known at the start; the payload too where the end has to see it again."""
    text_bytes: int = 0
    """Recorded so far, in characters of attribute values."""
    streamed: bool = False
    first_chunk_seconds: float | None = None
    last_chunk_unix_nano: int | None = None  # kept only for metrics
    usage: StreamedUsage | None = None
    interrupted: bool = False
    questions: tuple[Any, ...] = ()  # LangGraph's interrupts of the nodes below
    thread: GraphThread | None = None  # of a top-level graph run
    answered: SpanContext | None = None  # the run whose question its input answers
    resumed: bool = False  # LangGraph said so
    streams: bool = False
    """Reported as a stream at its start."""
    batch_size: int = 1
    closed: bool = False
    """Its content is switched off, for it or above it; so it is for what starts below."""
    withheld: "set[object] | None" = None
    """Errors and interrupts that come from such a run below; see `otelchain.withheld`."""
    fallbacks: Any = None  # the RunnableWithFallbacks whose run it is
    reported_parent_run_id: UUID | None = None  # of such a run: what LangChain said
    alternatives: int = 0  # runs that started directly below such a run
    failed_tasks: dict[object, int] | None = None  # a graph's; tries by checkpoint namespace
    task: "asyncio.Task[Any] | None" = None
    """The task that it was started in."""
    watcher: "Callable[[asyncio.Task[Any]], object] | None" = None
    """What the task calls when it is done; taken back when the run ends before."""
    os_thread: int = 0
    caller_depth: int = 0
    children: set[int] = field(default_factory=set)

    @property
    def may_outlive_its_call(self) -> bool:
        """Whether a reader may go on with it elsewhere after the call that started it returned."""
        return self.streamed or self.streams


class OpenRuns:
    """Find a run's span from any thread.

    LangChain may report the start and the end of one run from different threads and contexts, so
    spans are kept here by run id and not in the OpenTelemetry context. All handlers of one tracer
    provider share one table: a run that two of them see gives one span, and a child that one of
    them sees finds the parent that another has seen. Iteration order is start order, so the oldest
    run is always the first. Keys are the ids' numbers: Python hashes those ten times faster.
    """

    def __init__(self) -> None:
        # Ordered ones: the first key of a plain dictionary from whose front was deleted is found
        # by walking over what is no longer there.
        self._runs: OrderedDict[int, OpenRun] = OrderedDict()
        self._root_retrievers: dict[int, OpenRun] = {}
        self._ended: OrderedDict[int, SpanContext] = OrderedDict()
        self._ended_closed: set[int] = set()
        self._forgot_closed = False
        self._claimed: set[int] = set()
        self.open_fallbacks = 0
        self._adds_until_look = _ADDS_BETWEEN_LOOKS
        self._lock = Lock()
        self.links = InterruptLinks()

    def count(self, owner: Owner) -> int:
        """Count the open runs of one owner."""
        with self._lock:
            return sum(run.owner is owner for run in self._runs.values())

    def retrievers_of_thread(self, os_thread: int) -> list[OpenRun]:
        """Find the open retriever runs without a parent that were started in a thread."""
        if not self._root_retrievers:
            return []
        with self._lock:
            return [run for run in self._root_retrievers.values() if run.os_thread == os_thread]

    def siblings(self, run: OpenRun) -> list[OpenRun]:
        """Find the open runs of the same type and owner under the same parent."""
        with self._lock:
            return [
                other
                for other in self._runs.values()
                if other.parent_run_id == run.parent_run_id
                and other.run_type == run.run_type
                and other.owner is run.owner
            ]

    def claim(self, run_id: UUID) -> bool:
        """Reserve a run id for a start; False when the run is open, or being started, already."""
        key = run_id.int
        with self._lock:
            if key in self._runs or key in self._claimed:
                return False
            self._claimed.add(key)
            return True

    def release(self, run_id: UUID) -> None:
        """Give a claim up whose start failed."""
        self._claimed.discard(run_id.int)

    def add(self, run: OpenRun) -> None:
        """Take a claimed run that has started, and note it with its parent, if that is open."""
        with self._lock:
            self._claimed.discard(run.run_id.int)
            self._runs[run.run_id.int] = run
            if run.fallbacks is not None:
                self.open_fallbacks += 1
            if run.parent_run_id is None:
                if run.run_type == "retriever":
                    self._root_retrievers[run.run_id.int] = run
                return
            parent = self._runs.get(run.parent_run_id.int)
            if parent is not None:
                parent.children.add(run.run_id.int)

    def get(self, run_id: UUID) -> OpenRun | None:
        """Find an open run."""
        return self._runs.get(run_id.int)

    def ended_context(self, run_id: UUID) -> SpanContext | None:
        """Find the span context of a run that ended not long ago."""
        return self._ended.get(run_id.int)

    def is_closed(self, run_id: UUID) -> bool:
        """Whether content is off for a run; yes also for one that may have been forgotten."""
        key = run_id.int
        run = self._runs.get(key)
        if run is not None:
            return run.closed
        return key in self._ended_closed or (self._forgot_closed and key not in self._ended)

    def pop(self, run_id: UUID, owner: Owner) -> OpenRun | None:
        """Take a run out to end it, if it is the owner's. Whoever gets it is the only one."""
        with self._lock:
            run = self._runs.get(run_id.int)
            return self._pop(run_id.int) if run is not None and run.owner is owner else None

    def pop_descendants(
        self, run: OpenRun, still_works: Callable[[OpenRun], bool]
    ) -> tuple[list[OpenRun], list[OpenRun]]:
        """Take out the open runs below a run.

        Returns:
            Those taken out, deepest last, and those that still work and stay, with what is below.
        """
        taken: list[OpenRun] = []
        working: list[OpenRun] = []
        with self._lock:
            waiting = [self._runs.get(key) for key in run.children]
            while waiting:
                child = waiting.pop()
                if child is None:
                    continue
                if still_works(child):
                    working.append(child)
                    continue
                waiting.extend(self._runs.get(key) for key in child.children)
                self._pop(child.run_id.int)
                taken.append(child)
        return taken, working

    def pop_overdue(self, max_runs: int, max_age_seconds: int) -> list[OpenRun]:
        """Take out runs beyond these bounds, oldest first; cheap when there are none."""
        self._adds_until_look -= 1
        if self._adds_until_look > 0 and len(self._runs) <= max_runs:
            return []
        self._adds_until_look = _ADDS_BETWEEN_LOOKS
        oldest_allowed = time.time_ns() - max_age_seconds * 1_000_000_000
        overdue: list[OpenRun] = []
        with self._lock:
            while self._runs:
                oldest = next(iter(self._runs.values()))
                full = len(self._runs) > max_runs
                if not full and oldest.start_time_unix_nano > oldest_allowed:
                    break
                self._pop(oldest.run_id.int)
                overdue.append(oldest)
        return overdue

    def pop_all(self) -> list[OpenRun]:
        """Take out every open run, children before their parents."""
        with self._lock:
            runs = list(reversed(self._runs.values()))
            self._runs.clear()
            self.open_fallbacks = 0
            self._root_retrievers.clear()
            return runs

    def forget(self) -> None:
        """Drop every run without ending it: in a forked child they belong to the parent process."""
        self._lock = Lock()
        self.links.forget_lock()
        self._runs.clear()
        self.open_fallbacks = 0
        self._root_retrievers.clear()

    def _pop(self, key: int) -> OpenRun | None:
        run = self._runs.pop(key, None)
        if run is None:
            return None
        if run.fallbacks is not None:
            self.open_fallbacks -= 1
        if run.parent_run_id is None:
            self._root_retrievers.pop(key, None)
        else:
            parent = self._runs.get(run.parent_run_id.int)
            if parent is not None:
                parent.children.discard(key)
        if run.watcher is not None and run.task is not None:
            # Or the task, which may be a worker that lives for days, would keep every ended run.
            run.task.remove_done_callback(run.watcher)
        run.task = run.watcher = None
        self._ended[key] = run.span.get_span_context()
        if run.closed:
            self._ended_closed.add(key)
        if len(self._ended) > ENDED_KEPT:
            forgotten, _ = self._ended.popitem(last=False)
            if forgotten in self._ended_closed:
                self._ended_closed.discard(forgotten)
                self._forgot_closed = True
        return run
