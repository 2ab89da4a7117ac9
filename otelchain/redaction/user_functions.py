"""Functions of the user: called on a text, timed, and given up when they are broken or slow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from otelchain.redaction.replacing import failed
from otelchain.redaction.tally import Tally

_log = logging.getLogger("otelchain")

# A function that waits (for a service, a lock) holds up the application on every text. Python
# cannot interrupt it, so after so many overruns in a row it is not called for a while.
OVERRUNS = 3
PAUSE_SECONDS = 60.0


class UserFunction:
    """One function of the user; safe to share between threads as far as the function is.

    Args:
        name: Stands in the text that replaces what it fails on.
        function: From text to text.
        budget_seconds: Time, waiting included, after which the text is given up. Measured when the
            function returns.
    """

    def __init__(self, name: str, function: Callable[[str], str], budget_seconds: float) -> None:
        self.name = name
        self._function = function
        self._budget_seconds = budget_seconds
        self._overruns = 0
        self._paused_until = 0.0

    def __call__(self, text: str, tally: Tally) -> str:
        """Give what the function makes of the text; a mark when it raises, or takes too long."""
        started = time.monotonic()
        result = None
        if started >= self._paused_until:
            try:
                result = self._function(text)
            except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
                result = None
            if not self._in_time(started):
                result = None
        if not isinstance(result, str):
            tally.failed(self.name)
            return failed(self.name)
        if result != text:
            tally.found(self.name, 0, len(text))
        return result

    def _in_time(self, started: float) -> bool:
        ended = time.monotonic()
        if ended - started <= self._budget_seconds:
            self._overruns = 0
            return True
        self._overruns += 1
        if self._overruns >= OVERRUNS:
            self._overruns = 0
            self._paused_until = ended + PAUSE_SECONDS
            _log.error(
                "redaction function %s took longer than its budget %d times in a row; for %d "
                "seconds it is not called, and its texts are replaced",
                self.name,
                OVERRUNS,
                PAUSE_SECONDS,
            )
        return False
