"""The batches that wait: one file each, in the directories that this process owns."""

import logging
import os
import re
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from otelchain.errors import ConfigurationError
from otelchain.spool import locks
from otelchain.spool.locks import OwnedDirectory

_log = logging.getLogger("otelchain")

_BATCH = re.compile(r"\d{20}-(?P<spans>\d+)\.otlp(?P<aside>\.corrupt|\.refused)?")
_TEMPORARY = ".tmp"
CORRUPT = ".corrupt"
REFUSED = ".refused"


@dataclass(frozen=True, order=True)
class StoredBatch:
    """A file with one request; its name begins with the time, so names sort by age."""

    name: str
    path: Path
    size_bytes: int
    span_count: int

    def read(self) -> bytes:
        """Return the request.

        Raises:
            OSError: The file is gone or cannot be read.
        """
        return self.path.read_bytes()


class Spool:
    """Waiting batches, oldest first, within a number of bytes.

    Not thread-safe: the exporter calls it under its lock.

    Raises:
        ConfigurationError: Nothing can be written to the directory.
    """

    def __init__(self, root: Path, max_bytes: int) -> None:
        if not locks.SUPPORTED:
            raise ConfigurationError(
                "the spool needs POSIX file locks, which this platform lacks; "
                "leave spool and OTELCHAIN_SPOOL unset"
            )
        self.root = root.expanduser().absolute()
        self._max_bytes = max_bytes
        self._own: OwnedDirectory | None = _made(self.root)
        self._adopted: list[OwnedDirectory] = []
        self._waiting: deque[StoredBatch] = deque()
        self._aside: deque[StoredBatch] = deque()
        self._size_bytes = 0
        self._last_time_unix_nano = 0
        self._dropped_spans = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def span_count(self) -> int:
        """How many spans wait."""
        return sum(batch.span_count for batch in self._waiting)

    def write(self, content: bytes, span_count: int) -> StoredBatch:
        """Put a batch behind the others; the oldest ones go if it does not fit.

        Raises:
            OSError: It could not be written, or is larger than the spool.
        """
        self._make_room(len(content))
        self._last_time_unix_nano = max(time.time_ns(), self._last_time_unix_nano + 1)
        name = f"{self._last_time_unix_nano:020d}-{span_count}.otlp"
        batch = StoredBatch(name, self._written(name, content), len(content), span_count)
        self._waiting.append(batch)
        self._size_bytes += batch.size_bytes
        return batch

    def take(self) -> StoredBatch | None:
        """Hand out the oldest batch; it stays on disk until it is deleted or set aside."""
        return self._waiting.popleft() if self._waiting else None

    def put_back(self, batch: StoredBatch) -> None:
        """Make a batch that was handed out the oldest again."""
        self._waiting.appendleft(batch)

    def delete(self, batch: StoredBatch) -> None:
        """Delete a batch that was handed out: it is sent, or gone."""
        with suppress(OSError):
            batch.path.unlink()
        self._size_bytes -= batch.size_bytes
        if not self._waiting:
            self._release_adopted()

    def withdraw(self, batch: StoredBatch) -> None:
        """Delete a batch that waits, unless it was dropped meanwhile."""
        with suppress(ValueError):
            self._waiting.remove(batch)
            self.delete(batch)

    def set_aside(self, batch: StoredBatch, suffix: str) -> None:
        """Keep a batch that was handed out for a person to look at, and send it no more."""
        path = batch.path.with_name(batch.name + suffix)
        try:
            batch.path.rename(path)
        except OSError:
            self._size_bytes -= batch.size_bytes
        else:
            self._aside.append(replace(batch, name=path.name, path=path))

    def adopt(self) -> None:
        """Take over the batches of processes that are gone."""
        for directory in locks.left_behind(self.root):
            self._adopted.append(directory)
            with suppress(OSError):  # somebody deletes it
                self._read(directory.path)
        self._release_adopted()
        with suppress(OSError):  # one batch that is being sent is larger than the spool
            self._make_room(0)

    def close(self) -> None:
        """Leave what is left to other processes."""
        for directory in self._directories():
            directory.release()
        self._own, self._adopted = None, []

    def tell_dropped(self) -> None:
        """Log how many spans were dropped since the last time."""
        if self._dropped_spans:
            _log.warning("%d spans were dropped from the full spool", self._dropped_spans)
            self._dropped_spans = 0

    def forget(self) -> None:
        """Be empty in a forked child: the batches are its parent's."""
        for directory in self._directories():
            directory.close()
        self._own, self._adopted = None, []
        self._waiting.clear()
        self._aside.clear()
        self._size_bytes = self._dropped_spans = 0

    def _directories(self) -> list[OwnedDirectory]:
        return [*self._adopted, *([self._own] if self._own else [])]

    def _written(self, name: str, content: bytes) -> Path:
        if self._own is not None:
            # Somebody may have emptied the spool's directory: then start anew.
            with suppress(FileNotFoundError):
                return _write(self._own.path / name, content)
            self._own.close()
        self._own = locks.make(self.root)
        return _write(self._own.path / name, content)

    def _read(self, directory: Path) -> None:
        """Queue what a process left, and delete what it had not finished to write."""
        found: list[StoredBatch] = []
        for entry in os.scandir(directory):
            path = Path(entry.path)
            if path.suffix == _TEMPORARY:
                path.unlink()
            elif match := _BATCH.fullmatch(path.name):
                batch = StoredBatch(path.name, path, entry.stat().st_size, int(match["spans"]))
                self._size_bytes += batch.size_bytes
                (self._aside if match["aside"] else found).append(batch)
        self._waiting = deque(sorted([*self._waiting, *found]))

    def _release_adopted(self) -> None:
        """Give up the directories of others from which everything is sent."""
        for directory in [each for each in self._adopted if each.is_empty()]:
            self._adopted.remove(directory)
            directory.release()

    def _make_room(self, size_bytes: int) -> None:
        """Drop what was set aside first, then the oldest."""
        while self._size_bytes + size_bytes > self._max_bytes:
            if not self._aside and not self._waiting:
                raise OSError(f"a batch of {size_bytes} bytes does not fit into the spool")
            batch = (self._aside or self._waiting).popleft()
            if not self._dropped_spans:
                _log.warning(
                    "the spool %s is full (%d bytes): the oldest spans are dropped",
                    self.root,
                    self._max_bytes,
                )
            self._dropped_spans += batch.span_count
            self.delete(batch)


def _made(root: Path) -> OwnedDirectory:
    try:
        return locks.make(root)
    except OSError as error:
        raise ConfigurationError(
            f"the spool directory {root} cannot be used: {error.strerror}; "
            "name one that this process may create or write"
        ) from error


def _write(path: Path, content: bytes) -> Path:
    """Write a file that is whole whenever it is seen, also after a power cut."""
    temporary = path.with_suffix(_TEMPORARY)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync(path.parent)
    return path


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
