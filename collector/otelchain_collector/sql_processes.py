"""SQL that somebody wrote, answered by processes of their own (sql_process.py).

A question so takes neither the memory nor the processor nor the database from what collects, and
ends when it must: its process is killed.
"""

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import duckdb
import orjson

from otelchain_collector.answer import QueryFailed
from otelchain_collector.answering_process import AnsweringProcess, HadEndedError, Limits
from otelchain_collector.asked_sql import AskedSql
from otelchain_collector.checkpoint_lease import CheckpointLeases
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.open_database import FileState
from otelchain_collector.questions import Asker, Lane, QuestionStoppedError
from otelchain_collector.readers import TOO_HUNGRY

#: DuckDB 1.5 looks for each name on the disk whose ``://`` is not its own (live_file.py).
CAN_READ: Final = int(duckdb.__version__.partition(".")[0]) >= 2 and sys.platform != "win32"
#: A question that runs for its whole time leaves another way for the others.
PROCESSES: Final = 2

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


class Answered(NamedTuple):
    """An answer as it travels over HTTP."""

    body: bytes
    has_more: bool


class SqlProcesses(Lane):
    """Answers SQL; processes are started when they are needed.

    Args:
        database: The collector's file.
        leases: Keep the file as it is.
        memory_limit_bytes: What the collector's DuckDB may use.
    """

    def __init__(self, database: Path, leases: CheckpointLeases, memory_limit_bytes: int) -> None:
        super().__init__(PROCESSES, "otelchain-sql")
        self._database = database.absolute()
        self._leases = leases
        self._limits = Limits.of(memory_limit_bytes)
        self._idle: list[AnsweringProcess] = []
        self._lock = threading.Lock()

    async def answer(self, ask: Callable[["Session"], Result], asker: Asker) -> Result:
        """Ask in a process of its own; raises as `Lane.run` does, and what ``ask`` raises.

        Args:
            ask: Works with the session that it gets.
            asker: Who asks.

        Raises:
            StoreUnavailableError: The file cannot be read now, or had to be changed meanwhile.
        """
        return await self.run(lambda: _Asking(self, ask), asker)

    def close(self) -> bool:
        """End every process."""
        ended = super().close()
        with self._lock:
            while self._idle:
                self._idle.pop().end()
        return ended

    def take(self) -> AnsweringProcess:
        """Return a process that has nothing to do."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive():
                    return process
                process.end()
        return AnsweringProcess(self._database, self._limits)

    def give_back(self, process: AnsweringProcess) -> None:
        """Keep a process for the next question."""
        with self._lock:
            self._idle.append(process)

    def session(self, process: AnsweringProcess, ask: Callable[["Session"], Result]) -> Result:
        """Ask while the file stays as it is."""
        with self._leases.held() as state:
            return ask(Session(process, state))


class _Asking(Generic[Result]):
    def __init__(self, processes: SqlProcesses, ask: Callable[["Session"], Result]) -> None:
        self._processes, self._ask = processes, ask
        self._process: AnsweringProcess | None = None
        self._is_stopped = False

    def run(self) -> Result:
        try:
            return self._asked()
        except HadEndedError:  # In the moment that it was taken.
            return self._asked()

    def _asked(self) -> Result:
        self._process = process = self._processes.take()
        if self._is_stopped:  # Whoever stopped it may not have seen the process.
            process.kill()
        try:
            return self._processes.session(process, self._ask)
        finally:
            if process.may_go_on and not self._is_stopped:
                self._processes.give_back(process)
            else:
                process.end()

    def interrupt(self) -> None:
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        pass


class Session:
    """A process that sees one state of the file."""

    def __init__(self, process: AnsweringProcess, state: FileState) -> None:
        self._process, self._state = process, state

    def ask(
        self, asked: AskedSql, max_seconds: float, *, arrow: bool, hold: Callable[[int], None]
    ) -> Answered:
        """Ask one statement.

        Args:
            asked: The statement.
            max_seconds: Longest time it may run.
            arrow: Whether the answer is an Arrow IPC stream, instead of JSON.
            hold: Hears of the bytes of the answer before they come, and may raise.

        Raises:
            QueryFailed: It is wrong, not allowed, or took too long.
            QuestionStoppedError: It needs too much memory, or broke its process.
            StoreUnavailableError: The file cannot be read now.
        """
        request = {
            "asked": asdict(asked),
            "max_seconds": max_seconds,
            "arrow": arrow,
            "state": list(self._state),
        }
        header = self._process.send(orjson.dumps(request), max_seconds)
        if header["kind"] == "memory":
            raise QuestionStoppedError(TOO_HUNGRY)
        if header["kind"] == "again":
            _logger.warning("a question could not open the database: %s", header["error"])
            raise StoreUnavailableError("the database cannot be read now; ask in a second")
        if header["kind"] == "wrong":
            raise QueryFailed(header["error"])
        hold(header["bytes"])
        return Answered(self._process.receive(header["bytes"]), bool(header["has_more"]))
