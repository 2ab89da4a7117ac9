"""A line on the terminal while something takes long: that it goes on, and for how long."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PATIENCE_SECONDS: Final = 1.0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is waited for when the block takes more than a second.

    On standard error, and only when that is a terminal; the line is gone when the block ends.

    Args:
        what: A few words.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: threading.Event) -> None:
    begin = time.monotonic()
    told = False
    while not done.wait(_PATIENCE_SECONDS):
        told = True
        # A longer line would wrap, and only its end be cleared.
        room = shutil.get_terminal_size().columns - 1
        line = f"{what}, {time.monotonic() - begin:.0f} s"[:room]
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
    if told:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
