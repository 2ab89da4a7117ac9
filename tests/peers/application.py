"""The application that every peer traces: five runs from langchain-core and LangGraph alone.

Nothing in it is random but the ids, and its facts stand in `specification.py`. It is imported in
environments that have the peer and not otelchain.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

SLOW_SECONDS = 0.3
FIRST_TOKEN_SECONDS = 0.05


class Index(BaseRetriever):
    """Finds its documents, after it has raised its errors one by one."""

    documents: list[Document]
    errors: list[Any] = []  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.errors:
            raise self.errors.pop(0)
        return self.documents


class Model(GenericFakeChatModel):
    """Answers what it is given, and says who it is as real integrations do."""

    model_name: str = "fake-1"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": "fake-1", "ls_model_type": "chat"}


class StreamingModel(Model):
    """Streams two words after a while; the usage comes with the last chunk."""

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        run_manager = kwargs.get("run_manager")
        time.sleep(FIRST_TOKEN_SECONDS)
        for text in ("It is ", "Paris."):
            chunk = ChatGenerationChunk(message=AIMessageChunk(text))
            if run_manager:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk
        last = AIMessageChunk(
            "", usage_metadata=usage(100, 20, cached=60, written=10, reasoning=5), **_ANSWERED
        )
        yield ChatGenerationChunk(message=last)


def usage(sent: int, received: int, cached: int, written: int, reasoning: int) -> UsageMetadata:
    """As LangChain has it: cached tokens are part of the input, reasoning of the output."""
    return UsageMetadata(
        input_tokens=sent,
        output_tokens=received,
        total_tokens=sent + received,
        input_token_details=InputTokenDetails(cache_read=cached, cache_creation=written),
        output_token_details=OutputTokenDetails(reasoning=reasoning),
    )


_ANSWERED: Any = {"response_metadata": {"model_name": "fake-1-2026", "finish_reason": "stop"}}


@tool
def slow_lookup(q: str) -> str:
    """Take longer than the threshold."""
    time.sleep(SLOW_SECONDS)
    return "late"


@tool
def fast_lookup(q: str) -> str:
    """Take no time."""
    return "at once"


@tool
def strict_lookup(q: str) -> str:
    """Refuse, in a message for the model: a handled error."""
    raise ToolException("q must be a number")


strict_lookup.handle_tool_error = True


@tool
def broken_lookup(q: str) -> str:
    """Raise."""
    raise ValueError("no such table")


def rag(config: RunnableConfig) -> None:
    """A streamed RAG chain whose first retriever fails and is replaced by another."""
    first = Index(name="first_index", documents=[], errors=[TimeoutError("no answer")])
    found = [Document("Paris", id="d1"), Document("France", id="d2")]
    spare = Index(name="spare_index", documents=found)
    chain = (
        first.with_fallbacks([spare]).with_config(run_name="with_spare")
        | RunnableLambda(
            lambda found: {"context": found[0].page_content}, name="agent_retriever_tool"
        )
        | ChatPromptTemplate.from_template("Answer from {context}")
        | StreamingModel(messages=iter([]))
        | StrOutputParser()
    ).with_config(run_name="rag")
    assert "".join(chain.stream("which capital?", config)) == "It is Paris."


def lookup(config: RunnableConfig) -> None:
    """A retriever that finds nothing."""
    chain = Index(name="empty_index", documents=[]) | RunnableLambda(len, name="count")
    assert chain.with_config(run_name="lookup").invoke("anything?", config) == 0


def unsteady(config: RunnableConfig) -> None:
    """A retriever that fails once and is tried again."""
    found = [Document("found", id="d3")]
    index = Index(name="unsteady_index", documents=found, errors=[OSError("busy")])
    retried = index.with_retry(
        retry_if_exception_type=(OSError,), wait_exponential_jitter=False, stop_after_attempt=2
    ).with_config(run_name="with_retry")
    chain = retried | RunnableLambda(len, name="count")
    assert chain.with_config(run_name="unsteady").invoke("again?", config) == 1


def branches(config: RunnableConfig) -> None:
    """Two branches in a thread pool, one of which raises, and with it the whole."""
    both = RunnableParallel(
        broken=Index(name="broken_index", documents=[], errors=[ConnectionError("index is down")]),
        fine=Index(name="fine_index", documents=[Document("fine", id="d4")]),
    )
    with suppress(ConnectionError):
        both.with_config(run_name="branches").invoke("both?", config)


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def helpdesk(config: RunnableConfig) -> None:
    """An agent: a model plans, two nodes run in parallel, a model answers."""
    calls: Any = [
        {"name": name, "args": {"q": "42"}, "id": f"call-{name}", "type": "tool_call"}
        for name in ("slow_lookup", "fast_lookup", "strict_lookup")
    ]
    planning = Model(
        messages=iter(
            [
                AIMessage(
                    "", tool_calls=calls, usage_metadata=usage(200, 40, 120, 0, 10), **_ANSWERED
                )
            ]
        )
    ).with_config(run_name="planner")
    answering = Model(
        messages=iter([AIMessage("Done.", usage_metadata=usage(300, 60, 0, 0, 0), **_ANSWERED)])
    ).with_config(run_name="answerer")
    tools: dict[str, BaseTool] = {t.name: t for t in (slow_lookup, fast_lookup, strict_lookup)}

    def plan(state: State, config: RunnableConfig) -> Any:
        return {"messages": [planning.invoke(state["messages"], config)]}

    def act(state: State, config: RunnableConfig) -> Any:
        last = state["messages"][-1]
        assert isinstance(last, AIMessage)
        return {"messages": [tools[c["name"]].invoke(c, config) for c in last.tool_calls]}

    def guess(state: State, config: RunnableConfig) -> Any:
        with suppress(ValueError):
            broken_lookup.invoke({"q": "43"}, config)
        fast_lookup.invoke({"q": "44"}, config)
        return {}

    def answer(state: State, config: RunnableConfig) -> Any:
        return {"messages": [answering.invoke(state["messages"], config)]}

    graph = StateGraph(State)
    for node in (plan, act, guess, answer):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "act")
    graph.add_edge("plan", "guess")
    graph.add_edge(["act", "guess"], "answer")
    graph.add_edge("answer", END)
    # langchain's create_agent announces its agents this way.
    compiled = graph.compile(name="helpdesk").with_config(metadata={"lc_agent_name": "helpdesk"})
    result = compiled.invoke({"messages": [("human", "where is order 42?")]}, config)
    statuses = [m.status for m in result["messages"] if isinstance(m, ToolMessage)]
    assert statuses == ["success", "success", "error"]


PARTS = (rag, lookup, unsteady, branches, helpdesk)


def run(callbacks: list[BaseCallbackHandler]) -> None:
    """Run it once, with the names for session and user that peers document."""
    for part in PARTS:
        part(
            {
                "callbacks": callbacks,
                "tags": ["beta"],
                "metadata": {
                    "tenant": "t1",
                    "session_id": "chat-1",
                    "user_id": "user-1",
                    "langfuse_session_id": "chat-1",
                    "langfuse_user_id": "user-1",
                },
            }
        )
