"""`Outage`: how long to pause after failures, and what to tell the user about them."""

import logging
import random
import time
from pathlib import Path

_log = logging.getLogger("otelchain")

_LONGEST_PAUSE_SECONDS = 30.0


class Outage:
    """From the first batch that the collector did not take until the spool is empty again.

    The user gets one line when it begins and one when it is over.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._announced = False
        self._failures = 0
        #: No batch of the spool is to be sent before this time.monotonic().
        self.retry_at = 0.0

    def __bool__(self) -> bool:
        return self._failures > 0

    def failed(self) -> None:
        """Pause longer after each failure, and not in step with other processes."""
        pause = min(2.0**self._failures, _LONGEST_PAUSE_SECONDS)
        self.retry_at = time.monotonic() + pause * random.uniform(0.8, 1.2)  # noqa: S311
        self._failures = min(self._failures + 1, 10)
        if not self._announced:
            self._announced = True
            _log.warning("the collector takes no spans; they wait in %s", self._root)

    def accepted(self) -> None:
        """Pause no more."""
        self._failures, self.retry_at = 0, 0.0

    def over(self) -> None:
        """Say that nothing waits any more."""
        if self._announced and not self:
            self._announced = False
            _log.warning("the collector takes spans again, and the spool is empty")
