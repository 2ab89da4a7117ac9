"""A text is redacted before it is cut: half of an address or a key no longer looks like one."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult

from otelchain import OtelCallbackHandler, Redactor, graph_facts, interrupt_links, rubric_facts
from otelchain.content import Attributes, ContentGate
from otelchain.fallback_facts import fallback_facts
from otelchain.payloads import answer, documents, event, query, ranking, template, tool_call
from otelchain.run_facts import RunStart, start_attributes

MAIL = "dana.reyes@example.com"
# Places where texts were cut, or are: 200 and 256 characters, 1,000, 1,024, 4,096, 131,072 bytes.
LIMITS = (200, 256, 1_000, 1_024, 4_096, 8_192, 12_288, 131_072)


class _Odd:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _start(run_type: str = "chain", **given: Any) -> Callable[[ContentGate], Attributes]:
    start = RunStart(uuid4(), None, run_type, given.pop("name", "ask"), **given)
    return lambda gate: start_attributes(start, gate)


def _metadata(key: str, text: Any, run_type: str = "chain") -> Callable[[ContentGate], Attributes]:
    node = {"langgraph_node": "n"} if key.startswith("langgraph") else {}
    return _start(run_type, metadata={**node, key: text})


def _answered(text: str) -> LLMResult:
    message = AIMessage(
        "x", id=text, response_metadata={"finish_reason": text, "model_name": text, "id": text}
    )
    return LLMResult(
        generations=[ChatResult(generations=[ChatGeneration(message=message)]).generations]
    )


def _interrupt(text: str) -> Any:
    return SimpleNamespace(status=text, checkpoint_id=text, checkpoint_ns=(text,))


class _Fallbacks:
    def __init__(self, text: str) -> None:
        self.runnables = [SimpleNamespace(get_name=lambda: text)]


def _graph(text: str) -> Any:
    builder = SimpleNamespace(edges=[(text, "b")])
    return SimpleNamespace(nodes={text: 1}, builder=builder)


# Every place where a text of the application becomes a fact or a part of one.
PLACES: dict[str, Callable[[str], Callable[[ContentGate], Attributes]]] = {
    "run name": lambda text: _start(name=text),
    "tool name": lambda text: _start("tool", name=text),
    "tag": lambda text: _start(tags=[text]),
    "odd tag": lambda text: _start(tags=[_Odd(text)]),  # type: ignore[list-item]
    "tag of parts": lambda text: _start(tags=[{"a": text}]),  # type: ignore[list-item]
    **{
        f"metadata {key}": lambda text, key=key: _metadata(key, text)  # type: ignore[misc]
        for key in [
            "session_id",
            "conversation_id",
            "thread_id",
            "user_id",
            "lc_agent_name",
            "checkpoint_id",
            "langgraph_node",
            "langgraph_checkpoint_ns",
            "note",
        ]
    },
    **{
        f"object as {key}": lambda text, key=key: _metadata(key, _Odd(text))  # type: ignore[misc]
        for key in ["session_id", "thread_id", "user_id", "checkpoint_id", "langgraph_node"]
    },
    "list as user": lambda text: _metadata("user_id", ["a", text]),
    "node path": lambda text: _metadata("langgraph_path", ("__pregel_pull", text)),
    "triggers": lambda text: _metadata("langgraph_triggers", [text]),
    **{
        f"prompt {key}": lambda text, key=key: _start(  # type: ignore[misc]
            "prompt", metadata={"prompt_name": "x", key: text}
        )
        for key in ("prompt_name", "prompt_version", "lc_hub_commit_hash")
    },
    "hub prompt": lambda text: _metadata("lc_hub_repo", text, "prompt"),
    **{
        f"model {key}": lambda text, key=key: _metadata(key, text, "chat_model")  # type: ignore[misc]
        for key in ("ls_model_name", "ls_provider")
    },
    **{
        f"parameter {key}": lambda text, key=key: _start(  # type: ignore[misc]
            "chat_model", parameters={key: text}
        )
        for key in ("model", "reasoning_effort", "base_url")
    },
    "data source": lambda text: _metadata("data_source_id", text, "retriever"),
    "search type": lambda text: _metadata("search_type", text, "retriever"),
    "answer": lambda text: lambda gate: answer(gate, _answered(text)),
    "document id": lambda text: lambda gate: documents(gate, [Document("t", id=text)]),
    "document key": lambda text: lambda gate: documents(gate, [{"id": text, "metadata": {}}]),
    "reranked id": lambda text: lambda gate: ranking(gate, "q", [Document("t", id=text)]),
    "query": lambda text: lambda gate: query(gate, text),
    "call id": lambda text: lambda gate: tool_call(gate, {}, text, {"description": text}),
    "template": lambda text: (
        lambda gate: template(gate, {"id": ["PromptTemplate"], "kwargs": {"template": text}})
    ),
    "event": lambda text: lambda gate: event(gate, {"a": _Odd(text)}),
    "event name": lambda text: lambda gate: {"name": gate.fact("event.name", text)},
    "graph": lambda text: lambda gate: graph_facts.shape(gate, _graph(text)),
    "fallback": lambda text: (
        lambda gate: gate.facts(fallback_facts(_Fallbacks(text), 1, answered=True))
    ),
    "interrupt": lambda text: (
        lambda gate: gate.facts(interrupt_links.interrupt_facts(_interrupt(text)))
    ),
    "resume": lambda text: lambda gate: gate.facts(interrupt_links.resume_facts(_interrupt(text))),
    "rubric": lambda text: (
        lambda gate: rubric_facts.rubric_attributes(
            gate, {"_rubric_evaluations": [{"result": text, "grading_run_id": text}]}
        )
    ),
    "text": lambda text: lambda gate: gate.text("exception.message", text),
    "content": lambda text: lambda gate: gate.json("otelchain.input", {"a": [text]}),
}


def _spellings() -> Iterator[str]:
    """Put the address across each limit, counted in characters and in bytes."""
    for limit in LIMITS:
        for filler in ("p/", "é "):
            size = len(filler.encode())
            for unit in (1, size):
                for inside in (6, 11):  # of the address: "dana.r", "dana.reyes@"
                    yield filler * ((limit - inside) // (2 if unit == 1 else size)) + MAIL


@pytest.mark.parametrize("capture", [True, False], ids=["content", "no content"])
@pytest.mark.parametrize("place", PLACES)
def test_no_half_of_an_address_is_left_where_a_text_is_cut(place: str, capture: bool) -> None:
    gate = ContentGate(Redactor(), capture=capture, max_value_bytes=131_072)
    for text in _spellings():
        found = repr(PLACES[place](text)(gate))
        assert "dana" not in found, (place, len(text), found[-400:])


@pytest.mark.parametrize("place", PLACES)
def test_each_place_records_its_text(place: str) -> None:
    """The test above can fail: a mark that no rule finds comes through in every place."""
    gate = ContentGate(Redactor(), capture=True, max_value_bytes=131_072)
    assert "mark" in repr(PLACES[place]("Mark")(gate)).lower()


def test_a_long_name_is_cut_and_says_so(handler: OtelCallbackHandler, finished_spans: Any) -> None:
    run_id = uuid4()
    handler.on_chain_start({}, {}, run_id=run_id, name="n" * 10_000, metadata={"user_id": "ü" * 9})
    handler.on_chain_end({}, run_id=run_id)

    (span,) = finished_spans.all()
    assert span.attributes["user.id"] == "ü" * 9
    assert "[cut: 10000 bytes, sha256 " in span.name
    assert len(span.name.encode()) < 4_300
