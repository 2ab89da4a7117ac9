"""What time it is for deleting: a clock that somebody sets must not make old what is new."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

_SECOND: Final = 1_000_000_000
# What a time server corrects in one step is less.
_MOST_DRIFT_SECONDS: Final = 60.0
# For so long a clock has to go on as it was set, until it is believed.
_DISTRUST_SECONDS: Final = 3_600.0

_logger = logging.getLogger(__name__)


def _steady() -> float:
    """Return seconds of a clock that nobody sets and that goes on while the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class RetentionClock:
    """Compares the clock that gives rows their time with one that nobody sets.

    Args:
        now: The one, in nanoseconds since 1970.
        steady: The other, in seconds.
    """

    def __init__(
        self, now: Callable[[], int] = time.time_ns, steady: Callable[[], float] = _steady
    ) -> None:
        #: The time that rows are given, in nanoseconds since 1970.
        self.now = now
        self._steady = steady
        self._last_unix_nano, self._last_steady = now(), steady()
        self._started = self._last_steady
        self._earliest_unix_nano = self._last_unix_nano
        self._distrusted_until = 0.0

    def look(self) -> int | None:
        """Return the time, in nanoseconds since 1970; None when it has just been set."""
        now, steady = self.now(), self._steady()
        drift_seconds = (now - self._last_unix_nano) / _SECOND - (steady - self._last_steady)
        self._last_unix_nano, self._last_steady = now, steady
        self._earliest_unix_nano = min(self._earliest_unix_nano, now)
        if abs(drift_seconds) > _MOST_DRIFT_SECONDS:
            self._distrusted_until = steady + _DISTRUST_SECONDS
            _logger.warning(
                "retention: the clock was set by %+.0f s; nothing is deleted by age for %.0f min",
                drift_seconds,
                _DISTRUST_SECONDS / 60,
            )
        return now if steady >= self._distrusted_until else None

    def latest_end(self, age_seconds: int) -> int | None:
        """Return the time at which what arrived cannot be that old yet; None for no such time.

        That is what this process has stored, whatever its clock said then.
        """
        if self._steady() - self._started >= age_seconds:
            return None
        return self._earliest_unix_nano
