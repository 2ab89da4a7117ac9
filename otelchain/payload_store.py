"""Payloads that were cut → whole and redacted, in a directory or wherever the user puts them.

The application's thread writes the JSON and its hash; redaction and storing happen on a thread of
the store. What waits is bounded; what does not fit is dropped and counted, and its attribute then
has no reference.
"""

import atexit
import logging
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import orjson

# Private by name, but it is how every exporter keeps its own requests from becoming spans.
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value
from opentelemetry.util.types import AttributeValue

from otelchain import attributes as names
from otelchain.errors import ConfigurationError
from otelchain.original import estimated_bytes
from otelchain.redaction.scrubber import Scrubber
from otelchain.snapshot import whole_json

#: Largest payload that is kept whole; writing and hashing its JSON takes about 20 ms.
MAX_PAYLOAD_BYTES = 8_388_608
#: Most bytes that wait for the store's thread.
MAX_WAITING_BYTES = 67_108_864
#: Most bytes that a directory holds; it is full then, for nothing that a span names is deleted.
MAX_DIRECTORY_BYTES = 1_073_741_824

_SUFFIX = ".json"
_REMEMBERED = 4_096  # names of what has been stored, so that the same payload is stored once
_CLOSING_SECONDS = 5.0

_log = logging.getLogger("otelchain")

Put = Callable[[str, bytes], object]
"""Stores bytes under a name; called on the store's thread, one at a time."""


class PayloadStore:
    """Keep payloads beyond the budget of a span, redacted.

    Args:
        put: Stores a name and its bytes, for example
            ``lambda name, data: fsspec_filesystem.pipe_file(f"bucket/traces/{name}", data)``.
        reference: What stands before the name in the attribute: ``s3://bucket/traces/``.

    Attributes:
        stored: Payloads stored.
        dropped: Payloads not stored because too much waited, or because they were too large.
        failed: Payloads that could not be redacted or stored.
    """

    def __init__(self, put: Put, reference: str = "") -> None:
        self.stored = self.dropped = self.failed = 0
        self._put = put
        self._reference = reference
        self._known: OrderedDict[str, None] = OrderedDict()
        self._closed = False
        self._start_afresh()
        alive: weakref.ref[PayloadStore] = weakref.ref(self)
        atexit.register(_close, alive)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _forked(alive()))

    @classmethod
    def in_directory(cls, directory: str | Path) -> "PayloadStore":
        """Make a store of files that only this user can read; at most 1 GiB of them.

        Raises:
            ConfigurationError: The directory cannot be made or written.
        """
        return cls(_Directory(Path(directory)).put, Path(directory).absolute().as_uri() + "/")

    def keep(self, key: str, value: object, redactor: Scrubber) -> dict[str, AttributeValue]:
        """Store a value whole; return the attributes that name it, none where it is dropped."""
        if estimated_bytes(value) > MAX_PAYLOAD_BYTES:
            self.dropped += 1
            return {}
        encoded = whole_json(value)
        if encoded is None:
            self.dropped += 1
            return {}
        return self._named(key, encoded, redactor)

    def keep_redacted(self, key: str, text: str) -> dict[str, AttributeValue]:
        """Store a text that has passed the redactor."""
        return self._named(key, text.encode(errors="replace"), None)

    def flush(self, timeout_seconds: float = 30.0) -> bool:
        """Wait until nothing waits; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting_bytes, timeout_seconds)

    def close(self) -> None:
        """Store what waits, within five seconds, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSING_SECONDS)

    def _start_afresh(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, bytes, Scrubber | None]] = deque()
        self._waiting_bytes = 0
        self._thread: threading.Thread | None = None

    def _named(
        self, key: str, encoded: bytes, redactor: Scrubber | None
    ) -> dict[str, AttributeValue]:
        digest = sha256(encoded).hexdigest()
        # What one policy, or one place of it, let pass is not for another.
        kept_as = f"{digest}-{redactor.mark}" if redactor else digest
        name = kept_as + _SUFFIX
        with self._changed:
            if kept_as not in self._known and not self._enqueue(name, encoded, redactor):
                self.dropped += 1
                return {}
            self._known[kept_as] = None
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return {
            key + names.REFERENCE_SUFFIX: self._reference + name,
            key + names.ORIGINAL_BYTES_SUFFIX: len(encoded),
            key + names.ORIGINAL_SHA256_SUFFIX: digest,
        }

    def _enqueue(self, name: str, encoded: bytes, redactor: Scrubber | None) -> bool:
        if self._closed or self._waiting_bytes + len(encoded) > MAX_WAITING_BYTES:
            return False
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="otelchain-payloads", daemon=True
            )
            self._thread.start()
        self._waiting.append((name, encoded, redactor))
        self._waiting_bytes += len(encoded)
        self._changed.notify_all()
        return True

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # in this thread, for good
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                name, encoded, redactor = self._waiting.popleft()
            self._store(name, encoded, redactor)
            with self._changed:
                self._waiting_bytes -= len(encoded)
                self._changed.notify_all()

    def _store(self, name: str, encoded: bytes, redactor: Scrubber | None) -> None:
        try:
            if redactor is not None:
                encoded = orjson.dumps(redactor.value(orjson.loads(encoded)))
            self._put(name, encoded)
            self.stored += 1
        except Exception as error:  # noqa: BLE001 - the store is the user's
            self.failed += 1
            self._known.pop(name.removesuffix(_SUFFIX), None)  # it may be stored the next time
            _warn_once(type(error).__name__)


class _Directory:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._bytes = sum(each.stat().st_size for each in path.iterdir())
        except OSError as error:
            raise ConfigurationError(f"payloads cannot be kept in {path}: {error}") from error
        if not os.access(path, os.W_OK):
            raise ConfigurationError(f"payloads cannot be kept in {path}: it cannot be written")

    def put(self, name: str, data: bytes) -> None:
        target = self._path / name
        if target.exists():
            return
        if self._bytes + len(data) > MAX_DIRECTORY_BYTES:
            raise OSError(f"{self._path} is full")
        unfinished = self._path / f".{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            file.write(data)
        unfinished.replace(target)
        self._bytes += len(data)


@lru_cache(maxsize=16)
def store_in(directory: str) -> PayloadStore:
    """Return the store that all handlers of the process share for a directory."""
    return PayloadStore.in_directory(directory)


@lru_cache(maxsize=64)
def _warn_once(kind: str) -> None:
    # The text of the error may hold content of the application.
    _log.warning("payloads could not be stored (%s); their references lead nowhere", kind)


def _close(store: "weakref.ref[PayloadStore]") -> None:
    alive = store()
    if alive is not None:
        alive.close()


def _forked(store: PayloadStore | None) -> None:
    if store is not None:
        store._start_afresh()  # noqa: SLF001 - part of this class, outside it only to hold it weakly
