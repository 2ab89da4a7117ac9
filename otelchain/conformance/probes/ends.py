"""Every run ends once: batches that fail half-way, runs reported twice, forks, exits, bounds."""

import asyncio
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda

from otelchain.conformance.applications import ChatModel, Retriever, make_tool, model_result
from otelchain.conformance.probe import probe
from otelchain.conformance.spans import span_id
from otelchain.conformance.subject import Options
from otelchain.conformance.trial import SETTLE_SECONDS, Trial
from otelchain.conformance.verdict import NotApplicableError, Verdict, judge

_THREADS, _CHAINS = 16, 60
_PATIENCE = 10  # times SETTLE_SECONDS
# More than any tracer needs open at once, few enough to be quick.
_NEVER_ENDED = 12_000


def _failing_second() -> Callable[[], None]:
    calls = iter((None, ValueError("second")))

    def inside() -> None:
        error = next(calls, None)
        if error:
            raise error

    return inside


@probe("The siblings of a failed item of generate() end too")
def ends_generate(trial: Trial) -> Verdict:
    """langchain-core reports the failed item only."""
    model = ChatModel(inside=_failing_second())
    messages = [[HumanMessage(text)] for text in ("one", "two", "three")]
    try:
        model.generate(messages, callbacks=trial.config().get("callbacks"))  # type: ignore[arg-type]
    except ValueError:
        return trial.all_ended(spans=3)
    return judge(False, "the error was swallowed")


@probe("A handler attached in two places gives one span for each run")
def ends_reported_twice(trial: Trial) -> Verdict:
    """``with_config(callbacks=[h])`` and ``invoke(config={"callbacks": [h]})``."""
    handler = trial.hooks
    step = RunnableLambda(lambda value: value, name="step").with_config(callbacks=[handler])
    step.invoke(1, {"callbacks": [handler]})
    return trial.all_ended(spans=1)


@probe(
    "Attached globally and by handler there is one span for each run",
    options=Options(both_ways=True),
)
def ends_global_and_handler(trial: Trial) -> Verdict:
    """The way in which traces are counted, and paid for, twice."""
    (RunnableLambda(lambda v: v) | RunnableLambda(lambda v: v)).invoke(1, trial.config())
    return trial.all_ended(spans=3)


@probe("Runs whose parent was never seen get their spans")
def ends_unknown_parent(trial: Trial) -> Verdict:
    """The parent was filtered, or started before the tracer was attached."""
    hooks: Any = trial.hooks
    for kind in ("llm", "tool"):
        run_id, parent = uuid.uuid4(), uuid.uuid4()
        if kind == "llm":
            message = HumanMessage("x")
            hooks.on_chat_model_start(
                {"name": "m"},
                [[message]],
                run_id=run_id,
                parent_run_id=parent,
                metadata={"ls_provider": "openai", "ls_model_name": "fake-1"},
                invocation_params={"model": "fake-1"},
            )
            hooks.on_llm_end(model_result(), run_id=run_id, parent_run_id=parent)
        else:
            hooks.on_tool_start({"name": "t"}, "x", run_id=run_id, parent_run_id=parent)
            hooks.on_tool_end("y", run_id=run_id, parent_run_id=parent)
    return trial.all_ended(spans=2)


@probe("A fork inside a run: the child's runs are whole, the parent's stay the parent's")
def ends_fork(trial: Trial) -> Verdict:
    """The child must neither end nor keep what its parent has open."""
    if not hasattr(os, "fork"):
        raise NotApplicableError("this system has no fork")
    seen: list[str] = []

    def step(value: int) -> int:
        seen.append(_in_child(lambda: _child_of_fork(trial)))
        return value

    RunnableLambda(step, name="forks").invoke(1, trial.config())
    verdict = trial.all_ended()
    good = verdict.outcome == "pass" and seen == ["ok"]
    return judge(good, f"parent: {verdict.seen}; child: {seen[0]}")


def _child_of_fork(trial: Trial) -> str:
    before = len(trial.log.started())
    ended_before = len(trial.log.ended())
    RunnableLambda(lambda value: value, name="in child").invoke(1, trial.config())
    started = len(trial.log.started()) - before
    ended = len(trial.log.ended()) - ended_before
    left = trial.open_entries()
    if started == ended > 0 and not left:
        return "ok"
    return f"{started} started, {ended} ended, {left} of the parent's left in its tables"


def _in_child(call: Callable[[], str]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = call()
        except BaseException as error:  # noqa: BLE001 - reported to the parent
            text = f"raised {type(error).__name__}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


@probe("A run that is open when the process exits ends")
def ends_at_exit(trial: Trial) -> Verdict:
    """In a process of its own, which starts a run and exits."""
    make_tool().invoke({"q": "x"}, trial.config())
    module = "otelchain.conformance.exits"
    finished = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", module, trial.subject.name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    seen = finished.stdout.strip().splitlines()
    return judge(seen[-1:] == ["1 started, 1 ended"], seen[-1] if seen else "no span")


@probe("Runs that never end do not pile up without a bound, and those let go are ended")
def ends_bounded(trial: Trial) -> Verdict:
    """Starts that no end follows, as after a crash of the code between."""
    hooks: Any = trial.hooks
    for _ in range(_NEVER_ENDED):
        hooks.on_tool_start({"name": "t"}, "x", run_id=uuid.uuid4(), parent_run_id=None)
    left = trial.open_entries()
    unfinished = len(trial.log.unfinished())
    good = unfinished < _NEVER_ENDED and (left is None or left < _NEVER_ENDED)
    tables = "" if left is None else f", {left} in its tables"
    return judge(good, f"{unfinished} of {_NEVER_ENDED} never-ended runs open{tables}")


@probe("16 threads run 60 chains each: every trace is whole")
def ends_threads(trial: Trial) -> Verdict:
    """Chains of three steps; a trace is whole when its spans form one tree and have ended."""
    chain = RunnableLambda(lambda v: v) | make_tool() | RunnableLambda(lambda v: v)
    barrier = threading.Barrier(_THREADS)

    def work() -> None:
        barrier.wait()
        for _ in range(_CHAINS):
            chain.invoke({"q": "x"}, trial.config())

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _whole_traces(trial, _THREADS * _CHAINS)


def _whole_traces(trial: Trial, expected: int) -> Verdict:
    by_trace: dict[int, list[Any]] = {}
    for span in trial.log.started():
        by_trace.setdefault(span.get_span_context().trace_id, []).append(span)
    sizes = {len(spans) for spans in by_trace.values()}
    whole = sum(_is_tree(spans) for spans in by_trace.values())
    good = whole == expected and len(sizes) == 1 and not trial.log.unfinished()
    return judge(good, f"{whole} of {expected} traces whole, {trial.log.count()}")


def _is_tree(spans: list[Any]) -> bool:
    ids = {span_id(span) for span in spans}
    roots = [span for span in spans if span.parent is None]
    return len(roots) == 1 and all(s.parent.span_id in ids for s in spans if s.parent)


@probe("2,000 cancelled retrievers leave nothing behind")
def ends_many_cancelled(trial: Trial) -> Verdict:
    """The leak that grows in a service whose users close the page."""
    retriever = Retriever(inside=_forever)

    async def cancel_a_hundred() -> None:
        calls = [retriever.ainvoke("x", trial.config()) for _ in range(100)]
        tasks = [asyncio.create_task(call) for call in calls]
        wanted = len(trial.log.started()) + len(tasks)
        # A tracer may start its spans in other threads; cancelled before that, none is lost.
        for _ in range(_PATIENCE):
            await asyncio.sleep(SETTLE_SECONDS)
            if len(trial.log.started()) >= wanted:
                break
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def main() -> None:
        for _ in range(20):
            await cancel_a_hundred()
        await asyncio.sleep(SETTLE_SECONDS)

    asyncio.run(main())
    return trial.all_ended()


async def _forever() -> None:
    await asyncio.sleep(60)
