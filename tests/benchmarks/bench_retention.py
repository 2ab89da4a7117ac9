"""Does the file stop growing, and what does deleting cost commits?

    python tests/benchmarks/bench_retention.py [--days N] [--spans N] [--keep DAYS]

Days pass quickly: each brings spans of 2.7 KB in requests of 512, committed one by one, and after
each the retention looks. Sizes are those of the file and of its rows; the commits that run while
rows are deleted are compared with the others.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench_collector import SPANS, encode

from otelchain_collector.budget import ByteBudget
from otelchain_collector.retention import Retention
from otelchain_collector.retention_clock import RetentionClock
from otelchain_collector.retention_rules import RetentionRules
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

_DAY_SECONDS = 86_400
# Requests of each day that are kept for the time in which rows are deleted.
_BESIDE = 30


def commit_next(writer: Writer, bodies: Iterator[bytes], now: int) -> float:
    """Commit the next request; return the milliseconds of the commit."""
    decoded = decode_columns(next(bodies), now)
    begin = time.perf_counter()
    writer.submit(decoded, ByteBudget(1).reserve()).result()
    return (time.perf_counter() - begin) * 1e3


def while_it_looks(retention: Retention, commit: Callable[[], float]) -> list[float]:
    """Commit as long as the retention is at work; return the milliseconds of each commit."""
    looking = threading.Thread(target=retention.look)
    looking.start()
    found = []
    while looking.is_alive() and len(found) < _BESIDE:
        found.append(commit())
    looking.join()
    return found


def shown(name: str, latencies: list[float]) -> str:
    ordered = sorted(latencies)
    p99 = ordered[int(len(ordered) * 0.99)]
    return (
        f"{name}: {len(ordered)} commits, median {statistics.median(ordered):.0f} ms, p99 {p99:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--spans", type=int, default=10_240)
    parser.add_argument("--keep", type=int, default=5)
    options = parser.parse_args()
    print("command:", " ".join(sys.argv))
    usual: list[float] = []
    beside: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "t.duckdb")
        writer = Writer(store)
        writer.start()
        now = start = time.time_ns()
        # Both clocks show the day at hand.
        retention = Retention(
            writer,
            store,
            RetentionRules(options.keep * _DAY_SECONDS),
            RetentionClock(lambda: now, lambda: now / 1e9),
        )
        for day in range(options.days):
            now = start + day * _DAY_SECONDS * 10**9
            bodies = iter(encode(options.spans // SPANS + _BESIDE))
            commit = partial(commit_next, writer, bodies, now)
            usual += [commit() for _ in range(options.spans // SPANS)]
            beside += while_it_looks(retention, commit)
            if day % 5 == 4:
                file, live = (
                    store.database.file_bytes() / 2**20,
                    store.database.live_bytes() / 2**20,
                )
                print(f"day {day + 1:3}: file {file:6.1f} MiB, rows {live:6.1f} MiB", flush=True)
        writer.close()
        store.close()
    print(shown("usual", usual))
    print(shown("while rows are deleted", beside))


if __name__ == "__main__":
    main()
