"""A file that stays as it is while another process reads it: no checkpoint, for a while."""

from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager
from typing import Final

from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.open_database import FileState, OpenDatabase
from otelchain_collector.writer import Writer

# A commit of the largest batch and a checkpoint that is due fit into this.
_LEASE_SECONDS: Final = 5.0


class CheckpointLeases:
    """Gives leases; from any thread but the writer's."""

    def __init__(self, writer: Writer, database: OpenDatabase) -> None:
        self._writer, self._database = writer, database

    @contextmanager
    def held(self) -> Iterator[FileState]:
        """Yield the state that file and log have, and keep while the block runs.

        Raises:
            StoreUnavailableError: There is none now, or the block ended after a checkpoint that
                could not wait, so that what it has read may be of no use.
        """
        state = self._taken(self._writer.between_commits(self._take))
        try:
            yield state
        except Exception as error:
            self._check(state, error)
            raise
        finally:
            self._writer.between_commits(self._writer.checkpoints.release_for_question)
        self._check(state, None)

    def _take(self) -> FileState:
        self._writer.checkpoint_if_due()
        self._writer.checkpoints.hold_for_question()
        try:
            return self._database.file_state()
        except BaseException:
            self._writer.checkpoints.release_for_question()
            raise

    def _taken(self, lease: "Future[FileState]") -> FileState:
        try:
            return lease.result(_LEASE_SECONDS)
        except NotInTime as error:
            if lease.cancel():
                raise StoreUnavailableError(
                    "commits take too long; ask again in a second"
                ) from error
            return lease.result()

    def _check(self, state: FileState, cause: Exception | None) -> None:
        if self._database.checkpoints != state.checkpoints:
            raise StoreUnavailableError(
                "so much was stored while the question ran that the file had to be rearranged; "
                "ask again in a second, for a shorter time or fewer rows"
            ) from cause
