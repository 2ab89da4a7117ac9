"""Answers from a database file, open only while it answers, or for one command (`held`)."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from otelchain.reading.source import NO_ANSWER, Source, SourceError
from otelchain_collector.answer import DEFAULT_MAX_SECONDS

if TYPE_CHECKING:
    import duckdb

    from otelchain_collector.answer import Answer, ArrowAnswer
    from otelchain_collector.discovery import Discovery
    from otelchain_queries import Query

AnyAnswer = TypeVar("AnyAnswer", "Answer", "ArrowAnswer")

_logger = logging.getLogger(__name__)
# What was warned of already: a file is opened for each question.
_warned: Final[set[str]] = set()


class FileSource:
    """A database file that no collector has open, as far as we know.

    Args:
        database: The file.
        collector: One that says that it has the file open, but does not answer.
        silence: Why it does not answer.
        max_seconds: Longest time that a question may run.
    """

    def __init__(
        self,
        database: Path,
        collector: "Discovery | None" = None,
        silence: str = "",
        *,
        max_seconds: float = DEFAULT_MAX_SECONDS,
    ) -> None:
        self._database = database
        self._max_seconds = max_seconds
        self._collector = collector
        self._silence = silence
        self._open: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def held(self) -> Iterator[Source]:
        """Open the file once for all questions in the block.

        Raises:
            SourceError: The file is missing, locked, or not one that this version can read.
        """
        self._open = self._connect()
        try:
            yield self
        finally:
            self._open.close()
            self._open = None

    def query(self, query: "Query", values: Mapping[str, str]) -> "Answer":
        """Answer a named query.

        Raises:
            SourceError: The file is missing, locked, or not one that this version can read.
            QueryFailed: A value has the wrong form, or the query took too long.
        """
        from otelchain_collector.answers import answer_query

        return self._ask(
            lambda connection: answer_query(
                connection, query, values, max_seconds=self._max_seconds
            )
        )

    def sql(self, sql: str, max_rows: int) -> "Answer":
        """Answer one SELECT.

        Raises:
            SourceError: The file is missing, locked, or not one that this version can read.
            QueryFailed: The statement is not one SELECT, is wrong, or took too long.
        """
        from otelchain_collector.answers import answer_sql

        return self._ask(
            lambda connection: answer_sql(
                connection, sql, max_rows=max_rows, max_seconds=self._max_seconds
            )
        )

    def query_arrow(self, query: "Query", values: Mapping[str, str]) -> "ArrowAnswer":
        """Answer a named query with DuckDB's types; raises as `query` does."""
        from otelchain_collector.answers import answer_query, as_arrow

        return self._ask(
            lambda connection: answer_query(
                connection, query, values, form=as_arrow, max_seconds=self._max_seconds
            )
        )

    def sql_arrow(self, sql: str, max_rows: int) -> "ArrowAnswer":
        """Answer one SELECT with DuckDB's types; raises as `sql` does."""
        from otelchain_collector.answers import answer_sql, as_arrow

        return self._ask(
            lambda connection: answer_sql(
                connection, sql, max_rows=max_rows, form=as_arrow, max_seconds=self._max_seconds
            )
        )

    def _ask(self, ask: "Callable[[duckdb.DuckDBPyConnection], AnyAnswer]") -> "AnyAnswer":
        with self._opened() as connection:
            return _interruptible(connection, lambda: ask(connection))

    @contextmanager
    def _opened(self) -> Iterator["duckdb.DuckDBPyConnection"]:
        if self._open is None:
            with closing(self._connect()) as connection:
                yield connection
            return
        try:
            yield self._open
        except Exception:
            # What has failed may leave a result open, which no other question gets past.
            self._open.close()
            self._open = self._connect()
            raise

    def _connect(self) -> "duckdb.DuckDBPyConnection":
        import duckdb

        from otelchain_collector.salvage import damage_of_log

        self.check()
        damage = damage_of_log(self._database)
        try:
            connection = duckdb.connect(str(self._database), read_only=True)
        except duckdb.Error as error:
            if damage is not None:
                raise SourceError(f"{damage.what}; {damage.remedy}") from error
            raise SourceError(self._not_opened(str(error))) from error
        if damage is not None and damage.what not in _warned:
            _warned.add(damage.what)
            _logger.warning(
                "%s, and their spans are missing from the answers; %s", damage.what, damage.remedy
            )
        try:
            _check_schema(connection, self._database)
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self) -> None:
        """Raise `SourceError` when there is no such file."""
        database = self._database
        try:
            exists = database.exists()
        except PermissionError as error:
            raise SourceError(_forbidden(database)) from error
        if not exists:
            raise SourceError(
                f"there is no database {str(database)!r}; name another with --database, or make "
                "one with 'otelchain collector' or 'otelchain demo'"
            )
        if not database.is_file():
            raise SourceError(
                f"{str(database)!r} is not a file; name a DuckDB file with --database"
            )

    def _not_opened(self, said: str) -> str:
        name = repr(str(self._database))
        holder = re.search(r"held in (?P<program>.*?)\s*\(PID (?P<pid>\d+)\)", said)
        if holder and self._collector and int(holder["pid"]) == self._collector.pid:
            return _silent(name, self._collector, self._silence)
        if holder:
            return (
                f"{name} is locked by process {holder['pid']} ({holder['program']}); if it is a "
                "collector, ask it with --endpoint, otherwise end that process"
            )
        if "Permission denied" in said:
            return _forbidden(self._database)
        if "version number" in said:
            return (
                f"{name} was written by a newer DuckDB than the one installed; upgrade it with: "
                "pip install -U duckdb"
            )
        if "not a valid DuckDB database" in said:
            return f"{name} is not a DuckDB database; name another with --database"
        return f"cannot open {name}: {said.splitlines()[0]}"


def _forbidden(database: Path) -> str:
    return (
        f"you may not read {str(database)!r} (permission denied); ask as its owner, or the "
        "collector that has it with --endpoint"
    )


def _silent(name: str, collector: "Discovery", silence: str) -> str:
    pid = collector.pid
    if silence == NO_ANSWER:
        silence += f"; if it was stopped, 'kill -CONT {pid}' lets it go on"
    return (
        f"{name} is open in the collector with PID {pid}, which does not answer at "
        f"{collector.endpoint} ({silence}); nothing else can read the file until it ends"
    )


def _interruptible(
    connection: "duckdb.DuckDBPyConnection", ask: "Callable[[], AnyAnswer]"
) -> "AnyAnswer":
    """Ask in another thread: while it works, DuckDB 1.5 does not notice Ctrl-C."""
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(ask)
        try:
            return answer.result()
        except KeyboardInterrupt:
            # Again and again, since an interrupt before the statement has begun does nothing.
            while not answer.done():
                connection.interrupt()
                wait([answer], 0.05)
            raise


def _check_schema(connection: "duckdb.DuckDBPyConnection", database: Path) -> None:
    from otelchain_collector.schema import LATEST_VERSION, too_new, version_of

    version = version_of(connection)
    if version == 0:
        raise SourceError(
            f"{str(database)!r} holds no traces of otelchain; name another with --database"
        )
    if version > LATEST_VERSION:
        raise SourceError(f"{str(database)!r} {too_new(version)}")
    if version < LATEST_VERSION:
        raise SourceError(
            f"{str(database)!r} has schema version {version}, older than {LATEST_VERSION}; bring "
            f"it up to date with: otelchain collector --database {database}"
        )
