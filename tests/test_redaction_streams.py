"""A secret that a stream cuts into pieces: no chunk alone is one, and what is recorded has none."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolCallChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from opentelemetry.sdk.trace import TracerProvider

from fakes import FakeModel, FinishedSpans
from otelchain import OtelCallbackHandler

KEY = "sk-" + "proj-" + "Qz7Rx2Wv9Tn4Lm8Kp3Jh6Gf1Ds5Ba0"
CARD = "4111 1111 1111 1111"
SAID = f"the key is {KEY} and the card {CARD}, and that is all there is"
STEP = 3  # characters a chunk: neither the key nor the card is in one, nor any rule's minimum


def pieces(text: str) -> list[str]:
    return [text[at : at + STEP] for at in range(0, len(text), STEP)]


class Chunked(FakeModel):
    """Says `SAID` in chunks; may call a tool with it, or break off behind it."""

    calls_tool: bool = False
    breaks: bool = False

    def _stream(self, *args: Any, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
        said = json.dumps({"q": SAID}) if self.calls_tool else SAID
        for number, piece in enumerate(pieces(said)):
            message = AIMessageChunk(piece)
            if self.calls_tool:
                first = ("lookup", "call_1") if number == 0 else (None, None)
                call = ToolCallChunk(name=first[0], id=first[1], args=piece, index=0)
                message = AIMessageChunk("", tool_call_chunks=[call])
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        if self.breaks:
            raise ConnectionError(f"reset after {SAID}")


def model(**kinds: bool) -> Any:
    return Chunked(messages=iter([AIMessage(SAID)] * 3), **kinds)


def chopped(_: Any) -> Iterator[str]:
    yield from pieces(SAID)


async def achopped(_: Any) -> AsyncIterator[str]:
    for piece in pieces(SAID):
        yield piece


def through(chunks: Iterator[str]) -> Iterator[str]:
    yield from chunks


async def athrough(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    async for chunk in chunks:
        yield chunk


def stream(runnable: Any, config: Any) -> None:
    list(runnable.stream("go", config))


def astream(runnable: Any, config: Any) -> None:
    async def run() -> None:
        async for _ in runnable.astream("go", config):
            pass

    asyncio.run(run())


def close_early(runnable: Any, config: Any) -> None:
    chunks = runnable.stream("go", config)
    for _ in range(len(pieces(SAID)) - 4):  # behind the secrets, before the end
        next(chunks)
    chunks.close()


def astream_events(runnable: Any, config: Any) -> None:
    async def run() -> None:
        async for _ in runnable.astream_events("go", config, version="v2"):
            pass

    asyncio.run(run())


def v3(runnable: Any, config: Any) -> None:
    list(runnable.stream_events("go", config, version="v3"))


def av3(runnable: Any, config: Any) -> None:
    async def run() -> None:
        async for _ in await runnable.astream_events("go", config, version="v3"):
            pass

    asyncio.run(run())


def invoke(runnable: Any, config: Any) -> None:
    runnable.invoke("go", config)


def batch(runnable: Any, config: Any) -> None:
    runnable.batch(["go", "go"], config)


READERS: dict[str, Callable[[Any, Any], None]] = {
    "stream": stream,
    "astream": astream,
    "stream closed early": close_early,
    "astream_events v2": astream_events,
    "batch": batch,
    "invoke": invoke,
}
UNFINISHED_CALL = ("tool call arguments", "stream closed early")  # its arguments are no JSON yet
STREAMS: dict[str, Callable[[], Any]] = {
    "model": model,
    "model, chain": lambda: RunnableLambda(str) | model() | StrOutputParser(),
    "tool call arguments": lambda: model(calls_tool=True),
    "generator": lambda: RunnableGenerator(chopped, achopped),
    "generators": lambda: (
        RunnableGenerator(chopped, achopped) | RunnableGenerator(through, athrough)
    ),
}


def everything(finished_spans: FinishedSpans) -> str:
    """All text of all spans."""
    spans = [span.to_json() for span in finished_spans.all()]
    assert spans
    return "".join(spans)


def leaks(text: str) -> list[str]:
    """Parts of the key's body and of the card that are longer than a chunk."""
    parts = [KEY[at : at + 8] for at in range(8, len(KEY) - 8)] + [CARD[:9], CARD[5:14]]
    return [part for part in parts if part in text]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", STREAMS)
def test_a_secret_in_the_chunks_of_a_stream_is_not_recorded(
    kind: str, reader: str, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    READERS[reader](STREAMS[kind](), {"callbacks": [handler]})

    text = everything(finished_spans)
    assert leaks(text) == []
    assert "REDACTED:openai_key" in text or (kind, reader) == UNFINISHED_CALL


@pytest.mark.filterwarnings("ignore:.*is in beta")
@pytest.mark.parametrize("reader", [v3, av3])
@pytest.mark.parametrize("kind", ["model", "tool call arguments"])
def test_a_secret_in_the_events_of_a_v3_stream_is_not_recorded(
    kind: str, reader: Any, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    reader(STREAMS[kind](), {"callbacks": [handler]})

    text = everything(finished_spans)
    assert leaks(text) == []
    assert "REDACTED:openai_key" in text


@pytest.mark.parametrize("reader", [stream, astream])
def test_a_secret_in_what_a_broken_stream_had_said_is_not_recorded(
    reader: Any, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    with pytest.raises(ConnectionError):
        reader(model(breaks=True), {"callbacks": [handler]})

    text = everything(finished_spans)
    assert leaks(text) == []
    assert "REDACTED:openai_key" in text


def test_the_search_finds_a_streamed_secret_that_is_there(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    """The tests above can fail: without redaction the whole key is recorded."""
    from otelchain import Redactor

    handler = OtelCallbackHandler(tracer_provider, redactor=Redactor(detectors=[]))
    stream(model(), {"callbacks": [handler]})

    assert len(leaks(everything(finished_spans))) > 20
