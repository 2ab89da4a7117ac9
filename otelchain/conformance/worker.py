"""One tracer in a process of its own: tries the probes it is told, and prints a line for each.

Tracers patch LangChain globally, leak context and do not take everything back, so each probe runs
in a child forked from a process that has imported what is slow to import. Where there is no fork,
a worker is started for each probe.
"""

import json
import os
import select
import signal
import sys
import warnings

from otelchain.conformance.probe import Probe, all_probes, attempt
from otelchain.conformance.subject import Subject
from otelchain.conformance.tracers import find, preload
from otelchain.conformance.verdict import FAIL, Verdict

CAN_FORK = hasattr(os, "fork")


def main(arguments: list[str]) -> None:
    """Try the probes that are named after the tracer's name and the seconds each may take."""
    tracer, seconds, *names = arguments
    # Only this process's lines may reach the parent: tracers and applications print too.
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    subject = find(tracer)
    chosen = {each.name: each for each in all_probes()}
    preload(subject)
    for name in names:
        verdict = _try(chosen[name], subject, float(seconds))
        line = {"probe": name, "outcome": verdict.outcome, "seen": verdict.seen}
        lines.write(json.dumps(line) + "\n")


def _try(probe: Probe, subject: Subject, seconds: float) -> Verdict:
    return _in_child(probe, subject, seconds) if CAN_FORK else attempt(probe, subject)


def _in_child(probe: Probe, subject: Subject, seconds: float) -> Verdict:
    """Try a probe in a forked child; a child that hangs or dies has failed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _tell(writer, attempt(probe, subject))
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not select.select([pipe], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Verdict(FAIL, f"not done after {seconds:g} s")
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if not told:
        return Verdict(FAIL, f"the process died: status {status}")
    return Verdict(**json.loads(told))


def _tell(writer: int, verdict: Verdict) -> None:
    """Write a verdict and leave, without the exit functions that belong to the parent."""
    text = json.dumps({"outcome": verdict.outcome, "seen": verdict.seen})
    os.write(writer, text.encode(errors="replace"))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
