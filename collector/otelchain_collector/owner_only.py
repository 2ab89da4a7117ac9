"""New files for their owner only (0600): they hold what users said to models."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Final

_MASK: Final = 0o077

_lock = threading.Lock()
_inside = 0
_before = 0


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Make the files that this process creates meanwhile readable by their owner only.

    DuckDB makes a log anew after each checkpoint, so this has to last as long as a database is
    open. A file that exists keeps its mode. Any thread may enter; the mask is the whole process's.
    """
    global _inside, _before
    with _lock:
        found = os.umask(_MASK)
        if _inside == 0:
            _before = found
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                os.umask(_before)
