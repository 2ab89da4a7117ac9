"""The span of another instrumentation, opened inside a step, hangs under the step's span."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel
from opentelemetry import context, propagate

from otelchain.conformance.applications import ChatModel, Inside, Retriever, make_tool
from otelchain.conformance.probe import probe
from otelchain.conformance.spans import span_id
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge


def _sync(trial: Trial) -> Inside:
    def call() -> None:
        with trial.span("HTTP"):
            pass

    return call


def _async(trial: Trial) -> Inside:
    async def call() -> None:
        # Other tasks get their turn on both sides, as with a real request.
        await asyncio.sleep(0)
        with trial.span("HTTP"):
            await asyncio.sleep(0)

    return call


def _step(inside: Inside, name: str = "step") -> RunnableLambda[Any, Any]:
    def step(value: Any) -> Any:
        inside()
        return value

    return RunnableLambda(step, name=name)


def _async_step(inside: Inside, name: str = "step") -> RunnableLambda[Any, Any]:
    async def step(value: Any) -> Any:
        await inside()
        return value

    return RunnableLambda(step, name=name)


def _prompt() -> Any:
    return ChatPromptTemplate.from_template("{q}")


@probe("A span inside a sync step of a chain is its child")
def nesting_sync_step(trial: Trial) -> Verdict:
    """Under a span of the application, as under a web framework."""
    chain = _step(_sync(trial)) | RunnableLambda(lambda value: value, name="next")
    with trial.span("OUTER"):
        chain.invoke(1, trial.config())
    return trial.nested()


@probe("A span inside an async step of a chain is its child")
def nesting_async_step(trial: Trial) -> Verdict:
    """Under a span of the application, as under a web framework."""
    chain = _async_step(_async(trial)) | RunnableLambda(lambda value: value, name="next")

    async def main() -> None:
        with trial.span("OUTER"):
            await chain.ainvoke(1, trial.config())

    asyncio.run(main())
    return trial.nested()


@probe("A span inside a chat model is its child, sync")
def nesting_chat_model_sync(trial: Trial) -> Verdict:
    """In a chain, as usual."""
    (_prompt() | ChatModel(inside=_sync(trial))).invoke({"q": "x"}, trial.config())
    return trial.nested()


@probe("A span inside a chat model is its child, async")
def nesting_chat_model_async(trial: Trial) -> Verdict:
    """In a chain, as usual."""
    chain = _prompt() | ChatModel(inside=_async(trial))
    asyncio.run(chain.ainvoke({"q": "x"}, trial.config()))
    return trial.nested()


@probe("A span inside a streaming chat model is its child, sync")
def nesting_chat_model_stream(trial: Trial) -> Verdict:
    """The span is opened between two chunks."""
    list((_prompt() | ChatModel(inside=_sync(trial))).stream({"q": "x"}, trial.config()))
    return trial.nested()


@probe("A span inside a streaming chat model is its child, async")
def nesting_chat_model_astream(trial: Trial) -> Verdict:
    """The span is opened between two chunks."""
    chain = _prompt() | ChatModel(inside=_async(trial))

    async def main() -> None:
        async for _ in chain.astream({"q": "x"}, trial.config()):
            pass

    asyncio.run(main())
    return trial.nested()


@probe("A span inside a tool is its child, sync")
def nesting_tool_sync(trial: Trial) -> Verdict:
    """A tool that is called by itself."""
    make_tool(_sync(trial)).invoke({"q": "x"}, trial.config())
    return trial.nested()


@probe("A span inside a tool is its child, async")
def nesting_tool_async(trial: Trial) -> Verdict:
    """A tool that is called by itself."""
    asyncio.run(make_tool(_async(trial)).ainvoke({"q": "x"}, trial.config()))
    return trial.nested()


@probe("A span inside a retriever is its child, sync")
def nesting_retriever_sync(trial: Trial) -> Verdict:
    """A retriever that is called by itself."""
    Retriever(inside=_sync(trial)).invoke("x", trial.config())
    return trial.nested()


@probe("A span inside a retriever is its child, async")
def nesting_retriever_async(trial: Trial) -> Verdict:
    """A retriever that is called by itself."""
    asyncio.run(Retriever(inside=_async(trial)).ainvoke("x", trial.config()))
    return trial.nested()


def _numbered(trial: Trial, number: int) -> Inside:
    def call() -> None:
        with trial.span(f"HTTP {number}"):
            pass

    return call


def _each_in_its_own(trial: Trial, label: str) -> Verdict:
    """Judge spans ``HTTP N``, each opened in a step named ``label N``."""
    wrong = [
        f"{inner.name} under {trial.log.parent_name(inner)}"
        for inner in trial.log.applications("HTTP ")
        if not trial.is_right_parent(inner, f"{label}{inner.name[-1]}")
    ]
    return judge(not wrong, ", ".join(wrong) or "each under its own")


@probe("Spans inside parallel branches are children of their own branch, sync")
def nesting_parallel_sync(trial: Trial) -> Verdict:
    """langchain-core runs the branches in a thread pool."""
    branches: Any = {f"b{n}": _step(_numbered(trial, n), f"branch_{n}") for n in range(4)}
    RunnableParallel(branches).invoke(1, trial.config())
    return _each_in_its_own(trial, "branch_")


@probe("Spans inside parallel branches are children of their own branch, async")
def nesting_parallel_async(trial: Trial) -> Verdict:
    """The branches are tasks that take turns."""

    def numbered(number: int) -> Inside:
        async def call() -> None:
            await asyncio.sleep(0.001 * (4 - number))
            with trial.span(f"HTTP {number}"):
                await asyncio.sleep(0.002)

        return call

    branches: Any = {f"b{n}": _async_step(numbered(n), f"branch_{n}") for n in range(4)}
    asyncio.run(RunnableParallel(branches).ainvoke(1, trial.config()))
    return _each_in_its_own(trial, "branch_")


@probe("Spans inside the items of a batch are children of their own item")
def nesting_batch(trial: Trial) -> Verdict:
    """Each item is a run of its own, in a thread pool of langchain-core."""

    def step(number: int) -> int:
        with trial.span(f"HTTP {number}"):
            return number

    item = RunnableLambda(step, name="item")
    item.batch([0, 1, 2, 3], trial.config())
    inner = trial.log.applications("HTTP ")
    parents = {span.parent.span_id if span.parent else 0 for span in inner}
    items = {span_id(span) for span in trial.log.started()}
    good = len(parents) == len(inner) and parents <= items
    under = {trial.log.parent_name(span) for span in inner}
    return judge(good, f"{len(parents)} parents of {len(inner)} spans: {', '.join(under)}")


@probe("A span inside a thread that was handed the step's context is the step's child")
def nesting_thread_with_context(trial: Trial) -> Verdict:
    """``executor.submit(contextvars.copy_context().run, call)``."""

    def inside() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.copy_context().run, _sync(trial)).result()

    (_step(inside) | RunnableLambda(lambda value: value)).invoke(1, trial.config())
    return trial.nested()


@probe("A runnable in a thread that was handed OpenTelemetry's context joins the step's trace")
def nesting_thread_with_otel_context(trial: Trial) -> Verdict:
    """What opentelemetry-instrumentation-threading does for every thread pool."""
    inner = RunnableLambda(lambda value: value, name="inner")

    def in_thread(ambient: context.Context) -> None:
        token = context.attach(ambient)
        try:
            with trial.span("HTTP"):
                inner.invoke(1, trial.config())
        finally:
            context.detach(token)

    def inside() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(in_thread, context.get_current()).result()

    (_step(inside) | RunnableLambda(lambda value: value)).invoke(1, trial.config())
    return trial.nested()


@probe("An outgoing traceparent header names the step")
def nesting_outgoing_header(trial: Trial) -> Verdict:
    """What a service that is called inside the step takes for its parent."""
    carrier: dict[str, str] = {}
    right: list[int] = []

    def inside() -> None:
        propagate.inject(carrier)
        open_now = trial.log.unfinished()
        parents = {span.parent.span_id for span in open_now if span.parent}
        right.extend(span_id(span) for span in open_now if span_id(span) not in parents)

    (_step(inside) | RunnableLambda(lambda value: value)).invoke(1, trial.config())
    header = carrier.get("traceparent", "none")
    good = header.count("-") == 3 and int(header.split("-")[2], 16) in right
    return judge(good, "names the step" if good else f"header: {header}")
