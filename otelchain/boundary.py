"""Opt-in: a run's span is the current span inside its own step, so that other spans nest there.

An HTTP client or a database driver with an instrumentation of its own hangs its spans under the
current span. No callback may make a run's span current: under async its end runs in another
context, and the span would stay current for ever. So the span is set where LangChain executes a
step, and taken away in the same frame:

- Chains, tools, graph nodes: LangChain runs the step in a copy of the context
  (``set_config_context``); the span is put into that copy and dies with it.
- Models and retrievers: the method around the step is wrapped. Before it runs, the current context
  is remembered; the start hook of its own run makes its span current; when the method returns,
  raises or yields, the remembered context comes back. Its own run is the one that the first
  callback manager inside starts; where that has no handler of ours, the step stays without a span,
  whatever is traced further in.

The wrapped names are private to langchain-core; `otelchain.nesting` tries them on the installed
version and takes everything back when one of them does not behave.
"""

import functools
import logging
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context

from otelchain import lifetime
from otelchain.runs import OpenRun

_log = logging.getLogger("otelchain")

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]


class _Frame:
    """One execution of a wrapped method: which run it turned out to be, and that run's context."""

    def __init__(self, run: OpenRun | None = None, *, awaits_start: bool = False) -> None:
        self.run = run
        self.awaits_start = awaits_start
        self.starting = False
        self.context: Context | None = trace.set_span_in_context(run.span) if run else None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Make the run's span current; whatever was current before comes back at the end."""
        entered = _frame.set(self)
        attached = otel_context.attach(self.context or otel_context.get_current())
        try:
            yield
        finally:
            otel_context.detach(attached)
            _frame.reset(entered)

    @contextmanager
    def taking_its_run(self) -> Iterator[None]:
        """Take the run that starts now for the frame's own, if it is the first inside."""
        self.starting, self.awaits_start = self.awaits_start, False
        try:
            yield
        finally:
            self.starting = False

    def left_open(self, error: BaseException) -> None:
        """End the run when LangChain will not: it reports no `CancelledError` of these methods."""
        if self.run is None or isinstance(error, Exception):
            return
        try:
            self.run.owner.fail(self.run.run_id, error)
        except Exception as failure:  # noqa: BLE001 - the application must see its own error
            # Not the text, nor a traceback with the application's error: both may hold content.
            kind = type(failure).__name__
            _log.error("otelchain could not end a run (%s); the application goes on", kind)


_frame: ContextVar[_Frame | None] = ContextVar("otelchain_frame", default=None)


def entered(run: OpenRun) -> None:
    """Make the span of a run that has just started current, if a wrapped method started it."""
    frame = _frame.get()
    if frame is not None and frame.starting and frame.run is None:
        frame.run = run
        frame.context = trace.set_span_in_context(run.span)
        # Taken back by the frame, which remembered the context before it called LangChain.
        otel_context.attach(frame.context)


def _frame_of(run_manager: Any) -> _Frame:
    """Frame a step whose run has started already."""
    return _Frame(lifetime.find(run_manager.run_id) if run_manager is not None else None)


# --- what each wrapped function is wrapped with ------------------------------------------------


def _in_copied_context(original: Function) -> Function:
    """``_set_config_context(config)`` runs inside the copy of the context that a step gets."""

    @functools.wraps(original)
    def set_config_context(config: Any) -> Any:
        run_id = getattr(config.get("callbacks"), "parent_run_id", None)
        run = lifetime.find(run_id) if run_id is not None else None
        if run is not None:
            otel_context.attach(trace.set_span_in_context(run.span))
        return original(config)

    return set_config_context


def _framed(frame_of: Callable[..., _Frame], *, unreported: bool = False) -> Wrap:
    """Run a step, sync or async, inside a frame made from its arguments.

    Args:
        frame_of: Makes the frame.
        unreported: LangChain does not report a `CancelledError` or Ctrl-C of this method.
    """

    def wrap(original: Function) -> Function:
        def left_open(frame: _Frame, error: BaseException) -> None:
            if unreported:
                frame.left_open(error)

        @functools.wraps(original)
        def step(*args: Any, **kwargs: Any) -> Any:
            frame = frame_of(*args, **kwargs)
            try:
                with frame.inside():
                    return original(*args, **kwargs)
            except BaseException as error:
                left_open(frame, error)
                raise

        @functools.wraps(original)
        async def async_step(*args: Any, **kwargs: Any) -> Any:
            frame = frame_of(*args, **kwargs)
            try:
                with frame.inside():
                    return await original(*args, **kwargs)
            except BaseException as error:
                left_open(frame, error)
                raise

        return async_step if iscoroutinefunction(original) else step

    return wrap


def _of_run_manager(*args: Any, run_manager: Any = None, **kwargs: Any) -> _Frame:  # noqa: ARG001
    """``_generate_with_cache(…, run_manager=…)``."""
    return _frame_of(run_manager)


def _of_run_managers(*args: Any, **kwargs: Any) -> _Frame:  # noqa: ARG001
    """``_generate_helper(self, prompts, stop, run_managers, …)``: one call for several runs."""
    run_managers = args[3]
    return _frame_of(run_managers[0] if run_managers else None)


def _of_its_own_start(*args: Any, **kwargs: Any) -> _Frame:  # noqa: ARG001
    """``BaseRetriever.invoke``: the run starts inside the call."""
    return _Frame(awaits_start=True)


def _streaming(original: Function) -> Function:
    """``stream``: the span is current while the model works, not while the reader does."""

    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Iterator[Any]:
        frame, chunks = _Frame(awaits_start=True), original(*args, **kwargs)
        end = object()
        try:
            while True:
                with frame.inside():
                    chunk = next(chunks, end)
                if chunk is end:
                    return
                yield chunk
        except BaseException as error:
            with frame.inside():
                chunks.close()
            frame.left_open(error)
            raise

    return step


def _streaming_async(original: Function) -> Function:
    @functools.wraps(original)
    async def step(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        frame, chunks = _Frame(awaits_start=True), original(*args, **kwargs)
        end = object()
        try:
            while True:
                with frame.inside():
                    chunk = await anext(chunks, end)
                if chunk is end:
                    return
                yield chunk
        except BaseException as error:
            with frame.inside():
                await chunks.aclose()
            frame.left_open(error)
            raise

    return step


def _watching_managers(original: Function) -> Function:
    """``CallbackManager.on_*_start``: a run whose manager is garbage can never report its end."""

    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        with _taking_its_run():
            return _watched(original(*args, **kwargs))

    @functools.wraps(original)
    async def async_start(*args: Any, **kwargs: Any) -> Any:
        with _taking_its_run():
            return _watched(await original(*args, **kwargs))

    return async_start if iscoroutinefunction(original) else start


def _taking_its_run() -> AbstractContextManager[None]:
    frame = _frame.get()
    return nullcontext() if frame is None else frame.taking_its_run()


def _watched(managers: Any) -> Any:
    for manager in managers if isinstance(managers, list) else [managers]:
        end_with(manager, manager.run_id)
    return managers


def end_with(manager: Any, run_id: UUID) -> None:
    """End a run that is still open when its manager is garbage, at the next hook or `stats()`."""
    weakref.finalize(manager, managerless.append, run_id).atexit = False


# Filled by the garbage collector, which may come while any lock is held: so nothing is ended there.
managerless: deque[UUID] = deque(maxlen=10_000)


def take_managerless() -> list[OpenRun]:
    """Take the open runs that can no longer report their end."""
    found: list[OpenRun] = []
    while True:
        try:
            run = lifetime.find(managerless.popleft())
        except IndexError:
            return found
        if run is not None:
            found.append(run)


_MANAGER = "langchain_core.callbacks.manager:CallbackManager"
_ASYNC_MANAGER = "langchain_core.callbacks.manager:AsyncCallbackManager"
_CHAT = "langchain_core.language_models.chat_models:BaseChatModel"
_LLM = "langchain_core.language_models.llms:BaseLLM"
_RETRIEVER = "langchain_core.retrievers:BaseRetriever"
_RETRIEVED = _framed(_of_its_own_start, unreported=True)
_BOUNDARIES: tuple[tuple[str, str, Wrap], ...] = (
    ("langchain_core.runnables.config", "_set_config_context", _in_copied_context),
    (_CHAT, "_generate_with_cache", _framed(_of_run_manager)),
    (_CHAT, "_agenerate_with_cache", _framed(_of_run_manager, unreported=True)),
    (_CHAT, "stream", _streaming),
    (_CHAT, "astream", _streaming_async),
    (_LLM, "_generate_helper", _framed(_of_run_managers)),
    (_LLM, "_agenerate_helper", _framed(_of_run_managers)),
    (_LLM, "stream", _streaming),
    (_LLM, "astream", _streaming_async),
    (_RETRIEVER, "invoke", _RETRIEVED),
    (_RETRIEVER, "ainvoke", _RETRIEVED),
    (_MANAGER, "on_chat_model_start", _watching_managers),
    (_MANAGER, "on_llm_start", _watching_managers),
    (_MANAGER, "on_retriever_start", _watching_managers),
    (_ASYNC_MANAGER, "on_chat_model_start", _watching_managers),
    (_ASYNC_MANAGER, "on_llm_start", _watching_managers),
    (_ASYNC_MANAGER, "on_retriever_start", _watching_managers),
)

# Home and name of each wrapped function, with what stood there before.
_originals: list[tuple[Any, str, Function]] = []


def install() -> None:
    """Wrap every boundary; does nothing when they are wrapped already.

    Raises:
        AttributeError: The installed langchain-core has no such function.
    """
    if _originals:
        return
    found = [(_home(path), name, wrap) for path, name, wrap in _BOUNDARIES]
    wrapped = [(home, name, getattr(home, name), wrap) for home, name, wrap in found]
    for home, name, original, wrap in wrapped:
        setattr(home, name, wrap(original))
        _originals.append((home, name, original))


def uninstall() -> None:
    """Put every wrapped function back."""
    while _originals:
        home, name, original = _originals.pop()
        setattr(home, name, original)


def _home(path: str) -> Any:
    module, _, attribute = path.partition(":")
    home: Any = import_module(module)
    return getattr(home, attribute) if attribute else home
