"""Limits that the operating system keeps, whatever the code of this process does."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

# A third of the weight that the receivers and the application have; with 10 a question starves
# beside an application that is busy.
_NICENESS: Final = 5
_CPU_GRACE_SECONDS: Final = 5


def restrict_memory(data_bytes: int) -> None:
    """Let an allocation fail beyond so many bytes, write no file, and be the first to be killed.

    The bytes are those that this process alone has and may write. Where the system has no such
    limits (Windows), or keeps them loosely (macOS), nothing else takes their place.
    """
    with suppress(OSError):  # Linux: whom it kills first when a container has no memory left.
        Path("/proc/self/oom_score_adj").write_text("1000")
    if sys.platform == "win32":
        return
    import resource

    with suppress(OSError):
        os.nice(_NICENESS)
    for limit, value in (
        (resource.RLIMIT_DATA, data_bytes),
        (resource.RLIMIT_FSIZE, 0),
        # It would hold what the question has read.
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (value, value))


def restrict_time(seconds: float) -> None:
    """End this process when it has worked for so much longer, even if nobody is there to do it."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + _CPU_GRACE_SECONDS
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
