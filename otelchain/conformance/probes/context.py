"""The application's own context: kept above the runs, and untouched by them."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.runnables import RunnableLambda
from opentelemetry import context, propagate, trace

from otelchain.conformance.applications import ChatModel
from otelchain.conformance.probe import probe
from otelchain.conformance.spans import trace_id
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge

_REMOTE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
# OpenTelemetry's own key has a random part; instrumentations look for either.
_SUPPRESS = (context._SUPPRESS_INSTRUMENTATION_KEY, "suppress_instrumentation")  # noqa: SLF001
_SUPPRESS_MODELS = "suppress_language_model_instrumentation"


def _chain() -> Any:
    return RunnableLambda(lambda value: value, name="one") | RunnableLambda(
        lambda value: value, name="two"
    )


def _parent_after(trial: Trial) -> Verdict:
    after = trial.log.application("AFTER")
    name = trial.log.parent_name(after)
    return judge(name == "OUTER", f"under {name}")


@probe("A span opened after a call returned is not under the call, sync")
def context_after_invoke(trial: Trial) -> Verdict:
    """Covers invoke, stream, tools and chat models."""
    with trial.span("OUTER"):
        _chain().invoke(1, trial.config())
        list(ChatModel().stream("x", trial.config()))
        with trial.span("AFTER"):
            pass
    return _parent_after(trial)


@probe("A span opened after an async call returned is not under the call")
def context_after_ainvoke(trial: Trial) -> Verdict:
    """The next request of a server must not become a child of the last."""

    async def main() -> None:
        with trial.span("OUTER"):
            await _chain().ainvoke(1, trial.config())
            with trial.span("AFTER"):
                pass

    asyncio.run(main())
    return _parent_after(trial)


@probe("A span opened after an async stream ended is not under the stream")
def context_after_astream(trial: Trial) -> Verdict:
    """Read to its end."""

    async def main() -> None:
        with trial.span("OUTER"):
            async for _ in (_chain() | ChatModel()).astream("x", trial.config()):
                pass
            with trial.span("AFTER"):
                pass

    asyncio.run(main())
    return _parent_after(trial)


@probe("Calls one after the other in one task are siblings")
def context_calls_in_a_row(trial: Trial) -> Verdict:
    """Three calls under one span of the application: one trace, no call under another."""

    async def main() -> None:
        with trial.span("OUTER"):
            for _ in range(3):
                await _chain().ainvoke(1, trial.config())

    asyncio.run(main())
    outer = trial.log.application("OUTER")
    started = trial.log.started()
    traces = {trace_id(span) for span in started}
    below = [span for span in started if trial.log.parent_name(span) == "OUTER"]
    good = traces == {trace_id(outer)} and len(below) >= 3
    return judge(good, f"{len(traces)} traces, {len(below)} calls directly under OUTER")


@probe("A remote parent from an incoming header is kept")
def context_remote_parent(trial: Trial) -> Verdict:
    """As in a web framework whose own span is not recorded here."""
    token = context.attach(propagate.extract({"traceparent": _REMOTE}))
    try:
        _chain().invoke(1, trial.config())
    finally:
        context.detach(token)
    roots = [s for s in trial.log.started() if trial.log.parent_name(s).startswith("a span out")]
    _, wanted_trace, wanted_span, _ = _REMOTE.split("-")
    good = len(roots) == 1 and roots[0].parent is not None
    good = good and f"{roots[0].parent.span_id:016x}" == wanted_span  # type: ignore[union-attr]
    good = good and {f"{trace_id(s):032x}" for s in trial.log.started()} == {wanted_trace}
    return judge(good, f"{len(roots)} spans under the remote parent")


@probe("A runnable in a thread that was handed the context is a child of its step")
def context_thread_with_context(trial: Trial) -> Verdict:
    """``executor.submit(contextvars.copy_context().run, inner.invoke, x)``."""
    inner = RunnableLambda(lambda value: value, name="inner")

    def step(value: int) -> int:
        with ThreadPoolExecutor(1) as pool:
            return int(pool.submit(contextvars.copy_context().run, inner.invoke, value).result())

    RunnableLambda(step, name="step").invoke(1, trial.config())
    return _one_trace(trial)


@probe("A runnable in a thread without any context still gives a whole trace")
def context_thread_without_context(trial: Trial) -> Verdict:
    """Python hands nothing to the thread, so the trace is a new one; nothing is lost."""
    inner = RunnableLambda(lambda value: value, name="inner") | RunnableLambda(lambda v: v)
    config = trial.config()

    def step(value: int) -> int:
        with ThreadPoolExecutor(1) as pool:
            return int(pool.submit(inner.invoke, value, config).result())

    RunnableLambda(step, name="step").invoke(1, config)
    started = trial.log.started()
    traces = {trace_id(span) for span in started}
    roots = [span for span in started if span.parent is None]
    good = not trial.log.unfinished() and len(roots) == len(traces) > 0
    return judge(good, f"{trial.log.count()}, {len(traces)} traces, {len(roots)} roots")


@probe("A tracer suppresses nothing of other instrumentations")
def context_suppresses_nothing(trial: Trial) -> Verdict:
    """A suppress key left in the context silences the spans of HTTP and model clients."""
    seen: list[str] = []

    def inside() -> None:
        seen.extend(key for key in (*_SUPPRESS, _SUPPRESS_MODELS) if context.get_value(key))

    model = ChatModel(inside=inside)
    (_chain() | model).invoke("x", trial.config())
    list(model.stream("x", trial.config()))
    inside()
    return judge(not seen, f"set: {', '.join(sorted(set(seen)))}" if seen else "none set")


@probe("Instrumentation that the application suppressed records nothing")
def context_suppression_honoured(trial: Trial) -> Verdict:
    """What ``opentelemetry.instrumentation.utils.suppress_instrumentation()`` sets."""
    suppressing = context.get_current()
    for key in _SUPPRESS:
        suppressing = context.set_value(key, True, suppressing)
    token = context.attach(suppressing)
    try:
        _chain().invoke(1, trial.config())
    finally:
        context.detach(token)
    # A suppressing tracer may create spans that do not record; those never reach a processor.
    suppressed = len(trial.log.started())
    _chain().invoke(1, trial.config())
    return judge(not suppressed, f"{suppressed} spans")


@probe("The ambient span inside a call is the application's or the tracer's own, never a dead one")
def context_no_dead_span(trial: Trial) -> Verdict:
    """Between two steps of one chain the span of the first has ended."""
    ambient: list[trace.Span] = []

    async def step(value: int) -> int:
        ambient.append(trace.get_current_span())
        return value

    async def main() -> None:
        with trial.span("OUTER"):
            for _ in range(2):
                await (RunnableLambda(step) | RunnableLambda(step)).ainvoke(1, trial.config())
                ambient.append(trace.get_current_span())

    asyncio.run(main())
    # Read in the steps and after the calls; a span that had ended then does not record now
    # either, but the application's own span is open until the end.
    outer = trial.log.application("OUTER").get_span_context()
    after = [ambient[2], ambient[5]]
    good = all(span.get_span_context() == outer for span in after)
    return judge(good, "OUTER after every call" if good else "another span than OUTER after a call")


def _one_trace(trial: Trial) -> Verdict:
    started = trial.log.started()
    roots = [span for span in started if span.parent is None]
    good = len(roots) == 1 and not trial.log.unfinished()
    return judge(good, f"{trial.log.count()}, {len(roots)} traces")
