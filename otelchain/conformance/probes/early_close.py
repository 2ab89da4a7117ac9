"""A stream whose reader stops early ends its spans, not as errors, and without a complaint."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from otelchain.conformance.applications import ChatModel
from otelchain.conformance.probe import probe, register
from otelchain.conformance.trial import SETTLE_SECONDS, Trial
from otelchain.conformance.verdict import NotApplicableError, Verdict, judge

_CONTEXT_LOGGER = "opentelemetry.context"


def _chain() -> Any:
    return ChatPromptTemplate.from_template("{q}") | ChatModel() | StrOutputParser()


def _close_sync(config: Any) -> None:
    stream = _chain().stream({"q": "x"}, config)
    next(stream)
    stream.close()


async def _break(config: Any) -> None:
    async for _ in _chain().astream({"q": "x"}, config):
        break
    await asyncio.sleep(SETTLE_SECONDS)


async def _aclose_elsewhere(config: Any) -> None:
    stream = _chain().astream({"q": "x"}, config)
    await anext_of(stream)
    await asyncio.create_task(stream.aclose())
    await asyncio.sleep(SETTLE_SECONDS)


async def _break_model(config: Any) -> None:
    async for _ in ChatModel().astream("x", config):
        break
    await asyncio.sleep(SETTLE_SECONDS)


async def anext_of(stream: Any) -> Any:
    """The next item (``anext`` is not known to every checker as a builtin)."""
    return await stream.__anext__()


_ASYNC: dict[str, tuple[str, Callable[[Any], Awaitable[None]]]] = {
    "async-break": ("left with break", _break),
    "aclose-elsewhere": ("closed by another task", _aclose_elsewhere),
    "model-break": ("of a model alone left with break", _break_model),
}


def _run(coroutine: Any) -> None:
    asyncio.run(coroutine)


def _closing(close: Callable[[Any], Awaitable[None]]) -> Callable[[Trial], Verdict]:
    def run(trial: Trial) -> Verdict:
        _run(close(trial.config()))
        return trial.all_ended()

    return run


for _name, (_what, _close) in _ASYNC.items():
    register(f"early-close-{_name}", f"An async stream {_what} ends its spans", _closing(_close))


@probe("A sync stream that is closed early ends its spans")
def early_close_sync(trial: Trial) -> Verdict:
    """``stream.close()`` after the first chunk."""
    _close_sync(trial.config())
    return trial.all_ended()


@probe("A v3 event stream that is abandoned ends its spans")
def early_close_v3(trial: Trial) -> Verdict:
    """langchain-core never reports the end of such a run."""
    model = ChatModel()
    if not hasattr(model, "stream_events"):
        raise NotApplicableError("this langchain-core has no v3 streams")

    def read_one() -> None:
        for _ in model.stream_events("x", trial.config(), version="v3"):
            break

    read_one()
    return trial.all_ended()


def _close_all(trial: Trial) -> None:
    _close_sync(trial.config())
    for _, close in _ASYNC.values():
        _run(close(trial.config()))
    trial.settle()


@probe("A reader that stops early is not recorded as an error")
def early_close_is_no_error(trial: Trial) -> Verdict:
    """It is how an application says that it has read enough."""
    _close_all(trial)
    errors = trial.errors()
    good = not errors and bool(trial.log.ended())
    return judge(good, f"{len(errors)} of {len(trial.log.ended())} ended spans are errors")


@probe("No 'Failed to detach context', whoever closes the stream")
def early_close_detaches(trial: Trial) -> Verdict:
    """The log of OpenTelemetry's context stays empty."""
    _close_all(trial)
    lines = trial.complaints.texts(_CONTEXT_LOGGER)
    return judge(not lines, f"{len(lines)} complaints" + (f": {lines[0]}" if lines else ""))
