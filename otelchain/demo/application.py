"""A support assistant as people build them: a retrieval chain, and an agent on LangGraph.

Nothing here knows otelchain. ``otelchain.demo.tour`` attaches the handler with ``with_config``.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Protocol, TypedDict

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnablePassthrough
from langchain_core.runnables.config import get_executor_for_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

from otelchain.demo import planted
from otelchain.demo.knowledge import forum, handbook, past_tickets
from otelchain.demo.models import ModelFor
from otelchain.demo.tools import check_stock, find_order, track_parcel

HANDBOOK_QUESTION = (
    "How long can I return an item, and when is the refund paid?"
    f" My number is {planted.CUSTOMER_PHONE}."
)
ORDER_QUESTION = (
    "The kettle of order 4711 arrived damaged, please send another one."
    f" I am {planted.CUSTOMER_EMAIL} and paid with card {planted.CUSTOMER_CARD}."
)
SYSTEM_PROMPT = (
    "You are the support assistant of a kitchen shop. Answer in one sentence."
    f" The order service takes the key {planted.ORDER_SERVICE_KEY}."
)


def handbook_chain(model_for: ModelFor) -> Runnable[str, str]:
    """Make the chain that answers from the handbook: retriever, prompt, chat model, parser."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", SYSTEM_PROMPT + "\n\nHandbook:\n{context}"), ("human", "{question}")]
    )
    read = {"context": handbook() | _as_text, "question": RunnablePassthrough()}
    chain: Runnable[str, str] = read | prompt | model_for("handbook") | StrOutputParser()
    return chain.with_config(run_name="handbook-answer")


class SupportState(TypedDict):
    """What the agent's nodes read and write."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]
    knowledge: list[Document]
    stock: int
    answer: str


class Node(Protocol):
    """A step of the agent as LangGraph calls it; ``config`` carries the callbacks."""

    def __call__(self, state: SupportState, config: RunnableConfig) -> dict[str, Any]:
        """Read the state; give what changes in it."""
        ...


def support_agent(model_for: ModelFor) -> Runnable[Any, Any]:
    """Make the agent: plan, then tools, search and stock side by side, then answer."""
    graph = StateGraph(SupportState)
    graph.add_node("plan", _plan(model_for("plan")))
    graph.add_node("tools", ToolNode([find_order, track_parcel]))
    graph.add_node("search", _search([handbook(), past_tickets(), forum()]))
    graph.add_node("stock", _stock())
    graph.add_node("answer", _answer(model_for("answer")))
    graph.add_edge(START, "plan")
    for branch in ("tools", "search", "stock"):
        graph.add_edge("plan", branch)
    graph.add_edge(["tools", "search", "stock"], "answer")
    graph.add_edge("answer", END)
    return graph.compile(name="support-agent")


def _plan(model: BaseChatModel) -> Node:
    with_tools = model.bind_tools([find_order, track_parcel])

    def plan(state: SupportState, config: RunnableConfig) -> dict[str, Any]:
        asked: list[AnyMessage] = [SystemMessage(SYSTEM_PROMPT), HumanMessage(state["question"])]
        return {"messages": [*asked, with_tools.invoke(asked, config)]}

    return plan


def _search(sources: Sequence[BaseRetriever]) -> Node:
    def search(state: SupportState, config: RunnableConfig) -> dict[str, Any]:
        """Ask every source at the same time and go on without those that are down."""
        with get_executor_for_config(config) as executor:
            asked = [executor.submit(each.invoke, state["question"], config) for each in sources]
        found: list[Document] = []
        for answer in asked:
            if not isinstance(answer.exception(), ConnectionError):
                found += answer.result()
        return {"knowledge": found}

    return search


def _stock() -> Node:
    read_stock = check_stock()

    def stock(state: SupportState, config: RunnableConfig) -> dict[str, Any]:
        return {"stock": read_stock.invoke("kettle", config)}

    return stock


def _answer(model: BaseChatModel) -> Node:
    def answer(state: SupportState, config: RunnableConfig) -> dict[str, Any]:
        facts = f"Handbook:\n{_as_text(state['knowledge'])}\n\nKettles in stock: {state['stock']}"
        reply = model.invoke([*state["messages"], HumanMessage(facts)], config)
        return {"messages": [reply], "answer": reply.text}

    return answer


def _as_text(documents: Sequence[Document]) -> str:
    return "\n".join(document.page_content for document in documents)
