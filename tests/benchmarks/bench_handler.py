"""What the handler costs per callback pair (a run's start and end), against two yardsticks.

    python tests/benchmarks/bench_handler.py [--rounds N]

Rounds of all variants are interleaved in one process; a figure is CPU time, the median of the
rounds' differences to "no handler". The floor is an empty inline handler plus a bare SDK span with
as many attributes as ours has. The provider's only processor drops everything. Content capture and
the default redaction are on.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otelchain import OtelCallbackHandler

INVOKES = 30


class EmptyHandler(BaseCallbackHandler):
    """What any inline handler costs."""

    run_inline = True

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None: ...
    def on_chain_end(self, *args: Any, **kwargs: Any) -> None: ...
    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None: ...
    def on_llm_end(self, *args: Any, **kwargs: Any) -> None: ...


class FloorHandler(EmptyHandler):
    """The least a tracer can do: one span per run with eight plain attributes."""

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = provider.get_tracer("floor")
        self.spans: dict[UUID, Any] = {}

    def on_chain_start(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        attributes = {f"floor.attribute.{number}": "value" for number in range(6)}
        self.spans[run_id] = self.tracer.start_span("run", attributes=attributes)

    def on_chain_end(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        span = self.spans.pop(run_id)
        span.set_attributes({"floor.output": "value", "floor.status": "ok"})
        span.end()

    on_chat_model_start = on_chain_start
    on_llm_end = on_chain_end


def sequence() -> Runnable[Any, Any]:
    steps: Runnable[Any, Any] = RunnableLambda(lambda x: x)
    for _ in range(9):
        steps = steps | RunnableLambda(lambda x: x)
    return steps


def chat_chain() -> Runnable[Any, Any]:
    prompt = ChatPromptTemplate.from_messages([("system", "You are {role}."), ("human", "{q}")])
    return prompt | FakeListChatModel(responses=["A short answer."]) | StrOutputParser()


def cpu_microseconds(invoke: Callable[[], Any]) -> float:
    started = time.process_time()
    for _ in range(INVOKES):
        invoke()
    return (time.process_time() - started) / INVOKES * 1e6


def workloads() -> dict[str, tuple[int, Callable[[list[Any]], Callable[[], Any]]]]:
    seq, chain = sequence(), chat_chain()
    question = {"role": "a helpful assistant", "q": "What is the capital of France? " * 8}
    loop = asyncio.new_event_loop()
    return {
        "seq (11 pairs)": (11, lambda cb: lambda: seq.invoke("x", {"callbacks": cb})),
        "chain (4 pairs)": (4, lambda cb: lambda: chain.invoke(question, {"callbacks": cb})),
        "achain (4 pairs)": (
            4,
            lambda cb: lambda: loop.run_until_complete(chain.ainvoke(question, {"callbacks": cb})),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())
    variants: dict[str, list[Any]] = {
        "no handler": [],
        "empty handler": [EmptyHandler()],
        "floor": [FloorHandler(provider)],
        "otelchain": [OtelCallbackHandler(provider)],
    }
    print("$ python", " ".join(sys.argv))
    print(f"{'workload':<18}{'variant':<16}{'µs per pair (CPU, median)':>26}{'of floor':>10}")
    for name, (pairs, build) in workloads().items():
        times: dict[str, list[float]] = {variant: [] for variant in variants}
        for number in range(rounds + 1):
            order = list(variants) if number % 2 else list(reversed(variants))
            for variant in order:
                measured = cpu_microseconds(build(variants[variant]))
                if number:  # the first round warms up
                    times[variant].append(measured)
        cost = {
            variant: statistics.median(
                (mine - none) / pairs
                for mine, none in zip(times[variant], times["no handler"], strict=True)
            )
            for variant in variants
        }
        for variant in list(variants)[1:]:
            print(
                f"{name:<18}{variant:<16}{cost[variant]:>26.1f}"
                f"{cost[variant] / cost['floor']:>10.2f}"
            )


if __name__ == "__main__":
    main()
