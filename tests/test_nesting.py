"""Spans of other instrumentations inside LangChain steps: right parents, nothing left behind."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.language_models.fake import FakeListLLM, FakeStreamingListLLM
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.outputs import GenerationChunk
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from fakes import FakeModel, FakeRetriever, FinishedSpans, StreamingModel
from otelchain import OtelCallbackHandler, boundary, nest_spans, unnest_spans

async_context = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="asyncio cannot run a task in a given context before 3.11"
)


@pytest.fixture(autouse=True)
def _nested() -> Iterator[None]:
    assert nest_spans() is True
    yield
    unnest_spans()


@pytest.fixture(name="http_call")
def _http_call(tracer_provider: TracerProvider) -> Callable[..., None]:
    """Stand for an instrumented HTTP client: a span under whatever is current."""

    def call(name: str = "http") -> None:
        tracer_provider.get_tracer("http").start_span(name).end()

    return call


def parent_of(finished_spans: FinishedSpans, name: str) -> str | None:
    spans = finished_spans()
    parent = spans[name].parent
    ids = {span.context.span_id: other for other, span in spans.items() if span.context}
    return ids[parent.span_id] if parent else None


class CallingModel(FakeModel):
    call: Any

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self.call()
        return GenericFakeChatModel._generate(self, *args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return self._generate(*args, **kwargs)


class CallingStream(StreamingModel):
    call: Any

    def _stream(self, *args: Any, **kwargs: Any) -> Any:
        for number, chunk in enumerate(super()._stream(*args, **kwargs)):
            self.call(f"http {number}")
            yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> Any:
        for chunk in self._stream():
            await asyncio.sleep(0)
            yield chunk


class CallingLLM(FakeListLLM):
    call: Any

    def _call(self, *args: Any, **kwargs: Any) -> str:
        self.call()
        return super()._call(*args, **kwargs)

    async def _acall(self, *args: Any, **kwargs: Any) -> str:
        return self._call(*args, **kwargs)


class CallingPlainStream(FakeListLLM):
    call: Any

    def _stream(self, *args: Any, **kwargs: Any) -> Any:
        self.call()
        yield GenerationChunk(text="a")


class CallingRetriever(BaseRetriever):
    call: Any

    def _get_relevant_documents(self, *args: Any, **kwargs: Any) -> Any:
        self.call()
        return []

    async def _aget_relevant_documents(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return self._get_relevant_documents()


def calling_tool(call: Callable[..., None]) -> Any:
    @tool
    def lookup(q: str) -> str:
        """Look it up."""
        call()
        return q

    return lookup


def calling_async_tool(call: Callable[..., None]) -> Any:
    @tool
    async def lookup(q: str) -> str:
        """Look it up."""
        await asyncio.sleep(0)
        call()
        return q

    return lookup


STEPS: dict[str, Callable[[Callable[..., None]], tuple[Any, Any, str]]] = {
    "chain": lambda call: (RunnableLambda(lambda x: call() or x), 1, "RunnableLambda"),
    "chat model": lambda call: (CallingModel(messages=iter("ab"), call=call), "q", "CallingModel"),
    "plain llm": lambda call: (CallingLLM(responses=["a"], call=call), "q", "CallingLLM"),
    "retriever": lambda call: (CallingRetriever(call=call), "q", "CallingRetriever"),
    "tool": lambda call: (calling_tool(call), {"q": "x"}, "lookup"),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_span_inside_a_step_hangs_under_its_run(
    kind: str,
    http_call: Callable[..., None],
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
) -> None:
    step, value, name = STEPS[kind](http_call)
    chain = RunnableLambda(lambda x: x).with_config(run_name="before") | step
    chain.invoke(value, {"callbacks": [handler], "run_name": "chain"})

    assert parent_of(finished_spans, "http") == name
    assert parent_of(finished_spans, name) == "chain"


@async_context
@pytest.mark.parametrize("kind", [*STEPS, "async tool"])
def test_a_span_inside_an_async_step_hangs_under_its_run(
    kind: str,
    http_call: Callable[..., None],
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
) -> None:
    if kind == "async tool":
        step, value, name = calling_async_tool(http_call), {"q": "x"}, "lookup"
    else:
        step, value, name = STEPS[kind](http_call)

    async def application() -> None:
        chain = RunnableLambda(lambda x: x).with_config(run_name="before") | step
        await chain.ainvoke(value, {"callbacks": [handler], "run_name": "chain"})
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(application())
    assert parent_of(finished_spans, "http") == name
    assert parent_of(finished_spans, name) == "chain"


def test_spans_of_a_streaming_model_hang_under_it_and_those_of_its_reader_do_not(
    http_call: Callable[..., None],
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    tracer_provider: TracerProvider,
) -> None:
    model = CallingStream(messages=iter([]), call=http_call)
    with tracer_provider.get_tracer("app").start_as_current_span("request"):
        for number, _ in enumerate(model.stream("q", {"callbacks": [handler]})):
            http_call(f"reader {number}")

    assert parent_of(finished_spans, "http 0") == "CallingStream"
    assert parent_of(finished_spans, "http 3") == "CallingStream"
    assert parent_of(finished_spans, "reader 0") == "request"
    assert parent_of(finished_spans, "CallingStream") == "request"


def test_spans_of_an_async_streaming_model_hang_under_it(
    http_call: Callable[..., None], handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    async def application() -> None:
        model = CallingStream(messages=iter([]), call=http_call)
        async for _ in model.astream("q", {"callbacks": [handler]}):
            assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(application())
    assert parent_of(finished_spans, "http 0") == "CallingStream"
    assert parent_of(finished_spans, "http 3") == "CallingStream"


def test_spans_of_a_streaming_plain_llm_do_not_disturb_its_reader(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    llm = FakeStreamingListLLM(responses=["abc"])

    assert "".join(llm.stream("q", {"callbacks": [handler]})) == "abc"
    assert finished_spans.statuses() == {"FakeStreamingListLLM": "ok"}


def test_parallel_branches_and_batches_keep_their_own_spans(
    tracer_provider: TracerProvider, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def branch(name: str) -> Any:
        def step(value: Any) -> Any:
            tracer_provider.get_tracer("http").start_span(f"http {name}").end()
            return value

        return RunnableLambda(step).with_config(run_name=name)

    RunnableParallel({str(n): branch(f"b{n}") for n in range(8)}).invoke(
        1, {"callbacks": [handler]}
    )

    assert [parent_of(finished_spans, f"http b{n}") for n in range(8)] == [
        f"b{n}" for n in range(8)
    ]


def test_the_header_of_an_outgoing_call_names_the_step(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    from opentelemetry.propagate import inject

    headers: dict[str, str] = {}
    RunnableLambda(lambda x: inject(headers)).invoke(1, {"callbacks": [handler]})

    span = finished_spans()["RunnableLambda"]
    assert span.context
    assert headers["traceparent"].split("-")[2] == format(span.context.span_id, "016x")


def test_the_context_is_untouched_after_every_kind_of_call_and_nothing_is_logged(
    http_call: Callable[..., None],
    handler: OtelCallbackHandler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def abandon() -> None:
        stream = CallingStream(messages=iter([]), call=http_call).astream(
            "q", {"callbacks": [handler]}
        )
        async for _ in stream:
            break
        # Closed in another task than the one that started it.
        await asyncio.create_task(stream.aclose())

    for make in STEPS.values():
        step, value, _ = make(http_call)
        step.invoke(value, {"callbacks": [handler]})
        assert trace.get_current_span() is trace.INVALID_SPAN
    asyncio.run(abandon())
    assert caplog.records == []


class SlowModel(FakeModel):
    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(60)


class SlowRetriever(FakeRetriever):
    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
        await asyncio.sleep(60)


@pytest.mark.parametrize("make", [lambda: SlowModel(messages=iter("a")), SlowRetriever])
def test_a_timeout_inside_a_living_task_ends_the_run_at_once(
    make: Callable[[], Any], handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    async def application() -> dict[str, Any]:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(make().ainvoke("q", {"callbacks": [handler]}), 0.05)
        return finished_spans.statuses()

    assert set(asyncio.run(application()).values()) == {"cancelled"}
    assert handler.stats().open == 0


def test_ctrl_c_in_a_retriever_ends_its_run(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    with pytest.raises(KeyboardInterrupt):
        FakeRetriever(error=KeyboardInterrupt()).invoke("q", {"callbacks": [handler]})

    assert finished_spans.statuses() == {"FakeRetriever": "cancelled"}


def test_everything_is_put_back() -> None:
    def functions() -> list[Any]:
        return [getattr(boundary._home(path), name) for path, name, _ in boundary._BOUNDARIES]

    wrapped = functions()
    unnest_spans()
    original = functions()

    assert not any(hasattr(function, "__wrapped__") for function in original)
    assert [function.__wrapped__ for function in wrapped] == original


@pytest.mark.parametrize("fault", ["gone", "does nothing"])
def test_a_langchain_that_does_not_fit_is_left_alone_with_one_warning(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unnest_spans()
    path, name, _ = boundary._BOUNDARIES[0]
    entry = (path, "gone", boundary._BOUNDARIES[0][2])
    if fault == "does nothing":
        entry = (path, name, lambda original: original)
    monkeypatch.setattr(boundary, "_BOUNDARIES", (entry, *boundary._BOUNDARIES[1:]))

    with caplog.at_level(logging.WARNING, "otelchain"):
        assert nest_spans() is False

    (record,) = caplog.records
    assert "does not fit the installed langchain-core" in record.getMessage()
    assert boundary._originals == []


UNTRACED: dict[str, Callable[[Any], Any]] = {
    "stream": lambda call: lambda: list(CallingStream(messages=iter([]), call=call).stream("q")),
    "async stream": lambda call: (
        lambda: asyncio.run(drained(CallingStream(messages=iter([]), call=call).astream("q")))
    ),
    "plain stream": lambda call: (
        lambda: list(CallingPlainStream(responses=["a"], call=call).stream("q"))
    ),
    "model": lambda call: lambda: CallingModel(messages=iter(["a"]), call=call).invoke("q"),
    "plain model": lambda call: lambda: CallingLLM(responses=["a"], call=call).invoke("q"),
    "retriever": lambda call: lambda: CallingRetriever(call=call).invoke("q"),
    "async retriever": lambda call: lambda: asyncio.run(CallingRetriever(call=call).ainvoke("q")),
}


async def drained(stream: Any) -> None:
    async for _ in stream:
        pass


@pytest.mark.parametrize("kind", UNTRACED)
@pytest.mark.parametrize("inner", ["same kind", "chain"])
def test_an_untraced_step_does_not_take_a_traced_run_inside_for_its_own(
    http_call: Callable[..., None],
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    kind: str,
    inner: str,
) -> None:
    traced: dict[str, Any] = {
        "chain": RunnableLambda(lambda value: value),
        "same kind": FakeRetriever()
        if "retriever" in kind
        else FakeModel(messages=iter("abcdefgh")),
    }

    def call(*_: Any) -> None:
        traced[inner].invoke("x", {"callbacks": [handler]})
        http_call("http after it")

    UNTRACED[kind](call)()

    spans = finished_spans.all()
    assert len(spans) >= 2
    assert all(span.parent is None for span in spans)  # siblings: nothing around is traced


def test_runs_of_other_handlers_only_are_no_trouble(http_call: Callable[..., None]) -> None:
    step, value, _ = STEPS["chat model"](http_call)

    assert step.invoke(value).content == "a"
