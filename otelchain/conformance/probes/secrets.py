"""With every documented content switch off, nothing that was planted may be on a span."""
# ruff: noqa: ARG001 - fakes keep the signatures of what they stand for

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import StructuredTool

from otelchain.conformance.applications import ChatModel, Retriever, make_tool
from otelchain.conformance.probe import register
from otelchain.conformance.spans import texts
from otelchain.conformance.subject import Options
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge

PLACES = {
    "input": "a chain's input",
    "prompt": "a model's prompt",
    "system": "a system text",
    "variable": "a prompt's variable",
    "template": "a prompt's template",
    "output": "a model's answer",
    "tool-argument": "a tool's argument",
    "tool-result": "a tool's result",
    "tool-definition": "a tool's definition",
    "document": "a document",
    "query": "a query",
    "error-text": "an exception's text",
    "stack": "a stack trace",
    "metadata": "run metadata",
    "tag": "a tag",
    "stop-sequence": "a stop sequence",
    "custom-event": "a custom event",
}


def planted(place: str) -> str:
    """The mark for a place: no pattern of a secret, so only a switch that works keeps it off."""
    return f"planted{place.replace('-', '')}4711"


def use_every_place(trial: Trial) -> None:
    """Run an application that carries a mark everywhere."""
    config: Any = trial.config(metadata={"note": planted("metadata")}, tags=[planted("tag")])
    prompt = ChatPromptTemplate.from_messages(
        [
            ("system", f"{planted('system')} {planted('template')}"),
            ("human", f"{{question}} {{variable}} {planted('prompt')}"),
        ]
    )
    tool = {"name": "look_up", "description": planted("tool-definition"), "parameters": {}}
    model = ChatModel(answer=planted("output")).bind(
        stop=[planted("stop-sequence")], tools=[{"type": "function", "function": tool}]
    )
    question = {"question": planted("input"), "variable": planted("variable")}
    (RunnableLambda(_dispatch) | prompt | model).invoke(question, config)
    list(ChatModel(answer=planted("output")).stream(planted("prompt"), config))
    _tool_and_retriever(config)
    _fail(config)
    trial.settle()


def _tool_and_retriever(config: Any) -> None:
    def look_up(q: str) -> str:
        return planted("tool-result")

    described = planted("tool-definition")
    made = StructuredTool.from_function(look_up, name="look_up", description=described)
    made.invoke({"q": planted("tool-argument")}, config)
    Retriever(documents=[Document(planted("document"))]).invoke(planted("query"), config)


def _dispatch(value: Any) -> Any:
    dispatch_custom_event("progress", {"note": planted("custom-event")})
    return value


def _fail(config: Any) -> None:
    # A stack trace names the function: planted("stack"), written out.
    def plantedstack4711(*_: Any) -> None:
        raise ValueError(planted("error-text"))

    failing: list[tuple[Runnable[Any, Any], Any]] = [
        (RunnableLambda(plantedstack4711, name="fails"), 1),
        (make_tool(plantedstack4711), {"q": "x"}),
        (ChatModel(inside=plantedstack4711), "x"),
        (Retriever(inside=plantedstack4711), "x"),
    ]
    for part, given in failing:
        try:
            part.invoke(given, config)
        except ValueError:
            continue


def leaks(trial: Trial, mark: str) -> Verdict:
    """Say in which places of the spans a mark was found."""
    ended = [*trial.log.ended(), *trial.log.unfinished()]
    found = {place for span in ended for place, text in texts(span) if mark in text}
    if not ended:
        return judge(False, "no spans")
    return judge(not found, f"in {', '.join(sorted(found))}"[:200] if found else "nowhere")


def _looking_for(place: str) -> Callable[[Trial], Verdict]:
    def run(trial: Trial) -> Verdict:
        use_every_place(trial)
        return leaks(trial, planted(place))

    return run


for _place, _what in PLACES.items():
    register(
        f"secret-{_place}",
        f"With content off, {_what} is on no span",
        _looking_for(_place),
        options=Options(content=False),
    )
