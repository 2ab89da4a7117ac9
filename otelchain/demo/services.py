"""Six made-up services, each traced by another instrumentation, with the troubles of real ones."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from otelchain import attributes as names
from otelchain.demo.turns import RUN, SESSION, Stopped, Turn

# US dollars for a million tokens, in and out.
_PRICES: Final = {"gpt-4o": (2.5, 10.0), "gpt-4o-mini": (0.15, 0.6), "claude-sonnet-4": (3.0, 15.0)}
_PROVIDERS: Final = {"claude-sonnet-4": "anthropic"}
_LIMITS: Final = {"gpt-4o": "length", "gpt-4o-mini": "length", "claude-sonnet-4": "max_tokens"}
_TIMEOUT: Final = Stopped("TimeoutError", "no answer within 30 s")
_RATE_LIMIT: Final = Stopped("openai.RateLimitError", "429: too many requests")
_CONTENT_FILTER: Final = Stopped("openai.BadRequestError", "400: stopped by content_filter")
_DOWN: Final = Stopped("ConnectionError", "could not connect to the index")
_NO_SUCH_ORDER: Final = Stopped("ToolException", "there is no such order", "handled_error")
_LEFT: Final = Stopped(None, "the reader left", "abandoned")
_CANCELLED: Final = Stopped("CancelledError", "the user went away", "cancelled")
_KILLED: Final = Stopped(None, "", "pending")
_QUESTION: Final = Stopped(None, '"Refund 80 EUR?"', "interrupted")
_RECURSION: Final = Stopped(
    "GraphRecursionError", "Recursion limit of 25 reached without hitting a stop condition"
)


class Service(NamedTuple):
    """A service: who traces it, how many of a hundred sessions it has, and one turn of it."""

    name: str
    dialect: str
    percent: int
    turn: Callable[[Turn, bool], None]


def _model(
    turn: Turn,
    model: str,
    *,
    times: float = 1,
    name: str = "ChatModel",
    fails: Stopped | None = None,
    **facts: Any,
) -> None:
    """Call a model; few prompts are large, fewer still nearly fill the window."""
    if fails is None and turn.happens(0.4):
        fails = turn.choose.choice([_RATE_LIMIT, _TIMEOUT, _CONTENT_FILTER])
    asked = turn.text(900 if turn.happens(98) else 9_000)
    answer = turn.text(350)
    sent = len(asked) // 4 + turn.choose.randrange(200, 2_000)
    sent = turn.choose.randrange(105_000, 127_000) if turn.happens(0.15) else sent
    received = len(answer) // 4 + 1
    cut = turn.happens(0.5)
    if fails is None:
        dear = _PRICES[model]
        facts.update(
            input_tokens=sent,
            output_tokens=received,
            cost_usd=(sent * dear[0] + received * dear[1]) / 1e6,
            finish_reasons=[_LIMITS[model] if cut else "stop"],
            time_to_first_token_ms=round(turn.choose.lognormvariate(6, 0.5), 3),
            outputs=answer,
        )
        if turn.happens(40):
            facts["cache_read_tokens"] = sent // 2
    turn.did(
        name,
        "llm",
        times * (400 + 12 * received),
        fails,
        model=model,
        provider=_PROVIDERS.get(model, "openai"),
        inputs=asked,
        **facts,
    )


def _tool(turn: Turn, name: str, median_ms: float, fails: Stopped | None = None) -> None:
    order = turn.choose.randrange(40)
    turn.did(
        name,
        "tool",
        median_ms * (30 if turn.happens(0.5) else 1),
        fails,
        tool_call_id=f"call_{RUN}_{len(turn.steps)}",
        inputs=json.dumps({"order": order, "note": turn.text(40)} if order > 8 else {"order": 1}),
        outputs=None if fails else turn.text(250),
    )


def _retriever(turn: Turn, name: str, empty_percent: float, role: bool = False) -> None:
    query = turn.text(60)
    if role and turn.happens(5):
        query = f"As a store manager, {query}"
    count = 0 if turn.happens(empty_percent) else turn.choose.randrange(1, 6)
    documents = [
        {"id": f"{name}/{turn.choose.randrange(500)}", "content": turn.text(500)}
        for _ in range(count)
    ]
    turn.did(
        name,
        "retriever",
        120,
        _DOWN if turn.happens(0.7) else None,
        inputs=query,
        outputs=json.dumps(documents),
        document_count=count,
        metadata={"ls_retriever_name": name, "role": "store manager"},
    )


def _support(turn: Turn, new: bool) -> None:
    """Run a LangGraph agent that plans, searches and acts; it may wait for a human."""
    asked = {"inputs": turn.text(200), "outputs": turn.text(300), "agent_name": "support-agent"}
    with turn.run("support-agent", "agent", **asked) as graph:
        graph.attributes[names.LANGGRAPH_THREAD_ID] = SESSION
        graph.attributes[names.INPUT_KIND] = "dict"
        with turn.node("plan", 1):
            _model(turn, "gpt-4o", name="ChatOpenAI")
        with turn.node("search", 2), suppress(Stopped):
            for source in ("handbook", "past-tickets", "forum"):
                _retriever(turn, source, 4)
        step = _act(turn, new)
        if turn.happens(3):
            graph.attributes[names.INTERRUPT_CHECKPOINT_ID] = f"{RUN}-checkpoint"
            graph.attributes[names.INTERRUPT_VALUE] = _QUESTION.error
            graph.attributes[names.INTERRUPT_KIND] = "pending"
            with turn.node("approve", step):
                turn.wait(2)
                raise _QUESTION
        _answer(turn, step, new)


def _act(turn: Turn, new: bool) -> int:
    """Call tools until the model has enough; a few never stop."""
    rounds = 25 if turn.happens(0.8) else turn.choose.choice((1, 1, 1, 2, 2, 3, 5))
    for number in range(rounds):
        step = 3 + number
        if step == 25:
            raise _RECURSION
        attempts = 3 if turn.happens(1) else 1
        for attempt in range(1, attempts + 1):
            with suppress(Stopped), turn.node("tools", step, attempt):
                slow = 3 if new else 1
                _tool(turn, "find_order", 90, _NO_SUCH_ORDER if turn.happens(2) else None)
                _tool(turn, "track_parcel", 400 * slow, _TIMEOUT if attempt < attempts else None)
    return 3 + rounds


def _answer(turn: Turn, step: int, new: bool) -> None:
    for end, percent in ((_LEFT, 1.5), (_CANCELLED, 1.5), (_KILLED, 1), (_TIMEOUT, 1)):
        if turn.happens(percent):
            raise end
    with turn.node("answer", step):
        used = int(turn.happens(3))
        with turn.run("RunnableWithFallbacks") as choice:
            choice.attributes[names.FALLBACK_INDEX] = used
            choice.attributes[names.FALLBACK_NAME] = "ChatAnthropic" if used else "ChatOpenAI"
            if used:
                with suppress(Stopped):
                    _model(turn, "gpt-4o", name="ChatOpenAI", fails=_RATE_LIMIT)
            _model(turn, "claude-sonnet-4" if used else "gpt-4o", times=1.5 if new else 1)
        if turn.happens(5):
            _grade(turn)


def _grade(turn: Turn) -> None:
    passed = turn.choose.randrange(4)
    criteria = [{"name": f"criterion {n}", "passed": n < passed} for n in range(3)]
    verdict = "satisfied" if passed == 3 else "needs_revision"
    grade = turn.did("RubricMiddleware.after_agent", "chain", 900)
    grade.attributes = {
        names.RUBRIC_GRADING_RUN_ID: f"{RUN}-grading",
        names.RUBRIC_ITERATION: 0,
        names.RUBRIC_RESULT: verdict,
        names.RUBRIC_STATUS: verdict,
        names.RUBRIC_CRITERIA_TOTAL: 3,
        names.RUBRIC_CRITERIA_PASSED: passed,
        names.RUBRIC_CRITERIA: json.dumps(criteria),
    }


def _support_with_a_human(turn: Turn, new: bool) -> None:
    """Run the agent; two thirds of the questions are answered, in a trace of their own."""
    try:
        _support(turn, new)
    except Stopped as stopped:
        if stopped.status != "interrupted" or turn.happens(33):
            raise
        turn.wait(600_000)
        turn.another_trace()
        with turn.run("support-agent", "agent", agent_name="support-agent") as graph:
            graph.attributes = {
                names.LANGGRAPH_THREAD_ID: SESSION,
                names.INPUT_KIND: "Command",
                names.RESUME_CHECKPOINT_ID: f"{RUN}-checkpoint",
            }
            with turn.node("approve", 10):
                turn.wait(3)
            _answer(turn, 11, new)


def _handbook(turn: Turn, new: bool) -> None:
    """Run a retrieval chain whose prompt has a hole now and then."""
    with turn.run("handbook-answer", inputs=turn.text(120), outputs=turn.text(300)):
        with turn.run("RunnableParallel<context,question>"):
            _retriever(turn, "handbook", 12 if new else 3, role=True)
        hole = Stopped("KeyError", "Input to ChatPromptTemplate is missing variables {'tone'}")
        turn.did(
            "ChatPromptTemplate",
            "prompt",
            0.8,
            hole if turn.happens(2) else None,
            inputs=turn.text(150),
            outputs=turn.text(800),
        )
        if turn.happens(3):
            with suppress(Stopped):
                _model(turn, "gpt-4o-mini", fails=_TIMEOUT)
            _model(turn, "gpt-4o-mini", retry_attempt=2)
        else:
            _model(turn, "gpt-4o-mini")
        turn.did("StrOutputParser", "parser", 0.3, inputs=turn.text(300), outputs=turn.text(300))


def _research(turn: Turn, new: bool) -> None:
    """Loop with tools and no graph, sometimes for long."""
    asked = {"inputs": turn.text(250), "outputs": turn.text(2_000), "agent_name": "researcher"}
    with turn.run("AgentExecutor", "agent", **asked):
        for _ in range(9 if turn.happens(4) else turn.choose.randrange(2, 5)):
            _model(turn, "claude-sonnet-4", name="ChatAnthropic")
            _tool(turn, turn.choose.choice(("web_search", "web_search", "read_page")), 700)
        _model(turn, "claude-sonnet-4", name="ChatAnthropic", times=2)


def _billing(turn: Turn, new: bool) -> None:
    """Run an agent that the GenAI conventions describe."""
    asked = {"inputs": turn.text(150), "outputs": turn.text(250), "agent_name": "billing"}
    with turn.run("billing", "agent", **asked):
        _model(turn, "gpt-4o-mini")
        _tool(turn, "read_invoice", 150, _TIMEOUT if turn.happens(6 if new else 0.5) else None)
        _model(turn, "gpt-4o-mini")


def _onboarding(turn: Turn, new: bool) -> None:
    """Run a chain that LangSmith exports, under a parent that it never sends."""
    with turn.run("RunnableSequence", inputs=turn.text(200), outputs=turn.text(300)):
        _retriever(turn, "policies", 6)
        turn.did("ChatPromptTemplate", "prompt", 0.6, inputs=turn.text(200))
        _model(turn, "gpt-4o", name="ChatOpenAI")


def _operations(turn: Turn, new: bool) -> None:
    """Run a workflow that OpenLLMetry traces."""
    with turn.run("incident", inputs=turn.text(300), outputs=turn.text(500)):
        with turn.run("triage"):
            _model(turn, "gpt-4o", name="ChatOpenAI")
        with turn.run("act"), suppress(Stopped):
            _tool(turn, "read_logs", 900, _TIMEOUT if turn.happens(5) else None)
        _model(turn, "gpt-4o", name="ChatOpenAI")


SERVICES: Final = (
    Service("shop-support", "otelchain", 35, _support_with_a_human),
    Service("handbook", "otelchain", 20, _handbook),
    Service("research", "openinference", 15, _research),
    Service("billing", "gen_ai", 10, _billing),
    Service("onboarding", "langsmith", 10, _onboarding),
    Service("operations", "openllmetry", 10, _operations),
)
