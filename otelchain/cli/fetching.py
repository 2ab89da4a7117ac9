"""Fetch a snapshot from a collector: the whole file, then what has changed meanwhile."""

import http.client
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request

from otelchain.reading.connect import address, opener, reason, token
from otelchain.reading.place import Place
from otelchain.reading.source import SourceError
from otelchain_collector.drafts import draft_of
from otelchain_collector.rewrite import replace
from otelchain_collector.snapshot import BLOCK_BYTES, BLOCKS_START, CHECKSUM_BYTES, FRAME

# For the checkpoint before the first byte, and between two pieces.
_TIMEOUT_SECONDS: Final = 60.0
_PIECE_BYTES: Final = 1024 * 1024
# Each one sends only what the last one has missed; a second one is enough where half the load is.
_MOST_ROUNDS: Final = 8

Progress = Callable[[int, int], None]


def fetch(endpoint: str, place: Place, file: Path, tell: Progress) -> None:
    """Write the database of a collector into a file, which is there whole or not at all.

    Raises:
        SourceError: The collector gives none, or the file cannot be written.
    """
    collector = _Collector(endpoint, place)
    try:
        draft = draft_of(file)
        try:
            # For this user only, and never through a link that somebody laid there.
            with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as to:
                _receive(collector, to, tell)
            replace(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(f"cannot write {str(file)!r}: {error.strerror or error}") from error


def _receive(collector: "_Collector", to: IO[bytes], tell: Progress) -> None:
    with collector.ask(None) as response:
        size, received = int(response.headers["content-length"]), 0
        while piece := _read(response, _PIECE_BYTES):
            to.write(piece)
            received += len(piece)
            tell(received, size)
    if received == size:
        return
    for _ in range(_MOST_ROUNDS):
        with collector.ask(_checksums(to)) as response:
            if _apply(response, to):
                return
    raise SourceError(
        f"the collector at {collector.base} ended after {received} of {size} bytes: it stopped, or "
        "had to make a checkpoint under much load, again and again; try nearer to it or in a "
        "quieter moment"
    )


def _checksums(to: IO[bytes]) -> bytes:
    """Return the checksums of the blocks that have arrived whole."""
    found = bytearray()
    end = to.seek(0, io.SEEK_END)
    for position in range(BLOCKS_START, end - BLOCK_BYTES + 1, BLOCK_BYTES):
        to.seek(position)
        found += to.read(CHECKSUM_BYTES)
    return bytes(found)


def _apply(response: Any, to: IO[bytes]) -> bool:
    """Put the pieces of a response in their places; tell whether it was whole."""
    while len(frame := _read(response, FRAME.size)) == FRAME.size:
        position, size = FRAME.unpack(frame)
        if not size:
            to.truncate(position)
            return True
        piece = _read(response, size)
        if len(piece) < size:
            return False
        to.seek(position)
        to.write(piece)
    return False


class _Collector:
    def __init__(self, endpoint: str, place: Place) -> None:
        self.base = address(endpoint)
        shown = token(place)
        self._headers = {"authorization": f"Bearer {shown}"} if shown else {}
        self._opener = opener(self.base, place)

    def ask(self, known: bytes | None) -> Any:
        """Return a response that sends the file, or what is not known of it."""
        headers = self._headers | {"content-type": "application/octet-stream"}
        request = Request(f"{self.base}/snapshot", data=known, headers=headers)  # noqa: S310 - address() allows http and https
        try:
            return self._opener.open(request, timeout=_TIMEOUT_SECONDS)
        except HTTPError as error:
            raise SourceError(f"{self.base} gives no snapshot: {_said(error)}") from error
        except (URLError, OSError, http.client.HTTPException) as error:
            raise SourceError(
                f"{self.base} does not answer ({reason(getattr(error, 'reason', error))})"
            ) from error


def _read(response: Any, size: int) -> bytes:
    """Return so many bytes, or fewer when no more come."""
    try:
        return bytes(response.read(size))
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException):
        return b""


def _said(error: HTTPError) -> str:
    with error:
        try:
            text = str(json.loads(error.read())["error"])
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            return f"it says {error.code} {error.reason}"
    how = "; set OTELCHAIN_TOKEN or --token-file" if error.code in (401, 403) else ""
    return text + how
