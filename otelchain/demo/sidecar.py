"""The collector as a process of its own, as it runs beside an application."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO

from otelchain.demo.errors import DemoError

START_SECONDS = 60
"""Longest wait for the ready line; a cold disk may take ten seconds to import DuckDB."""
STOP_SECONDS = 30
"""Longest wait for the collector to commit what it holds and to close the file."""

_VARIABLES = "OTELCHAIN_COLLECTOR_"


@contextmanager
def running_collector(database: Path) -> Iterator[str]:
    """Run a collector on free loopback ports; give the address that takes OTLP over HTTP.

    Raises:
        DemoError: It did not start (the file is locked, newer, not a database …) or
            did not stop by itself.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = _start(database, log)
        try:
            yield f"http://{_http_address(process, log)}"
        finally:
            _stop(process)


def _start(database: Path, log: IO[str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "otelchain_collector", "--database", str(database)]
    command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    # Tokens and certificates of the user's own collector are not for this one.
    own = {name: text for name, text in os.environ.items() if not name.startswith(_VARIABLES)}
    return subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=log, text=True, env=own
    )


def _http_address(process: "subprocess.Popen[str]", log: IO[str]) -> str:
    assert process.stdout is not None
    # A reader of a pipe cannot time out on every system, so the writer is ended instead.
    with _ended_after(process, START_SECONDS):
        line = process.stdout.readline()
    if not line:
        raise DemoError(f"the collector did not start: {_last_line(log)}")
    return line.rstrip().rpartition(" http=")[2]


@contextmanager
def _ended_after(process: "subprocess.Popen[str]", seconds: int) -> Iterator[None]:
    timer = Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _last_line(log: IO[str]) -> str:
    log.seek(0)
    lines = log.read().split("\n")
    said = [line for line in lines if line.strip()] or [f"no ready line in {START_SECONDS} s"]
    return said[-1].removeprefix("Error: ")


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise DemoError(f"the collector ran on for {STOP_SECONDS} s") from error
