"""A run that is cancelled, or ended by Ctrl-C, ends its span; and that is not an error."""
# ruff: noqa: ARG001, ARG002 - fakes keep the signatures of what they stand for

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import RunnableLambda

from otelchain.conformance.applications import ChatModel, Retriever, make_tool
from otelchain.conformance.probe import probe, register
from otelchain.conformance.trial import SETTLE_SECONDS, Trial
from otelchain.conformance.verdict import Verdict, judge

Start = Callable[[Any], Coroutine[Any, Any, Any]]


async def _forever() -> None:
    await asyncio.sleep(60)


async def _read(stream: Any) -> None:
    async for _ in stream:
        pass


async def _slow_step(value: Any) -> Any:
    await _forever()


def _ainvoke_model(config: Any) -> Coroutine[Any, Any, Any]:
    return ChatModel(inside=_forever).ainvoke("x", config)


def _astream_model(config: Any) -> Coroutine[Any, Any, Any]:
    return _read(ChatModel(inside=_forever).astream("x", config))


def _tool(config: Any) -> Coroutine[Any, Any, Any]:
    return make_tool(_forever).ainvoke({"q": "x"}, config)


def _chain(config: Any) -> Coroutine[Any, Any, Any]:
    return (RunnableLambda(_slow_step) | RunnableLambda(_slow_step)).ainvoke(1, config)


def _retriever(config: Any) -> Coroutine[Any, Any, Any]:
    return Retriever(inside=_forever).ainvoke("x", config)


def _model_in_chain(config: Any) -> Coroutine[Any, Any, Any]:
    return (RunnableLambda(lambda v: v) | ChatModel(inside=_forever)).ainvoke("x", config)


def _retriever_in_chain(config: Any) -> Coroutine[Any, Any, Any]:
    return (RunnableLambda(lambda v: v) | Retriever(inside=_forever)).ainvoke("x", config)


class _Never(BaseRateLimiter):
    def acquire(self, *, blocking: bool = True) -> bool:
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        await _forever()
        return True


def _rate_limited(config: Any) -> Coroutine[Any, Any, Any]:
    return ChatModel(rate_limiter=_Never()).ainvoke("x", config)


_CANCELLED: dict[str, tuple[str, Start]] = {
    "model-ainvoke": ("chat model", _ainvoke_model),
    "model-astream": ("streaming chat model", _astream_model),
    "tool": ("tool", _tool),
    "chain": ("chain", _chain),
    "retriever": ("retriever", _retriever),
    "model-in-chain": ("chat model inside a chain", _model_in_chain),
    "retriever-in-chain": ("retriever inside a chain", _retriever_in_chain),
    "rate-limiter": ("chat model that waits for its rate limiter", _rate_limited),
}


def _cancel(trial: Trial, start: Start) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(start(trial.config()))
        await asyncio.sleep(SETTLE_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        await asyncio.sleep(SETTLE_SECONDS)

    asyncio.run(main())


def _cancelling(start: Start) -> Callable[[Trial], Verdict]:
    def run(trial: Trial) -> Verdict:
        _cancel(trial, start)
        return trial.all_ended()

    return run


for _name, (_what, _start) in _CANCELLED.items():
    register(f"cancelled-{_name}", f"A cancelled {_what} ends its span", _cancelling(_start))


@probe("Cancellation is not recorded as an error")
def cancelled_is_no_error(trial: Trial) -> Verdict:
    """A user who closes the tab is no failure of the application."""
    for _, start in _CANCELLED.values():
        _cancel(trial, start)
    trial.settle()
    errors = trial.errors()
    good = not errors and bool(trial.log.ended())
    return judge(good, f"{len(errors)} of {len(trial.log.ended())} ended spans are errors")


def _ctrl_c() -> None:
    raise KeyboardInterrupt


def _raise_in_step(value: Any) -> Any:
    _ctrl_c()


_INTERRUPTED: dict[str, Callable[[Any], Any]] = {
    "tool": lambda config: make_tool(_ctrl_c).invoke({"q": "x"}, config),
    "chain": lambda config: RunnableLambda(_raise_in_step).invoke(1, config),
    "retriever": lambda config: Retriever(inside=_ctrl_c).invoke("x", config),
    "model": lambda config: ChatModel(inside=_ctrl_c).invoke("x", config),
    "retriever-in-chain": lambda config: (
        RunnableLambda(lambda v: v) | Retriever(inside=_ctrl_c)
    ).invoke("x", config),
}


def _interrupting(call: Callable[[Any], Any]) -> Callable[[Trial], Verdict]:
    def run(trial: Trial) -> Verdict:
        try:
            call(trial.config())
        except KeyboardInterrupt:
            pass
        else:
            return judge(False, "KeyboardInterrupt was swallowed")
        return trial.all_ended()

    return run


for _name, _call in _INTERRUPTED.items():
    _what = _name.replace("-", " ")
    register(f"ctrl-c-{_name}", f"Ctrl-C in a {_what} ends its span", _interrupting(_call))
