"""What the event loop cannot give to anybody, told at most once a minute of each kind.

Whoever opens connections until there are no descriptors left makes accept() fail some thousand
times a second; asyncio would write a traceback for each.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from typing import Any, Final

_SECONDS: Final = 60.0
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)

_logger = logging.getLogger(__name__)


class LoopFaults:
    """The loop's exception handler (``set_exception_handler``).

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[tuple[object, ...], float] = {}
        self._untold: dict[tuple[object, ...], int] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Tell of a fault, unless one like it was told just now."""
        error = context.get("exception")
        # Not the message, which names the object that it is about.
        kind = (type(error), getattr(error, "errno", None))
        now = self._clock()
        if now - self._told.get(kind, -_SECONDS) < _SECONDS:
            self._untold[kind] = self._untold.get(kind, 0) + 1
            return
        self._told[kind] = now
        untold = self._untold.pop(kind, 0)
        if untold:
            _logger.warning("of what follows there were %d more since it was told last", untold)
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
            _logger.error(
                "no connection can be accepted: there are no file descriptors left; raise the "
                "limit (ulimit -n), or lower --max-connections"
            )
        else:
            loop.default_exception_handler(context)
