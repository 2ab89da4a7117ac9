"""Every run has its span, in its place, under its own kind."""
# ruff: noqa: ARG001 - fakes keep the signatures of what they stand for

import asyncio
import threading
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel

from otelchain.conformance.applications import ChatModel, UnnamedChatModel
from otelchain.conformance.dialects import says_agent
from otelchain.conformance.probe import probe
from otelchain.conformance.spans import span_id, texts
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge


@probe("A plain completion model has a span")
def runs_plain_llm(trial: Trial) -> Verdict:
    """Not every model is a chat model."""
    FakeListLLM(responses=["a"]).invoke("x", trial.config())
    return trial.all_ended(spans=1)


@probe("A chat model that does not say its name has a span")
def runs_unnamed_model(trial: Trial) -> Verdict:
    """Home-made models have no ``ls_model_name``."""
    UnnamedChatModel().invoke("x", trial.config())
    return trial.all_ended(spans=1)


@probe("Every step of a chain has a span")
def runs_every_step(trial: Trial) -> Verdict:
    """The chain, its prompt, its model and its parser."""
    chain = ChatPromptTemplate.from_template("{q}") | ChatModel() | StrOutputParser()
    chain.invoke({"q": "x"}, trial.config())
    return trial.all_ended(spans=4)


@probe("Async runs form one tree")
def runs_async_tree(trial: Trial) -> Verdict:
    """Prompt, model and parser under the chain, whatever context the hooks ran in."""
    chain = ChatPromptTemplate.from_template("{q}") | ChatModel() | StrOutputParser()
    asyncio.run(chain.ainvoke({"q": "x"}, trial.config()))
    started = trial.log.started()
    roots = [span for span in started if span.parent is None]
    ids = {span_id(root) for root in roots}
    below = [span for span in started if span.parent and span.parent.span_id in ids]
    good = len(roots) == 1 and len(below) == len(started) - 1
    return judge(good, f"{len(roots)} roots, {len(below)} of {len(started)} directly below")


@probe("Parallel branches are children of their own parallel run, in 16 threads at once")
def runs_parallel_parents(trial: Trial) -> Verdict:
    """No "last span" that another thread has moved."""
    branches: Any = {f"b{n}": RunnableLambda(lambda v: v, name=f"b{n}") for n in range(8)}
    chain = RunnableParallel(branches)

    def work() -> None:
        chain.invoke(1, trial.config())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    started = trial.log.started()
    roots = [span_id(span) for span in started if span.parent is None]
    sizes = [sum(1 for s in started if s.parent and s.parent.span_id == root) for root in roots]
    good = len(roots) == 16 and len(set(sizes)) == 1 and sum(sizes) + 16 == len(started)
    return judge(good, f"{len(roots)} roots with {sorted(set(sizes))} children")


class _Other(BaseCallbackHandler):
    def __init__(self, *, inline: bool) -> None:
        self.run_inline = inline


@probe("An async completion model has its span beside inline and other handlers")
def runs_mixed_handlers(trial: Trial) -> Verdict:
    """langchain-core then tells only the inline handlers of the start."""
    others = [_Other(inline=True), _Other(inline=False)]
    model = FakeListLLM(responses=["a"])
    asyncio.run(model.ainvoke("x", trial.config(callbacks=others)))
    return trial.all_ended(spans=1)


@probe("A chain named like an agent is not recorded as an agent")
def runs_kind_not_guessed(trial: Trial) -> Verdict:
    """The kind is what LangChain reports, not what a name suggests."""
    config: Any = trial.config(run_name="agent_helper")
    RunnableLambda(lambda value: value).invoke(1, config)
    agents = [span.name for span in trial.log.ended() if says_agent(span)]
    return judge(not agents, f"agents: {', '.join(agents) or 'none'}")


@probe("The alternatives of a runnable with fallbacks are under the run that tries them")
def runs_fallback_parents(trial: Trial) -> Verdict:
    """langchain-core reports them beside it; at the top each is then a trace of its own."""

    def fail(value: Any) -> Any:
        raise ConnectionError

    chain = RunnableLambda(fail).with_fallbacks([RunnableLambda(lambda v: v, name="second")])
    chain.invoke(1, trial.config())
    started = trial.log.started()
    roots = [span_id(span) for span in started if span.parent is None]
    below = [span for span in started if span.parent and [span.parent.span_id] == roots]
    good = len(roots) == 1 and len(below) == 2
    return judge(good, f"{len(roots)} roots, {len(below)} of {len(started)} directly below")


@probe("The run of a runnable with fallbacks says which alternative answered")
def runs_fallback_told(trial: Trial) -> Verdict:
    """An operator wants to know how often the second choice answers."""

    def fail(value: Any) -> Any:
        raise ConnectionError

    second = RunnableLambda(lambda v: v, name="second")
    config: Any = trial.config(run_name="careful")
    RunnableLambda(fail, name="first").with_fallbacks([second]).invoke(1, config)
    trial.settle()
    runs = [span for span in trial.log.ended() if "careful" in span.name]
    told = [place for run in runs for place, text in texts(run) if "second" in text]
    return judge(bool(told), f"in {', '.join(told)}" if told else "nowhere")
