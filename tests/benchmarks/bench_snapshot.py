"""How long a snapshot of a large file takes while the collector is under load, and what it costs.

    python tests/benchmarks/bench_snapshot.py [--spans N] [--rate SPANS] [--database FILE]

Another process sends requests of 512 spans (bench_collector.py) at a fixed rate, by half over HTTP
and by half over gRPC, from 5 s before the snapshot to its end. Printed: the size and time of the
snapshot, how many rounds it took, and how long acknowledgements took before and meanwhile. With
--database the file is kept, and used again by the next run.
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_collector import encode
from filled_store import fill

sys.path.insert(0, str(Path(__file__).parents[1]))
import collector_process

_BEFORE_SECONDS = 5.0
_LONGEST_SECONDS = 600.0
_COMMAND = (sys.executable, "-c", "from otelchain.cli import main; main()")
_LOAD = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import soak_collector; "
    "soak_collector.load(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))"
)


def snapshot(collector: collector_process.RunningCollector, target: Path) -> float:
    begin = time.monotonic()
    arguments = ["snapshot", str(target), "--database", str(collector.database)]
    subprocess.run([*_COMMAND, *arguments], check=True)
    return time.monotonic() - begin


def shown(name: str, latencies_ms: list[float]) -> str:
    if len(latencies_ms) < 2:
        return f"{name}: {len(latencies_ms)} requests"
    p99 = statistics.quantiles(latencies_ms, n=100)[98]
    return (
        f"{name}: {len(latencies_ms)} requests, median {statistics.median(latencies_ms):.0f} ms, "
        f"p99 {p99:.0f} ms, longest {max(latencies_ms):.0f} ms"
    )


def measure(database: Path, rate: float, target: Path) -> None:
    log = database.with_suffix(".log")
    log.unlink(missing_ok=True)
    collector = collector_process.start(database, log)
    addresses = [collector.http, collector.grpc, str(rate), str(_LONGEST_SECONDS)]
    told = target.with_name("load.jsonl")
    with told.open("w") as stdout:
        load = subprocess.Popen([sys.executable, "-c", _LOAD, *addresses], stdout=stdout)
    while not told.stat().st_size:
        time.sleep(0.1)
    time.sleep(_BEFORE_SECONDS)
    begin = time.monotonic()
    seconds = snapshot(collector, target)
    load.terminate()
    load.wait()
    sent = [json.loads(line) for line in told.read_text().splitlines() if line.endswith("]")]
    rounds = 1 + log.read_text().count("a checkpoint had to be made before a snapshot")
    size = target.stat().st_size
    print(f"{size / 2**20:.0f} MiB in {seconds:.1f} s, {rounds} rounds")
    print(shown("before", [latency for at, latency in sent if at < begin]))
    print(shown("meanwhile", [latency for at, latency in sent if at >= begin]))
    assert collector.stop() == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--rate", type=float, default=12_500, help="spans a second")
    parser.add_argument("--database", type=Path)
    options = parser.parse_args()
    print("command:", " ".join(sys.argv))
    with tempfile.TemporaryDirectory() as folder:
        database = options.database or Path(folder) / "t.duckdb"
        if not database.exists():
            # In a process of its own, whose memory is gone afterwards.
            filling = multiprocessing.get_context("spawn").Process(
                target=fill, args=(database, encode(40), options.spans)
            )
            filling.start()
            filling.join()
        measure(database, options.rate, Path(folder) / "copy.duckdb")


if __name__ == "__main__":
    main()
