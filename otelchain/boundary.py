"""Opt-in: a run's span is the current span inside its own step, so that other spans nest there.

An HTTP client or a database driver with an instrumentation of its own hangs its spans under the
current span. No callback may make a run's span current: under async its end runs in another
context, and the span would stay current for ever. So the span is set where LangChain executes a
step, and taken away in the same frame:

- Chains, tools, graph nodes: LangChain runs the step in a copy of the context
  (``set_config_context``); the span is put into that copy and dies with it.
- Models and retrievers: the method around the step is wrapped. Before it runs, the current context
  is remembered; the start hook of the first run inside makes its span current; when the method
  returns, raises or yields, the remembered context comes back.

The wrapped names are private to langchain-core; `otelchain.nesting` tries them on the installed
version and takes everything back when one of them does not behave.
"""

import functools
import logging
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context

from otelchain import lifetime
from otelchain.runs import OpenRun

_log = logging.getLogger("otelchain")

Function = Callable[..., Any]


class _Frame:
    """One execution of a wrapped method: which run it turned out to be, and that run's context."""

    def __init__(self, run: OpenRun | None = None) -> None:
        self.run = run
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

    def left_open(self, error: BaseException) -> None:
        """End the run when LangChain will not: it reports no `CancelledError` of these methods."""
        if self.run is None or isinstance(error, Exception):
            return
        try:
            self.run.owner.fail(self.run.run_id, error)
        except Exception:  # noqa: BLE001 - the application must see its own error
            _log.exception("otelchain could not end a run")


_frame: ContextVar[_Frame | None] = ContextVar("otelchain_frame", default=None)


def entered(run: OpenRun) -> None:
    """Make the span of a run that has just started current, if a wrapped method started it."""
    frame = _frame.get()
    if frame is not None and frame.run is None:
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


def _with_run_manager(original: Function) -> Function:
    """``_generate_with_cache(…, run_manager=…)``."""

    @functools.wraps(original)
    def step(*args: Any, run_manager: Any = None, **kwargs: Any) -> Any:
        frame = _frame_of(run_manager)
        with frame.inside():
            return original(*args, run_manager=run_manager, **kwargs)

    return step


def _with_run_manager_async(original: Function) -> Function:
    @functools.wraps(original)
    async def step(*args: Any, run_manager: Any = None, **kwargs: Any) -> Any:
        frame = _frame_of(run_manager)
        try:
            with frame.inside():
                return await original(*args, run_manager=run_manager, **kwargs)
        except BaseException as error:
            frame.left_open(error)
            raise

    return step


def _with_run_managers(original: Function) -> Function:
    """``_generate_helper(self, prompts, stop, run_managers, …)``: one call for several runs."""

    @functools.wraps(original)
    def step(self: Any, prompts: Any, stop: Any, run_managers: Any, **kwargs: Any) -> Any:
        with _frame_of(run_managers[0] if run_managers else None).inside():
            return original(self, prompts, stop, run_managers, **kwargs)

    return step


def _with_run_managers_async(original: Function) -> Function:
    @functools.wraps(original)
    async def step(self: Any, prompts: Any, stop: Any, run_managers: Any, **kwargs: Any) -> Any:
        with _frame_of(run_managers[0] if run_managers else None).inside():
            return await original(self, prompts, stop, run_managers, **kwargs)

    return step


def _starting_its_run(original: Function) -> Function:
    """``BaseRetriever.invoke``: the run starts inside the call."""

    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        frame = _Frame()
        try:
            with frame.inside():
                return original(*args, **kwargs)
        except BaseException as error:
            frame.left_open(error)
            raise

    return step


def _starting_its_run_async(original: Function) -> Function:
    @functools.wraps(original)
    async def step(*args: Any, **kwargs: Any) -> Any:
        frame = _Frame()
        try:
            with frame.inside():
                return await original(*args, **kwargs)
        except BaseException as error:
            frame.left_open(error)
            raise

    return step


def _streaming(original: Function) -> Function:
    """``stream``: the span is current while the model works, not while the reader does."""

    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Iterator[Any]:
        frame, chunks = _Frame(), original(*args, **kwargs)
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
        frame, chunks = _Frame(), original(*args, **kwargs)
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
        return _watched(original(*args, **kwargs))

    return start


def _watching_managers_async(original: Function) -> Function:
    @functools.wraps(original)
    async def start(*args: Any, **kwargs: Any) -> Any:
        return _watched(await original(*args, **kwargs))

    return start


def _watched(managers: Any) -> Any:
    for manager in managers if isinstance(managers, list) else [managers]:
        weakref.finalize(manager, managerless.append, manager.run_id).atexit = False
    return managers


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
_BOUNDARIES: tuple[tuple[str, str, Callable[[Function], Function]], ...] = (
    ("langchain_core.runnables.config", "_set_config_context", _in_copied_context),
    (_CHAT, "_generate_with_cache", _with_run_manager),
    (_CHAT, "_agenerate_with_cache", _with_run_manager_async),
    (_CHAT, "stream", _streaming),
    (_CHAT, "astream", _streaming_async),
    (_LLM, "_generate_helper", _with_run_managers),
    (_LLM, "_agenerate_helper", _with_run_managers_async),
    (_LLM, "stream", _streaming),
    (_LLM, "astream", _streaming_async),
    (_RETRIEVER, "invoke", _starting_its_run),
    (_RETRIEVER, "ainvoke", _starting_its_run_async),
    (_MANAGER, "on_chat_model_start", _watching_managers),
    (_MANAGER, "on_llm_start", _watching_managers),
    (_MANAGER, "on_retriever_start", _watching_managers),
    (_ASYNC_MANAGER, "on_chat_model_start", _watching_managers_async),
    (_ASYNC_MANAGER, "on_llm_start", _watching_managers_async),
    (_ASYNC_MANAGER, "on_retriever_start", _watching_managers_async),
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
