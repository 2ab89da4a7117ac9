"""Start a tracer's process and follow its lines; what it leaves unanswered has failed."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from otelchain.conformance.verdict import FAIL, Verdict
from otelchain.conformance.worker import CAN_FORK

# The longest probe takes a few seconds on a busy machine.
PROBE_SECONDS = 120.0


def try_all(
    tracer: str, names: Sequence[str], probe_seconds: float = PROBE_SECONDS
) -> Iterator[tuple[str, Verdict]]:
    """Try probes on a tracer in processes of its own; yields each verdict as it comes.

    Args:
        tracer: Name of the tracer.
        names: The probes.
        probe_seconds: A probe that takes longer has failed.
    """
    groups = [names] if CAN_FORK else [[name] for name in names]
    for group in groups:
        yield from _one_process(tracer, group, probe_seconds)


def _one_process(
    tracer: str, names: Sequence[str], probe_seconds: float
) -> Iterator[tuple[str, Verdict]]:
    command = [sys.executable, "-m", "otelchain.conformance.worker", tracer, f"{probe_seconds:g}"]
    unanswered = list(names)
    # A file takes any amount of complaints without anybody having to read them meanwhile.
    with (
        tempfile.TemporaryFile("w+", errors="replace") as complaints,
        subprocess.Popen(  # noqa: S603 - our own module
            [*command, *names], stdout=subprocess.PIPE, stderr=complaints, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            unanswered.remove(told["probe"])
            yield told["probe"], Verdict(told["outcome"], told["seen"])
        complaints.seek(0)
        last = (complaints.read().strip().splitlines() or ["no message"])[-1]
    for name in unanswered:
        yield name, Verdict(FAIL, f"the process died: {last}"[:300])
