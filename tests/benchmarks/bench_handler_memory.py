"""Whether a handler grows: 50,000 runs, 2,000 cancelled retrievers, 2,000 abandoned streams.

    python tests/benchmarks/bench_handler_memory.py

Prints the resident memory before and after each, in MiB, and the runs left open. The only
processor of the provider drops everything.
"""

import asyncio
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otelchain import OtelCallbackHandler

MIB = 1024 * 1024


class Slow(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
        return []

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> Any:
        await asyncio.sleep(60)


def resident_mib() -> float:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / MIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # the peak, which only grows


def chains(handler: OtelCallbackHandler, number: int) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Be {role}."), ("human", "{q}")])
    chain = prompt | FakeListChatModel(responses=["A short answer."]) | StrOutputParser()
    for count in range(number):
        chain.invoke({"role": "kind", "q": f"question {count} " * 20}, {"callbacks": [handler]})


def one_long_task(handler: OtelCallbackHandler, number: int) -> None:
    async def worker() -> None:
        model = FakeListChatModel(responses=["A short answer."])
        for count in range(number):
            await model.ainvoke(f"question {count} " * 20, {"callbacks": [handler]})

    asyncio.run(worker())


def cancelled(handler: OtelCallbackHandler, number: int) -> None:
    async def cancel() -> None:
        for _ in range(number):
            task = asyncio.create_task(Slow().ainvoke("q" * 2_000, {"callbacks": [handler]}))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())


def abandoned(handler: OtelCallbackHandler, number: int) -> None:
    async def leave() -> None:
        model = FakeListChatModel(responses=["A short answer."])
        for _ in range(number):
            stream = model.astream("q" * 2_000, {"callbacks": [handler]})
            async for _chunk in stream:
                break
            await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())


CASES: dict[str, tuple[Callable[[OtelCallbackHandler, int], None], int]] = {
    "12,500 chains of 4 runs": (chains, 12_500),
    "10,000 runs of one task": (one_long_task, 10_000),
    "2,000 cancelled retrievers": (cancelled, 2_000),
    "2,000 abandoned streams": (abandoned, 2_000),
}


def measure(name: str) -> None:
    case, number = CASES[name]
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())
    handler = OtelCallbackHandler(provider)
    case(handler, number // 10)
    before = resident_mib()
    case(handler, number)
    stats = handler.stats()
    print(f"{name:<28}{before:>8.1f} → {resident_mib():>6.1f} MiB   {stats}")


def main() -> None:
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    print("$ python", *sys.argv, flush=True)
    for name in CASES:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
