"""Hooks that tracers forget, and events in shapes that they do not expect."""

import uuid
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tools import ToolException

from otelchain.conformance.applications import make_tool, model_result
from otelchain.conformance.dialects import says_error
from otelchain.conformance.probe import probe
from otelchain.conformance.spans import is_error
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge

_CORE = "langchain_core.callbacks.base"
_GRAPH = "langgraph.callbacks"


@probe("Every hook of the installed langchain-core is handled")
def hooks_all_handled(trial: Trial) -> Verdict:
    """Fails when langchain-core adds a hook that the tracer does not know."""
    kind = type(trial.hooks)
    make_tool().invoke({"q": "x"}, trial.config())
    names = [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]
    missing = [n for n in names if getattr(kind, n).__module__ in {_CORE, _GRAPH}]
    return judge(not missing, f"missing: {', '.join(missing)}" if missing else "all handled")


@probe("A chat model started with an empty list of messages has a span")
def hooks_empty_messages(trial: Trial) -> Verdict:
    """``messages=[[]]``, as langchain-core's fallback path sends it."""
    hooks: Any = trial.hooks
    run_id = uuid.uuid4()
    hooks.on_chat_model_start(
        {"name": "m"},
        [[]],
        run_id=run_id,
        metadata={"ls_provider": "openai", "ls_model_name": "fake-1"},
        invocation_params={"model": "fake-1"},
    )
    hooks.on_llm_end(model_result(), run_id=run_id)
    return trial.all_ended(spans=1)


@probe("An end or an error of a run that was never seen raises nothing")
def hooks_unknown_run(trial: Trial) -> Verdict:
    """LangChain would log each such exception; some applications turn them into failures."""
    hooks: Any = trial.hooks
    hooks.on_llm_end(model_result(), run_id=uuid.uuid4())
    hooks.on_chain_end({}, run_id=uuid.uuid4())
    hooks.on_tool_error(ValueError("x"), run_id=uuid.uuid4())
    hooks.on_retriever_end([], run_id=uuid.uuid4())
    make_tool().invoke({"q": "x"}, trial.config())
    return judge(True, "nothing raised")


@probe("A tool's error that was handed back as its result can be told from success")
def hooks_handled_tool_error(trial: Trial) -> Verdict:
    """``handle_tool_error=True``: LangChain reports a normal end."""

    def inside() -> None:
        raise ToolException("no such city")

    call = {"name": "look_up", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
    make_tool(inside, handle_tool_error=True).invoke(call, trial.config())
    trial.settle()
    told = [span for span in trial.log.ended() if is_error(span) or says_error(span)]
    return judge(len(told) == 1, "told apart" if told else "the span looks like a success")
