"""One process that answers SQL (sql_process.py), seen from the collector."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from otelchain_collector.answer import QueryFailed
from otelchain_collector.answers import too_late
from otelchain_collector.asked_sql import READY
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.questions import QuestionStoppedError
from otelchain_collector.readers import TOO_HUNGRY

# For its answer, when DuckDB in the process ends it in time, to come before the process is ended.
_GRACE_SECONDS: Final = 1.0
# Python, Arrow and DuckDB with nothing to do: 202 MiB of data on Linux.
_BASE_BYTES: Final = 256 * 1024 * 1024
# It takes half a second, more on a busy machine.
_START_SECONDS: Final = 30.0
_NOT_STARTED: Final = "the process that answers SQL did not start; ask again in a second"
_START: Final = (
    "import sys; sys.path[:] = sys.argv[4:]; "
    "from otelchain_collector.sql_process import main; main(*sys.argv[1:4])"
)
# What a Python needs to start; no token, and nothing else that is said to the collector.
_VARIABLES: Final = ("LANG", "LC_", "LD_LIBRARY_PATH", "DYLD_", "OPENBLAS_", "PATH", "SYSTEMROOT")
# The limit counts what is mapped, used or not, so nothing may be kept: after the runs of a store of
# 200,000 spans had been sorted, 435 MiB were mapped and 260 used, so 286 and 260.
_ALLOCATORS: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "DUCKDB_JE_MALLOC_CONF": "retain:false,dirty_decay_ms:200,muzzy_decay_ms:0",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

_logger = logging.getLogger(__name__)


class Limits(NamedTuple):
    """Of one process.

    Attributes:
        duckdb_bytes: What its DuckDB may use.
        data_bytes: What all of it may use.
    """

    duckdb_bytes: int
    data_bytes: int

    @classmethod
    def of(cls, memory_limit_bytes: int) -> "Limits":
        """Return the limits where the collector's own DuckDB has this one."""
        # DuckDB has to hold the log, 128 MiB of it at most, and the rest is for Arrow and JSON:
        # at 512 MiB they are 192 and 512; with a log of 121 MiB 411 MiB are taken.
        return cls(memory_limit_bytes * 3 // 8, _BASE_BYTES + memory_limit_bytes // 2)


class AnsweringProcess:
    """One process; only `kill` may be called from another thread than the one that asks."""

    def __init__(self, database: Path, limits: Limits) -> None:
        variables = {
            name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)
        }
        modules = [path for path in sys.path if Path(path).is_absolute()]
        self._is_killed = False
        self._is_late = False
        # Who leaves an answer where it is must not hand it to the next.
        self._is_amid_answer = False
        self._seconds = 0.0
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, with our own code
                [sys.executable, "-I", "-c", _START, str(database), *map(str, limits), *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**variables, **_ALLOCATORS},
            )
        except OSError as error:  # No descriptors, processes or memory left.
            _logger.exception("the process that answers SQL cannot be started")
            raise StoreUnavailableError(_NOT_STARTED) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        with _Deadline(_START_SECONDS, self.kill):
            if self._answers.readline() != READY:
                self.end()
                raise StoreUnavailableError(_NOT_STARTED)

    @property
    def may_go_on(self) -> bool:
        """Whether it can answer another question."""
        return not (self._is_killed or self._is_amid_answer)

    def is_alive(self) -> bool:
        """Whether it has not ended, as it does when nobody asks for a while."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._is_killed = True
        self._process.kill()

    def end(self) -> None:
        """Kill it, and leave nothing of it behind."""
        self.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with suppress(OSError):  # What was written last has not been read.
                pipe.close()

    def send(self, request: bytes, max_seconds: float) -> dict[str, Any]:
        """Send a question and return the header of its answer."""
        self._seconds = max_seconds
        self._is_late = False
        self._is_amid_answer = True
        with self._in_time():
            with suppress(BrokenPipeError):
                self._questions.write(request + b"\n")
                self._questions.flush()
            line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        header: dict[str, Any] = orjson.loads(line)
        self._is_amid_answer = header["bytes"] > 0 or header["is_last"]
        return header

    def receive(self, size: int) -> bytes:
        """Return the bytes of an answer."""
        with self._in_time():
            body = self._answers.read(size)
        if len(body) < size:
            raise self._ended()
        self._is_amid_answer = False
        return body

    def _in_time(self) -> "_Deadline":
        return _Deadline(self._seconds + _GRACE_SECONDS, self._stop_late)

    def _stop_late(self) -> None:
        self._is_late = True
        self.kill()

    def _ended(self) -> Exception:
        was_killed = self._is_killed
        self.kill()
        code = self._process.wait()
        if self._is_late:
            return QueryFailed(too_late(self._seconds))
        if was_killed:
            return QuestionStoppedError("the question was stopped")
        if code == 0:
            return HadEndedError()
        if (
            code == -signal.SIGKILL
        ):  # The system has no memory left, and this is whom it ends first.
            return QuestionStoppedError(TOO_HUNGRY)
        _logger.warning("a question ended the process that answered it, with status %d", code)
        return QuestionStoppedError(
            f"the question broke the process that answered it (status {code}); "
            "ask it in smaller parts"
        )


class HadEndedError(StoreUnavailableError):
    """The process ended by itself, because nobody had asked for a while."""


class _Deadline:
    def __init__(self, seconds: float, late: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, late)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
