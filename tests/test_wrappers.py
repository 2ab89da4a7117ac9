"""Embeddings and rerankers as runs: under the right parent, redacted, and never in the way."""

import asyncio
import copy
import json
import logging
from collections.abc import Sequence
from contextvars import copy_context
from hashlib import sha256
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanKind

from fakes import FakeModel, FinishedSpans
from otelchain import OtelCallbackHandler, traced_embeddings, traced_reranker
from otelchain.errors import ConfigurationError
from otelchain.wrappers import _provider


class LetterEmbeddings(Embeddings):
    """Three numbers for any text."""

    model = "letters-1"
    encoding_format = "float"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.current_spans: list[Any] = []

    def embed_documents(self, texts: list[str], chunk_size: int = 0) -> list[list[float]]:
        self.current_spans.append(trace.get_current_span())
        if self.error:
            raise self.error
        return [[float(len(text)), 1.0, float(chunk_size)] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


class LongestFirst(BaseDocumentCompressor):
    """Ranks by length, and asks a model when it has one, as LLM rerankers do."""

    model: str = "longest-1"
    top_n: int = 2
    chat: Any = None
    error: Any = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        if self.error:
            raise self.error
        if self.chat:
            self.chat.invoke(query, {"callbacks": callbacks})
        ranked = sorted(documents, key=lambda d: -len(d.page_content))[: self.top_n]
        return [
            Document(d.page_content, id=d.id, metadata={"relevance_score": 1.0 / rank})
            for rank, d in enumerate(ranked, 1)
        ]


class Reranking(BaseRetriever):
    """What langchain's ContextualCompressionRetriever does."""

    base: Any
    compressor: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.base.invoke(query, {"callbacks": run_manager.get_child()})
        callbacks = run_manager.get_child()
        return list(self.compressor.compress_documents(found, query, callbacks=callbacks))

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        found = await self.base.ainvoke(query, {"callbacks": run_manager.get_child()})
        callbacks = run_manager.get_child()
        return list(await self.compressor.acompress_documents(found, query, callbacks=callbacks))


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parents(spans: FinishedSpans) -> dict[str, str | None]:
    """Run name → the run name of the parent span."""
    names = {s.context.span_id: FinishedSpans.run_name(s) for s in spans.all() if s.context}
    return {
        FinishedSpans.run_name(s): names.get(s.parent.span_id) if s.parent else None
        for s in spans.all()
    }


# --- embeddings --------------------------------------------------------------------------------


def test_an_embedding_call_is_a_run_with_the_facts_of_the_conventions(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    vectors = traced_embeddings(LetterEmbeddings(), handler).embed_documents(["ab", "c"])

    assert vectors == [[2.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    span = finished_spans()["LetterEmbeddings"]
    assert (span.name, span.kind) == ("embeddings letters-1", SpanKind.CLIENT)
    assert {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "letters-1",
        "gen_ai.request.encoding_formats": ("float",),
        "gen_ai.embeddings.dimension.count": 3,
        "otelchain.embeddings.input_count": 2,
        "otelchain.input": '["ab","c"]',
        "otelchain.run.type": "embedding",
        "otelchain.run.status": "ok",
    }.items() <= facts(span).items()
    assert not any("vector" in name or "output" in name for name in facts(span))


def test_all_four_ways_to_embed_give_one_run_each(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    embeddings = traced_embeddings(LetterEmbeddings(), handler)

    async def application() -> Any:
        return await embeddings.aembed_query("a"), await embeddings.aembed_documents(["b", "c"])

    embeddings.embed_query("a")
    embeddings.embed_documents(["b", "c"])
    assert asyncio.run(application()) == ([1.0, 1.0, 0.0], [[1.0, 1.0, 0.0]] * 2)

    counts = [facts(s)["otelchain.embeddings.input_count"] for s in finished_spans.all()]
    assert counts == [1, 2, 1, 2]
    dimensions = {facts(s)["gen_ai.embeddings.dimension.count"] for s in finished_spans.all()}
    assert dimensions == {3}


def test_inside_a_step_the_handler_is_found_and_the_step_is_the_parent(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    embeddings = traced_embeddings(LetterEmbeddings())
    step = RunnableLambda(embeddings.embed_query).with_config(run_name="step")
    step.invoke("a", {"callbacks": [handler], "metadata": {"session_id": "s1"}})

    assert parents(finished_spans) == {"LetterEmbeddings": "step", "step": None}
    assert facts(finished_spans()["LetterEmbeddings"])["gen_ai.conversation.id"] == "s1"


def test_inside_an_async_step_and_in_a_tool_too(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    embeddings = traced_embeddings(LetterEmbeddings())

    async def step(text: str) -> Any:
        return await embeddings.aembed_query(text)

    @tool
    def lookup(q: str) -> int:
        """Look something up."""
        return len(embeddings.embed_query(q))

    asyncio.run(RunnableLambda(step).ainvoke("a", {"callbacks": [handler]}))
    lookup.invoke({"q": "a"}, {"callbacks": [handler]})

    found = [
        (FinishedSpans.run_name(span), span.parent is not None) for span in finished_spans.all()
    ]
    assert found == [
        ("LetterEmbeddings", True),
        ("step", False),
        ("LetterEmbeddings", True),
        ("lookup", False),
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_embedding_of_a_query_hangs_under_its_retriever(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, asynchronous: bool
) -> None:
    store = InMemoryVectorStore(traced_embeddings(LetterEmbeddings()))
    store.add_texts(["one", "three"])
    retriever = store.as_retriever(search_kwargs={"k": 1})
    chain = (RunnableLambda(str) | retriever).with_config(run_name="ask")

    config: Any = {"callbacks": [handler]}
    if asynchronous:
        asyncio.run(chain.ainvoke("q", config))
    else:
        chain.invoke("q", config)

    assert parents(finished_spans) == {
        "str": "ask",
        "LetterEmbeddings": "VectorStoreRetriever",
        "VectorStoreRetriever": "ask",
        "ask": None,
    }


def test_a_retriever_at_the_top_is_the_parent_and_not_after_its_end(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    embeddings = traced_embeddings(LetterEmbeddings(), handler)
    store = InMemoryVectorStore(embeddings)

    store.as_retriever().invoke("q", {"callbacks": [handler]})
    embeddings.embed_query("afterwards")

    roots = [FinishedSpans.run_name(s) for s in finished_spans.all() if s.parent is None]
    assert roots == ["VectorStoreRetriever", "LetterEmbeddings"]
    assert len(finished_spans.all()) == 3


def test_retrievers_side_by_side_keep_their_own_embeddings(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    branches = {}
    for number in range(6):
        store = InMemoryVectorStore(traced_embeddings(LetterEmbeddings()))
        branches[str(number)] = store.as_retriever()

    asyncio.run(RunnableParallel(branches).ainvoke("q", {"callbacks": [handler]}))

    retrievers = [s for s in finished_spans.all() if "Retriever" in s.name]
    embedded = [s for s in finished_spans.all() if s.name.startswith("embeddings")]
    assert len(embedded) == 6
    assert {s.parent.span_id for s in embedded if s.parent} == {
        s.context.span_id for s in retrievers if s.context
    }


def test_the_embedding_run_is_the_current_span_while_it_lasts(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    inner = LetterEmbeddings()
    embeddings = traced_embeddings(inner, handler)

    async def application() -> None:
        await embeddings.aembed_query("a")
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(application())
    embeddings.embed_query("a")

    assert trace.get_current_span() is trace.INVALID_SPAN
    assert [span.get_span_context() for span in inner.current_spans] == [
        span.context for span in finished_spans.all()
    ]


def test_without_a_run_it_hangs_under_the_span_of_the_application(
    handler: OtelCallbackHandler, tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    with tracer_provider.get_tracer("app").start_as_current_span("request"):
        traced_embeddings(LetterEmbeddings(), handler).embed_query("a")

    assert parents(finished_spans)["LetterEmbeddings"] == "request"


def test_where_nothing_listens_nothing_is_recorded(finished_spans: FinishedSpans) -> None:
    embeddings = traced_embeddings(LetterEmbeddings())

    assert embeddings.embed_query("ab") == [2.0, 1.0, 0.0]
    assert RunnableLambda(embeddings.embed_query).invoke("ab") == [2.0, 1.0, 0.0]
    assert finished_spans.all() == []


def test_the_error_of_an_embedding_model_is_recorded_and_raised(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    embeddings = traced_embeddings(LetterEmbeddings(ConnectionError("no route")), handler)

    with pytest.raises(ConnectionError, match="no route"):
        embeddings.embed_query("a")

    span = finished_spans()["LetterEmbeddings"]
    assert facts(span)["otelchain.run.status"] == "error"
    assert facts(span)["error.type"] == "ConnectionError"


def test_a_cancelled_embedding_ends_as_cancelled(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Slow(LetterEmbeddings):
        async def aembed_query(self, text: str) -> list[float]:
            await asyncio.sleep(60)
            return []

    async def application() -> None:
        task = asyncio.create_task(traced_embeddings(Slow(), handler).aembed_query("a"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(application())
    assert finished_spans.statuses() == {"Slow": "cancelled"}


@pytest.mark.parametrize("closed_where_started", [True, False])
def test_a_thrown_away_coroutine_ends_its_run_without_a_word(
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    caplog: pytest.LogCaptureFixture,
    closed_where_started: bool,
) -> None:
    class Waiting(LetterEmbeddings):
        async def aembed_query(self, text: str) -> list[float]:
            await asyncio.sleep(0)
            return []

    coroutine: Any = traced_embeddings(Waiting(), handler).aembed_query("a")
    elsewhere = copy_context()
    (elsewhere if closed_where_started else copy_context()).run(coroutine.send, None)
    elsewhere.run(coroutine.close)

    assert elsewhere.run(trace.get_current_span) is trace.INVALID_SPAN
    assert finished_spans.statuses() == {"Waiting": "abandoned"}
    assert caplog.records == []


def test_texts_are_redacted_and_with_content_off_not_there(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    secret = "mail ann@example.com"
    traced_embeddings(LetterEmbeddings(), OtelCallbackHandler(tracer_provider)).embed_query(secret)
    bare = OtelCallbackHandler(tracer_provider, capture_content=False)
    traced_embeddings(LetterEmbeddings(), bare).embed_query("a plain text")

    redacted, nothing = map(facts, finished_spans.all())
    assert redacted["otelchain.input"] == '"mail [REDACTED:email]"'
    assert "otelchain.input" not in nothing
    assert nothing["otelchain.embeddings.input_count"] == 1
    assert nothing["gen_ai.embeddings.dimension.count"] == 3


def test_the_wrapper_passes_for_the_model_it_wraps(handler: OtelCallbackHandler) -> None:
    inner = LetterEmbeddings()
    wrapped: Any = traced_embeddings(inner, handler)

    assert isinstance(wrapped, LetterEmbeddings)
    assert isinstance(wrapped, Embeddings)
    assert wrapped.model == "letters-1"
    assert wrapped.embed_documents(["a"], chunk_size=7) == [[1.0, 1.0, 7.0]]
    assert copy.copy(wrapped).embed_query("a") == [1.0, 1.0, 0.0]
    # LangChain names the provider of a vector store's embeddings by the class.
    retriever = InMemoryVectorStore(wrapped).as_retriever()
    assert retriever._get_ls_params()["ls_embedding_provider"] == "LetterEmbeddings"


def test_a_wrapped_model_that_has_no_such_attribute_says_so(handler: OtelCallbackHandler) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        traced_embeddings(LetterEmbeddings(), handler).nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name", "provider"),
    [
        ("langchain_openai.embeddings.base", "OpenAIEmbeddings", "openai"),
        ("langchain_openai.embeddings.azure", "AzureOpenAIEmbeddings", "azure_openai"),
        ("langchain_google_genai", "GoogleGenerativeAIEmbeddings", "google_genai"),
        ("langchain_community.embeddings", "FakeEmbeddings", None),
        ("langchain_core.embeddings.fake", "FakeEmbeddings", None),
        ("mine", "Mine", None),
    ],
)
def test_the_provider_is_the_integrations_package(
    module: str, name: str, provider: str | None
) -> None:
    assert _provider(type(name, (), {"__module__": module})) == provider


def test_a_failure_of_ours_is_logged_and_the_vectors_come_back(
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("text of the user")

    monkeypatch.setattr("otelchain.payloads.vectors", broken)
    with caplog.at_level(logging.ERROR, "otelchain"):
        assert traced_embeddings(LetterEmbeddings(), handler).embed_query("a") == [1.0, 1.0, 0.0]

    assert finished_spans.statuses() == {"LetterEmbeddings": "ok"}
    assert "text of the user" not in caplog.text


# --- rerankers ---------------------------------------------------------------------------------


DOCUMENTS = [Document("a", id="d1"), Document("abc", id="d2"), Document("ab", id="d3")]


def test_a_reranker_call_says_what_went_in_and_what_came_out(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    ranked = traced_reranker(LongestFirst(), handler).compress_documents(DOCUMENTS, "which?")

    assert [document.id for document in ranked] == ["d2", "d3"]
    span = finished_spans()["LongestFirst"]
    assert span.kind is SpanKind.CLIENT
    found = facts(span)
    assert {
        "otelchain.run.type": "reranker",
        "otelchain.rerank.input_count": 3,
        "otelchain.rerank.top_n": 2,
        "otelchain.retrieval.document_count": 2,
        "gen_ai.request.model": "longest-1",
        "gen_ai.retrieval.query.text": "which?",
    }.items() <= found.items()
    assert json.loads(found["otelchain.rerank.input_documents"]) == [
        {"rank": rank, "id": d.id, "length_chars": len(d.page_content), "sha256": hashed(d)}
        for rank, d in enumerate(DOCUMENTS, 1)
    ]
    assert [
        (document["rank"], document["id"], document["score"], document["content"])
        for document in json.loads(found["gen_ai.retrieval.documents"])
    ] == [(1, "d2", 1.0, "abc"), (2, "d3", 0.5, "ab")]


def hashed(document: Document) -> str:
    return sha256(document.page_content.encode()).hexdigest()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_in_a_compressing_retriever_it_hangs_under_the_retriever_and_its_model_under_it(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, asynchronous: bool
) -> None:
    store = InMemoryVectorStore(traced_embeddings(LetterEmbeddings()))
    store.add_documents(DOCUMENTS)
    reranker = traced_reranker(LongestFirst(chat=FakeModel(messages=iter(["ok"]))))
    retriever = Reranking(base=store.as_retriever(), compressor=reranker)

    config: Any = {"callbacks": [handler]}
    if asynchronous:
        asyncio.run(retriever.ainvoke("q", config))
    else:
        retriever.invoke("q", config)

    assert parents(finished_spans) == {
        "LetterEmbeddings": "VectorStoreRetriever",
        "VectorStoreRetriever": "Reranking",
        "FakeModel": "LongestFirst",
        "LongestFirst": "Reranking",
        "Reranking": None,
    }


def test_another_handler_sees_the_runs_it_knows(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Other(BaseCallbackHandler):
        run_inline = True

        def __init__(self) -> None:
            self.seen: dict[Any, Any] = {}

        def on_retriever_start(
            self, *args: Any, run_id: Any, parent_run_id: Any, **kw: Any
        ) -> None:
            self.seen[run_id] = parent_run_id

        def on_chat_model_start(
            self, *args: Any, run_id: Any, parent_run_id: Any, **kw: Any
        ) -> None:
            self.seen[run_id] = parent_run_id

    other = Other()
    store = InMemoryVectorStore(LetterEmbeddings())
    reranker = traced_reranker(LongestFirst(chat=FakeModel(messages=iter(["ok"]))))
    Reranking(base=store.as_retriever(), compressor=reranker).invoke(
        "q", {"callbacks": [handler, other]}
    )

    assert {parent for parent in other.seen.values() if parent is not None} <= set(other.seen)


def test_the_error_of_a_reranker_is_recorded_and_raised(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    reranker = traced_reranker(LongestFirst(error=TimeoutError("slow")), handler)

    with pytest.raises(TimeoutError):
        asyncio.run(reranker.acompress_documents(DOCUMENTS, "which?"))

    assert finished_spans.statuses() == {"LongestFirst": "error"}


def test_with_content_off_a_reranker_keeps_ids_scores_and_hashes(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, capture_content=False)
    traced_reranker(LongestFirst(), handler).compress_documents(DOCUMENTS, "which?")

    found = facts(finished_spans()["LongestFirst"])
    assert "gen_ai.retrieval.query.text" not in found
    assert json.loads(found["gen_ai.retrieval.documents"])[0] == {
        "rank": 1,
        "id": "d2",
        "score": 1.0,
        "length_chars": 3,
        "sha256": hashed(DOCUMENTS[1]),
    }


@pytest.mark.parametrize(
    ("wrap", "given", "complaint"),
    [
        (
            traced_embeddings,
            42,
            "an embedding model, not int, which has no embed_documents and no embed_query",
        ),
        (traced_embeddings, None, "not NoneType"),
        (traced_embeddings, DeterministicFakeEmbedding, "not the class DeterministicFakeEmbedding"),
        (
            traced_reranker,
            42,
            "a document compressor, not int, which has no compress_documents",
        ),
        (traced_reranker, DeterministicFakeEmbedding(size=3), "has no compress_documents"),
    ],
)
def test_what_is_not_the_part_to_wrap_is_refused_by_name(
    wrap: Any, given: Any, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        wrap(given)
