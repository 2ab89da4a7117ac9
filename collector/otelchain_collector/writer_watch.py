"""What the writer's thread is at, for readiness and metrics; written by that thread only."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Observe = Callable[[float], None]


def _nobody(_: float) -> None:
    pass


class WriterWatch:
    """Times commits and checkpoints.

    Attributes:
        before_commit: Called before each commit and checkpoint.
        on_commit: Called with the seconds that a successful commit took.
        on_checkpoint: Called with the seconds that a checkpoint took.
        last_commit_time: Seconds since the epoch of the last successful commit; None before it.
    """

    def __init__(self) -> None:
        self.before_commit: Callable[[], None] = lambda: None
        self.on_commit: Observe = _nobody
        self.on_checkpoint: Observe = _nobody
        self.last_commit_time: float | None = None
        self._busy_since: float | None = None

    @property
    def busy_seconds(self) -> float:
        """How long the commit or checkpoint that runs now has run; 0 when none does."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Time the block, which raises when the commit fails."""
        with self._timed(self._committed):
            self.before_commit()
            yield

    @contextmanager
    def checkpointing(self) -> Iterator[None]:
        """Time the block."""
        with self._timed(self.on_checkpoint):
            self.before_commit()
            yield

    def _committed(self, seconds: float) -> None:
        self.last_commit_time = time.time()
        self.on_commit(seconds)

    @contextmanager
    def _timed(self, observe: Observe) -> Iterator[None]:
        started = self._busy_since = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None
        observe(time.monotonic() - started)
