"""Ended under load over both transports; tests/benchmarks/kill_collector.py does it 30 times."""

import os
import signal
from pathlib import Path

import pytest

from kill_trial import CHECKPOINT_BYTES, Request, kill_under_load, when_log_has
from otlp_requests import body, span, text


def requests(count: int) -> list[Request]:
    """Return requests of 100 spans of 10 KB."""
    found = []
    for _ in range(count):
        spans = [
            span(
                trace_id=os.urandom(16),
                span_id=os.urandom(8),
                attributes=[text("k", os.urandom(2_500).hex() * 2)],
            )
            for _ in range(100)
        ]
        found.append(Request(body(*spans), frozenset(each.span_id.hex() for each in spans)))
    return found


@pytest.mark.failure("acknowledged-then-dropped", "timeout-duplicates")
@pytest.mark.parametrize("log_bytes", [10_000_000, CHECKPOINT_BYTES])
def test_a_kill_under_load_loses_nothing_and_a_resend_doubles_nothing(
    log_bytes: int, tmp_path: Path
) -> None:
    moment = when_log_has(log_bytes, 0.05)

    trial = kill_under_load(tmp_path / "t.duckdb", requests(60), moment)

    assert trial.is_good, trial
    assert min(trial.transports) > 0


@pytest.mark.failure("acknowledged-then-dropped")
def test_sigterm_under_load_finishes_what_was_acknowledged_and_a_resend_doubles_nothing(
    tmp_path: Path,
) -> None:
    moment = when_log_has(3_000_000, 0.05)

    trial = kill_under_load(tmp_path / "t.duckdb", requests(120), moment, number=signal.SIGTERM)

    assert trial.is_good, trial
    assert (trial.exit_code, trial.log_bytes) == (0, 0)
    assert 0 < sum(trial.transports) < 120
