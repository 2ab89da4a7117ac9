"""Which run the code is inside of, for parts of LangChain that are called without callbacks.

LangChain tells the steps of chains, tools and graph nodes by a context variable. It does not tell
the body of a retriever, which is where most embeddings are made; so the start of a retriever's run
is noted here. Nothing is reset at the end, because under async the end happens in another context:
a noted run counts only while it is open.
"""

from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.runnables.config import var_child_runnable_config

from otelchain import lifetime
from otelchain.runs import OpenRun, OpenRuns

_retriever: ContextVar[OpenRun | None] = ContextVar("otelchain_retriever", default=None)


def entered_retriever(run: OpenRun) -> None:
    """Note a retriever's run that has just started; called in the thread or task of its body."""
    _retriever.set(run)


def callbacks() -> Any:
    """Return the callbacks of the step the code is in, None outside of any."""
    config = var_child_runnable_config.get()
    return config.get("callbacks") if config else None


def retriever(step: UUID | None) -> OpenRun | None:
    """Return the open retriever run the code is in, if there is one below the given step."""
    run = _retriever.get()
    if run is not None and lifetime.find(run.run_id) is None and run.parent_run_id is not None:
        run = lifetime.find(run.parent_run_id)  # the noted one is over; it may have been an inner
    if run is None or run.run_type != "retriever" or lifetime.find(run.run_id) is None:
        return None
    return run if step is None or _is_below(run, step) else None


def parent(reported: UUID | None, runs: OpenRuns) -> UUID | None:
    """Return the parent of a run that starts now: the reported one, or a run with fallbacks.

    ``RunnableWithFallbacks.invoke`` and ``ainvoke`` call their alternatives with their own config,
    so LangChain reports the alternatives beside the run that tries them; at the top each would be
    a trace of its own. The context in which they are called names the right one.
    """
    around: UUID | None = getattr(callbacks(), "parent_run_id", None)
    run = runs.get(around) if around is not None else None
    if run is None or run.fallbacks is None or run.reported_parent_run_id != reported:
        return reported
    return around


def _is_below(run: OpenRun, step: UUID) -> bool:
    above: OpenRun | None = run
    while above is not None and above.parent_run_id is not None:
        if above.parent_run_id == step:
            return True
        above = lifetime.find(above.parent_run_id)
    return False
