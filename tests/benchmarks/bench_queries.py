"""Ask every query of the bundle on a generated store: the last 24 hours, and everything.

    python tests/benchmarks/bench_queries.py [--spans 1000000] [--memory 4GB] [--query NAME]
        [--shape usual|one-trace|model-runs|failures]

The usual store is that of ``otelchain demo --spans``: 30 days; the other shapes are hard ones, all
in the last hour (worst_stores.py). One line per query: seconds by the clock
and of CPU (of two threads together), and the rows of the answer. Each has a connection of its own
and is asked twice; the second answer counts, the first may read from the disk. What takes longer
than 1 s for 24 hours or 10 s for everything is marked. The store is made once for each number of
spans, before anything is measured, and kept in the temporary folder unless there is --database.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import duckdb
from worst_stores import SHAPES, write_worst

import otelchain_queries
from otelchain.demo.many import write_many
from otelchain_collector.answers import answer_query

END_UNIX_NANO = 1_796_083_200 * 10**9  # 2026-12-01
DAY_BEFORE = "2026-11-30T00:00:00Z"
USUAL = "usual"
MOST_SECONDS = {"last 24 hours": 1.0, "everything": 10.0}


class Took(NamedTuple):
    """What an answer took, in seconds, and how many rows it has."""

    clock: float
    cpu: float
    rows: int


def generated(spans: int, shape: str) -> Path:
    """Return the file of a generated store."""
    kind = "" if shape == USUAL else f"{shape}-"
    path = Path(tempfile.gettempdir()) / f"otelchain-bench-{kind}{spans}.duckdb"
    if not path.exists():
        half_made = path.with_suffix(".part")
        half_made.unlink(missing_ok=True)
        began = time.perf_counter()
        if shape == USUAL:
            write_many(half_made, spans, END_UNIX_NANO)
        else:
            write_worst(half_made, shape, spans, END_UNIX_NANO)
        print(f"{spans:,} spans written in {time.perf_counter() - began:,.0f} s", flush=True)
        half_made.rename(path)
    return path


def asked(database: Path, memory: str, name: str, since: dict[str, str]) -> Took:
    """Ask twice; return what the second answer took."""
    query = otelchain_queries.load(name)
    config = {"memory_limit": memory, "threads": "2"}
    with duckdb.connect(str(database), read_only=True, config=config) as connection:
        for _ in range(2):
            began, cpu_began = time.perf_counter(), time.process_time()
            answer = answer_query(connection, query, since, max_seconds=600)
            took = Took(
                time.perf_counter() - began, time.process_time() - cpu_began, len(answer.rows)
            )
    return took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--shape", choices=[USUAL, *SHAPES], default=USUAL)
    parser.add_argument("--database", type=Path, help="a store whose last day is 2026-11-30")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--query", action="append")
    arguments = parser.parse_args()
    print("$", "python", *sys.argv)
    database = arguments.database or generated(arguments.spans, arguments.shape)
    with duckdb.connect(str(database), read_only=True) as connection:
        [(spans,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    print(
        f"{spans:,} spans, {database.stat().st_size / 1e6:,.0f} MB, DuckDB {duckdb.__version__}, "
        f"2 threads, {arguments.memory}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':22} {'last 24 hours':^22} {'everything':^22}")
    print(f"{'query':22}" + f" {'s':>6} {'s CPU':>7} {'rows':>7}" * 2)
    for name in arguments.query or otelchain_queries.names():
        spans_of_time = {"last 24 hours": {"since": DAY_BEFORE}, "everything": {}}
        line = f"{name:22}"
        for title, since in spans_of_time.items():
            took = asked(database, arguments.memory, name, since)
            mark = "!" if took.clock > MOST_SECONDS[title] else " "
            line += f" {took.clock:6.2f}{mark}{took.cpu:7.2f} {took.rows:7,}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
