"""Which process a directory belongs to: the one that holds the lock on a file in it."""

import os
import re
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_LOCK = "lock"
#: The spool's directory may hold other things; only these are ours to open and delete.
_NAME = re.compile(r"otelchain-\d+-[0-9a-f]{16}")

SUPPORTED = sys.platform != "win32"


@dataclass(frozen=True)
class OwnedDirectory:
    """A directory that no other process touches until it is released.

    The lock belongs to the open file, so the kernel drops it when the process dies. A forked child
    shares the open file; it must close its copy, which leaves the lock to the parent.
    """

    path: Path
    lock: int

    def is_empty(self) -> bool:
        """Say whether nothing but the lock is in it."""
        try:
            return [path.name for path in self.path.iterdir()] == [_LOCK]
        except OSError:
            return True  # somebody deleted it

    def release(self) -> None:
        """Leave it to whoever looks next; an empty one is deleted."""
        with suppress(OSError):
            if self.is_empty():
                (self.path / _LOCK).unlink()
                self.path.rmdir()
        self.close()

    def close(self) -> None:
        """Close the lock's file and touch nothing."""
        with suppress(OSError):
            os.close(self.lock)


def make(root: Path) -> OwnedDirectory:
    """Make a directory for this process.

    Raises:
        OSError: The root cannot be made or written.
    """
    while True:
        path = root / f"otelchain-{os.getpid()}-{secrets.token_hex(8)}"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        # Another process may take the new directory for one that was left, and delete it.
        with suppress(FileNotFoundError):
            owned = _lock(path)
            if owned is not None:
                return owned


def left_behind(root: Path) -> list[OwnedDirectory]:
    """Take every directory whose process is gone."""
    found = []
    with suppress(OSError):
        for path in root.iterdir():
            if _NAME.fullmatch(path.name):
                with suppress(OSError):  # deleted meanwhile, or of another user
                    found.append(_lock(path))
    return [owned for owned in found if owned is not None]


def _lock(path: Path) -> OwnedDirectory | None:
    """Take a directory unless another process holds it."""
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The former owner may have deleted the file after it was opened here.
        if os.path.samestat(os.fstat(lock), (path / _LOCK).stat()):
            return OwnedDirectory(path, lock)
    except OSError:
        pass
    os.close(lock)
    return None
