"""The event loop turns while a step's payload is recorded."""

import asyncio
import time
from typing import Any

from langchain_core.runnables import RunnableLambda

from otelchain.conformance.probe import probe
from otelchain.conformance.subject import Options
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge

_ROWS = 20_000
_ROUNDS = 7
_TICK_SECONDS = 0.001
# Without a handler the gap is 1 to 2 ms, with the tracers known to block it 25 to 66 ms.
_MAX_RATIO = 5.0


async def _longest_gap_ms(chain: Any, rows: Any, config: Any) -> float:
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.perf_counter()
            gaps.append((now - last) * 1_000)
            last = now

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.02)
    gaps.clear()
    await chain.ainvoke(rows, config)
    await asyncio.sleep(0.02)
    ticker.cancel()
    return max(gaps, default=0.0)


@probe(
    "The event loop is not held up by a large payload", timed=True, options=Options(attach=False)
)
def event_loop_ticker(trial: Trial) -> Verdict:
    """Longest gap of a 1 ms ticker while two steps get 20,000 rows, beside no handler."""
    row = {"name": "row", "score": 0.5}
    rows = {"rows": [{"id": number, **row} for number in range(_ROWS)]}

    async def same(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    chain = RunnableLambda(same) | RunnableLambda(same)

    async def rounds() -> float:
        # The least of the rounds: other processes only ever make a gap longer.
        return min([await _longest_gap_ms(chain, rows, trial.config()) for _ in range(_ROUNDS)])

    base = asyncio.run(rounds())
    trial.attach()
    gap = asyncio.run(rounds())
    return judge(gap <= base * _MAX_RATIO, f"{gap:.1f} ms, without a handler {base:.1f} ms")
