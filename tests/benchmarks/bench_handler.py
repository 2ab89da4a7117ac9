"""What a tracer costs per callback pair (the start and end of a run): ours, the floor, the peers.

    python tests/benchmarks/bench_handler.py [--rounds N]

Every round starts a fresh process per tracer, in alternating order, because the peers patch
LangChain for the whole process; a process repeats each workload and keeps its fastest repeat. A
figure is CPU time of all threads: the median over the rounds of the difference to "no handler".
Each tracer has a provider whose only processor counts and drops everything; content capture and,
for ours, the default redaction are on. Every call has another input, as in an application, so that
nothing is remembered from the call before. The floor is an empty inline handler plus a bare SDK
span that is given the attributes which ours sets on the same run. Peers are measured when they are
installed; the last column says how many spans one call of ``chain`` gives, where 4 are all.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
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
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

REPEATS = 7
INVOKES = 40
PAIRS = {"seq": 11, "chain": 4, "achain": 4, "aseq": 11}


class ChatModel(FakeListChatModel):
    """Says who it is, as real integrations do; the official tracer skips a nameless model."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": "fake-1", "ls_model_type": "chat"}


class EmptyHandler(BaseCallbackHandler):
    """What any inline handler costs."""

    run_inline = True

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None: ...
    def on_chain_end(self, *args: Any, **kwargs: Any) -> None: ...
    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None: ...
    def on_llm_end(self, *args: Any, **kwargs: Any) -> None: ...


class FloorHandler(EmptyHandler):
    """The least a tracer can do: a span per run with the attributes that ours has, given to it."""

    def __init__(self, provider: TracerProvider, known: dict[str, dict[str, Any]]) -> None:
        self.tracer = provider.get_tracer("floor")
        self.known = known
        self.spans: dict[UUID, Any] = {}

    def on_chain_start(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        kind = kwargs.get("run_type") or (
            "chat_model" if "invocation_params" in kwargs else "chain"
        )
        self.spans[run_id] = self.tracer.start_span("run", attributes=self.known[kind])

    def on_chain_end(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        self.spans.pop(run_id).end()

    on_chat_model_start = on_chain_start
    on_llm_end = on_chain_end


class Count(SpanProcessor):
    """Drops every span, and counts them."""

    ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class Keep(SpanProcessor):
    """Keeps the attributes of the last span of each run type."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}

    def on_end(self, span: ReadableSpan) -> None:
        attributes = dict(span.attributes or {})
        self.known[str(attributes["otelchain.run.type"])] = attributes


def sequence() -> Runnable[Any, Any]:
    steps: Runnable[Any, Any] = RunnableLambda(lambda x: x)
    for _ in range(9):
        steps = steps | RunnableLambda(lambda x: x)
    return steps


def chat_chain() -> Runnable[Any, Any]:
    prompt = ChatPromptTemplate.from_messages([("system", "You are {role}."), ("human", "{q}")])
    return prompt | ChatModel(responses=["A short answer."]) | StrOutputParser()


NUMBERS = itertools.count()


def text() -> str:
    return f"x{next(NUMBERS)}"


def question() -> dict[str, str]:
    asked = f"What is the capital of country {next(NUMBERS)}? " * 8
    return {"role": "a helpful assistant", "q": asked}


def ours(provider: TracerProvider) -> list[Any]:
    from otelchain import OtelCallbackHandler

    return [OtelCallbackHandler(provider)]


def floor(provider: TracerProvider) -> list[Any]:
    kept = Keep()
    watched = TracerProvider(shutdown_on_exit=False)
    watched.add_span_processor(kept)
    sequence().invoke(text(), {"callbacks": ours(watched)})
    chat_chain().invoke(question(), {"callbacks": ours(watched)})
    return [FloorHandler(provider, kept.known)]


def openinference(provider: TracerProvider) -> list[Any]:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider)
    return []


def openllmetry(provider: TracerProvider) -> list[Any]:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=provider)
    return []


def official(provider: TracerProvider) -> list[Any]:
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor

    # It asks for the package langchain, of which it needs nothing here.
    LangChainInstrumentor().instrument(tracer_provider=provider, skip_dep_check=True)
    return []


def langfuse(provider: TracerProvider) -> list[Any]:
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler

    Langfuse(
        public_key="pk-lf-x",
        secret_key="sk-lf-x",
        host="http://127.0.0.1:9",
        tracer_provider=provider,
        should_export_span=lambda span: False,
    )
    return [CallbackHandler()]


TRACERS: dict[str, Callable[[TracerProvider], list[Any]]] = {
    "no handler": lambda provider: [],
    "empty handler": lambda provider: [EmptyHandler()],
    "floor": floor,
    "otelchain": ours,
    "OpenInference": openinference,
    "OpenLLMetry": openllmetry,
    "official GenAI": official,
    "Langfuse": langfuse,
}


def measure(tracer: str) -> dict[str, float]:
    """Return the CPU time of one call of each workload in this process, in microseconds."""
    provider = TracerProvider(shutdown_on_exit=False)
    count = Count()
    provider.add_span_processor(count)
    config: Any = {"callbacks": TRACERS[tracer](provider)}
    seq, chain, loop = sequence(), chat_chain(), asyncio.new_event_loop()
    workloads: dict[str, Callable[[], Any]] = {
        "seq": lambda: seq.invoke(text(), config),
        "chain": lambda: chain.invoke(question(), config),
        "achain": lambda: loop.run_until_complete(chain.ainvoke(question(), config)),
        "aseq": lambda: loop.run_until_complete(seq.ainvoke(text(), config)),
    }
    found = {name: fastest(invoke) for name, invoke in workloads.items()}
    before = count.ended
    workloads["chain"]()
    return {**found, "spans": count.ended - before}


def fastest(invoke: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS + 1):
        started = time.process_time()
        for _ in range(INVOKES):
            invoke()
        times.append((time.process_time() - started) / INVOKES * 1e6)
    return min(times[1:])  # the first repeat warms up


def cell(tracer: str) -> dict[str, float] | None:
    command = [sys.executable, "-W", "ignore", __file__, "--cell", tracer]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        missing = "ModuleNotFoundError" in result.stderr
        print(f"{tracer}: {'not installed' if missing else result.stderr.strip()[-300:]}")
        return None
    found: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        print(json.dumps(measure(arguments.cell)))
        return
    print("$ python", *sys.argv)
    rounds: list[dict[str, dict[str, float]]] = []
    here = list(TRACERS)
    for number in range(arguments.rounds):
        order = here if number % 2 else here[::-1]
        measured = {tracer: cell(tracer) for tracer in order}
        rounds.append({tracer: found for tracer, found in measured.items() if found})
        here = [tracer for tracer in here if tracer in rounds[0]]
    report(here, rounds)


def report(here: list[str], rounds: list[dict[str, dict[str, float]]]) -> None:
    print(
        "µs of CPU per callback pair, median of", len(rounds), "rounds; in brackets: of the floor"
    )
    print("".join(f"{title:>18}" for title in ("", *PAIRS, "spans")))
    cost = {
        (tracer, workload): statistics.median(
            (found[tracer][workload] - found["no handler"][workload]) / pairs for found in rounds
        )
        for tracer in here
        for workload, pairs in PAIRS.items()
    }
    for tracer in here[1:]:
        cells = [
            f"{cost[tracer, workload]:.1f} ({cost[tracer, workload] / cost['floor', workload]:.2f})"
            for workload in PAIRS
        ]
        spans = f"{rounds[0][tracer]['spans']:.0f}"
        print("".join(f"{each:>18}" for each in (tracer, *cells, spans)))


if __name__ == "__main__":
    main()
