"""`nest_spans`: switch the boundaries on, after trying them on the installed langchain-core."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.language_models import LLM, BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider

from otelchain import boundary
from otelchain.handler import OtelCallbackHandler
from otelchain.version import __version__

_log = logging.getLogger("otelchain")


def nest_spans() -> bool:
    """Make a run's span the current span inside its own step, so that other spans nest under it.

    The functions of langchain-core that execute steps are wrapped, some of them private, and tried
    at once with fake parts. Spans of HTTP clients and databases then hang under the run that caused
    them, and a cancelled model or retriever ends at once. On Python 3.10 this holds for sync code
    and for async models and retrievers; other async steps there cannot be given a context.

    Returns:
        Whether it is on. When the trial fails, everything is put back, a warning says so once, and
        parents come from LangChain's run ids alone.
    """
    failure = _failure()
    if failure is None:
        return True
    boundary.uninstall()
    _log.warning(
        "spans of other instrumentations will not nest inside LangChain runs: "
        "otelchain %s does not fit the installed langchain-core (%s)",
        __version__,
        failure,
    )
    return False


def unnest_spans() -> None:
    """Put LangChain's functions back."""
    boundary.uninstall()


def _failure() -> str | None:
    try:
        boundary.install()
        failed = _in_a_thread(_try_all)
    except Exception as error:  # noqa: BLE001 - whatever it is, the application goes on without
        return f"{type(error).__name__}: {error}"
    return f"no current span in: {', '.join(failed)}" if failed else None


def _in_a_thread(function: Callable[[], list[str]]) -> list[str]:
    """Run in a thread of its own: this one may have a running event loop or a current span."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def _try_all() -> list[str]:
    """Name the steps in which the span of their run was not current, or stayed so afterwards."""
    trial = _Trial()
    steps: dict[str, Runnable[Any, Any]] = {
        "chain": RunnableLambda(trial.look, afunc=trial.look_async),
        "chat model": _Model(look=trial.look),
        "plain model": _PlainModel(look=trial.look),
        "retriever": _Retriever(look=trial.look),
    }
    streaming = _StreamingModel(look=trial.look)
    failed = [name for name, step in steps.items() if not trial.passes(step.invoke)]
    if not trial.passes(lambda *args: list(streaming.stream(*args))):
        failed.append("stream")
    if sys.version_info >= (3, 11):
        failed += [f"async {name}" for name, step in steps.items() if not trial.passes(_sync(step))]
        if not trial.passes(lambda *args: asyncio.run(_read(streaming.astream(*args)))):
            failed.append("async stream")
    return failed


async def _read(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


def _sync(step: Runnable[Any, Any]) -> Callable[..., Any]:
    return lambda *args: asyncio.run(step.ainvoke(*args))


class _Trial(SpanProcessor):
    """Runs a step and compares the span that was current in it with the span that its run got."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.seen: list[int] = []
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self)
        self.handler = OtelCallbackHandler(provider, capture_content=False)

    def on_start(self, span: Span, parent_context: Any = None) -> None:  # noqa: ARG002 - the SDK's
        self.started.append(span.get_span_context().span_id)

    def look(self, value: Any = None) -> Any:
        self.seen.append(trace.get_current_span().get_span_context().span_id)
        return value

    async def look_async(self, value: Any) -> Any:
        return self.look(value)

    def passes(self, invoke: Callable[..., Any]) -> bool:
        self.started.clear()
        self.seen.clear()
        invoke("x", {"callbacks": [self.handler]})
        return self.seen == self.started and trace.get_current_span() is trace.INVALID_SPAN


class _Model(BaseChatModel):
    look: Any

    @property
    def _llm_type(self) -> str:
        return "otelchain-trial"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ARG002
        self.look()
        return ChatResult(generations=[ChatGeneration(message=AIMessage("x"))])

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(*args, **kwargs)


class _StreamingModel(_Model):
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:  # noqa: ARG002
        self.look()
        yield ChatGenerationChunk(message=AIMessageChunk(content="x"))

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(*args, **kwargs):
            yield chunk


class _PlainModel(LLM):
    look: Any

    @property
    def _llm_type(self) -> str:
        return "otelchain-trial"

    def _call(self, *args: Any, **kwargs: Any) -> str:  # noqa: ARG002
        self.look()
        return "x"

    async def _acall(self, *args: Any, **kwargs: Any) -> str:
        return self._call(*args, **kwargs)


class _Retriever(BaseRetriever):
    look: Any

    def _get_relevant_documents(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        self.look()
        return []

    async def _aget_relevant_documents(self, *args: Any, **kwargs: Any) -> Any:
        return self._get_relevant_documents(*args, **kwargs)
