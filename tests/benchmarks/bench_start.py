"""How long a collector takes from its start to ready, on a large file, and on one that was killed.

    python tests/benchmarks/bench_start.py [--spans N] [--database FILE]

Median of five starts each: on a file that was closed, and on one whose collector was killed with
about 30 MiB in its log. With --database the file is kept, and used again by the next run.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench_collector import encode
from filled_store import fill

sys.path.insert(0, str(Path(__file__).parents[1]))
import collector_process
from kill_trial import over_http
from otelchain_collector.salvage import log_of

_STARTS = 5
# As much log as a busy collector leaves between two checkpoints, but for a little.
_REQUESTS = 21


def started(database: Path) -> tuple[float, collector_process.RunningCollector]:
    begin = time.monotonic()
    collector = collector_process.start(database, database.with_suffix(".log"))
    return time.monotonic() - begin, collector


def after_a_stop(database: Path) -> float:
    seconds, collector = started(database)
    assert collector.stop() == 0
    return seconds


def after_a_kill(database: Path) -> float:
    _, collector = started(database)
    with over_http(collector.http) as send:
        for body in encode(_REQUESTS):
            send(body)
    collector.kill()
    seconds, collector = started(database)
    assert collector.stop() == 0
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--database", type=Path)
    options = parser.parse_args()
    print("command:", " ".join(sys.argv))
    with tempfile.TemporaryDirectory() as folder:
        database = options.database or Path(folder) / "t.duckdb"
        if not database.exists():
            fill(database, encode(40), options.spans)
        print(f"{options.spans} spans, {database.stat().st_size / 2**20:.0f} MiB")
        assert not log_of(database).exists()
        after_a_stop(database)
        for name, measure in (("stopped", after_a_stop), ("killed", after_a_kill)):
            seconds = [measure(database) for _ in range(_STARTS)]
            shown = ", ".join(f"{each:.2f}" for each in sorted(seconds))
            print(f"ready after {statistics.median(seconds):.2f} s when {name} before ({shown})")


if __name__ == "__main__":
    main()
