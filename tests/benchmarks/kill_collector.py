"""End the collector at random moments under load, over both transports, and count what is lost.

    python tests/benchmarks/kill_collector.py [--signal KILL|TERM] [--trials N] [--requests N]
        [--seed N]

Each trial: four connections of each transport send requests of 512 spans of 2.7 KB, as fast as
they are acknowledged; the signal at a random moment, every second time within 0.15 s after the log
has grown large enough for a checkpoint; the file is read; the collector starts again and everything
is sent once more. Lost: acknowledged and not in the file. Exits with 1 when one was lost or
doubled, or when SIGTERM was not followed by a clean end.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench_collector import encode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

sys.path.insert(0, str(Path(__file__).parents[1]))
from kill_trial import CHECKPOINT_BYTES, Request, Trial, kill_under_load, random_moments


def requests(count: int) -> list[Request]:
    return [Request(body, _span_ids(body)) for body in encode(count)]


def _span_ids(body: bytes) -> frozenset[str]:
    message = ExportTraceServiceRequest.FromString(body)
    scopes = (scope for resource in message.resource_spans for scope in resource.scope_spans)
    return frozenset(span.span_id.hex() for scope in scopes for span in scope.spans)


def show(number: int, trial: Trial, seconds: float) -> None:
    http, grpc = trial.transports
    print(
        f"{number:3}: {trial.acknowledged:6} spans acknowledged ({http} + {grpc} requests), "
        f"{trial.log_bytes / 2**20:5.1f} MiB of log; lost {trial.lost}, doubled {trial.doubled}, "
        f"missing after resend {trial.missing}; ended after {trial.stop_seconds:.2f} s "
        f"with code {trial.exit_code}; {seconds:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--signal", choices=["KILL", "TERM"], default="KILL")
    parser.add_argument("--requests", type=int, default=150)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    options = parser.parse_args()
    print("command:", " ".join(sys.argv), f"(seed {options.seed})")
    ending = signal.Signals[f"SIG{options.signal}"]
    moments = random_moments(random.Random(options.seed))
    trials = []
    for number in range(1, options.trials + 1):
        with tempfile.TemporaryDirectory() as folder:
            started = time.monotonic()
            sent = requests(options.requests)
            database = Path(folder) / "t.duckdb"
            trials.append(kill_under_load(database, sent, next(moments)(), number=ending))
            show(number, trials[-1], time.monotonic() - started)
    due = sum(trial.log_bytes >= CHECKPOINT_BYTES for trial in trials)
    print(
        f"{len(trials)} times SIG{options.signal}, {due} of them with a checkpoint due or running: "
        f"{sum(trial.acknowledged for trial in trials)} spans acknowledged, "
        f"{sum(trial.lost for trial in trials)} lost, {sum(trial.doubled for trial in trials)} "
        f"doubled, {sum(trial.missing for trial in trials)} missing after the resend; ended after "
        f"{max(trial.stop_seconds for trial in trials):.2f} s at most"
    )
    is_clean = ending == signal.SIGKILL or all(trial.exit_code == 0 for trial in trials)
    sys.exit(0 if is_clean and all(trial.is_good for trial in trials) else 1)


if __name__ == "__main__":
    main()
