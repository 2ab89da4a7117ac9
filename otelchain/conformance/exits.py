"""A process that starts a run and exits, for the probe ``ends-at-exit``."""

import atexit
import sys
import uuid
from contextlib import ExitStack
from typing import Any

from otelchain.conformance.spans import SpanLog
from otelchain.conformance.subject import Options
from otelchain.conformance.tracers import find
from otelchain.conformance.trial import trial

_logs: list[SpanLog] = []
# Kept open: the process exits in the middle of the trial.
_open = ExitStack()


def _print_count() -> None:
    for log in _logs:
        print(log.count())  # noqa: T201 - read by the probe


def main(tracer: str) -> None:
    """Start one run of a tool and leave it open."""
    # Exit functions run last in, first out: registered first, ours sees what the tracer's did.
    atexit.register(_print_count)
    surroundings = _open.enter_context(trial(find(tracer), Options()))
    _logs.append(surroundings.log)
    hooks: Any = surroundings.hooks
    hooks.on_tool_start({"name": "t"}, "x", run_id=uuid.uuid4(), parent_run_id=None)


if __name__ == "__main__":
    main(sys.argv[1])
