"""A web application under a remote parent: runs hang under the server's span, and nothing stays."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fakes import FakeModel, FinishedSpans, StreamingModel
from otelchain import OtelCallbackHandler, nest_spans, unnest_spans

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx")
from starlette.applications import Starlette  # noqa: E402 - only where it is installed
from starlette.requests import Request  # noqa: E402
from starlette.responses import PlainTextResponse, StreamingResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402

CALLER_TRACE, CALLER_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"}


class _Traced:
    """What OpenTelemetry's ASGI instrumentation does: a SERVER span under the caller's header."""

    def __init__(self, app: Any, provider: TracerProvider) -> None:
        self._app, self._tracer = app, provider.get_tracer("asgi")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        carrier = {key.decode(): value.decode() for key, value in scope["headers"]}
        parent = TraceContextTextMapPropagator().extract(carrier)
        with self._tracer.start_as_current_span(
            scope["path"], parent, kind=trace.SpanKind.SERVER
        ) as span:
            await self._app(scope, receive, send)
            assert trace.get_current_span() is span


@pytest.fixture(name="nested", params=[False, True], ids=["plain", "nest_spans"])
def _nested(request: Any) -> Iterator[None]:
    if request.param:
        assert nest_spans()
    yield
    unnest_spans()


@pytest.fixture(name="app")
def _app(tracer_provider: TracerProvider, handler: OtelCallbackHandler) -> Any:
    config: Any = {"callbacks": [handler]}

    def chain() -> Any:
        return RunnableLambda(lambda q: q) | FakeModel(messages=iter(["answer"]))

    async def asked(request: Request) -> PlainTextResponse:
        before = context.get_current()
        answer = await chain().ainvoke(request.query_params["q"], config)
        assert context.get_current() == before
        return PlainTextResponse(answer.content)

    def asked_in_a_thread(request: Request) -> PlainTextResponse:  # of Starlette's thread pool
        before = context.get_current()
        answer = chain().invoke(request.query_params["q"], config)
        assert context.get_current() == before
        return PlainTextResponse(answer.content)

    async def streamed(request: Request) -> StreamingResponse:
        async def tokens() -> AsyncIterator[str]:
            async for chunk in StreamingModel(messages=iter([])).astream("q", config):
                yield str(chunk.content)

        return StreamingResponse(tokens())

    async def failed(request: Request) -> PlainTextResponse:
        with pytest.raises(ZeroDivisionError):
            await RunnableLambda(lambda q: 1 / 0).ainvoke("q", config)
        return PlainTextResponse("sorry")

    routes = [Route(f"/{each.__name__}", each) for each in (asked, asked_in_a_thread, streamed)]
    return _Traced(Starlette(routes=[*routes, Route("/failed", failed)]), tracer_provider)


@pytest.mark.usefixtures("nested")
@pytest.mark.parametrize("path", ["asked", "asked_in_a_thread", "streamed", "failed"])
def test_runs_of_requests_at_once_hang_under_the_span_of_their_request(
    path: str, app: Any, finished_spans: FinishedSpans, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            answers = await asyncio.gather(
                *(client.get(f"/{path}", params={"q": f"q{n}"}, headers=HEADERS) for n in range(8))
            )
        assert {answer.status_code for answer in answers} == {200}

    before = context.get_current()
    asyncio.run(ask())

    assert context.get_current() == before
    spans = finished_spans.all()
    servers = [span for span in spans if span.kind is trace.SpanKind.SERVER]
    runs = [span for span in spans if "otelchain.run.id" in span.attributes]
    roots = [span for span in runs if "otelchain.run.parent_id" not in span.attributes]
    assert {trace.format_trace_id(span.context.trace_id) for span in spans} == {CALLER_TRACE}
    assert {trace.format_span_id(span.parent.span_id) for span in servers} == {CALLER_SPAN}
    assert len(servers) == len(roots) == 8
    assert {span.parent.span_id for span in roots} == {span.context.span_id for span in servers}
    assert "detach" not in caplog.text
