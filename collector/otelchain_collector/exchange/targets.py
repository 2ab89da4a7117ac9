"""Files that are there whole or not at all; compressed by suffix, standard output as ``-``."""

import contextlib
import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from otelchain_collector.drafts import draft_of
from otelchain_collector.exchange.pages import ExportError


@contextlib.contextmanager
def target(path: Path | None) -> Iterator[IO[bytes]]:
    """Give a stream to write to; the file appears under its name when the block has ended.

    Only its owner may read it, since it holds what runs said.

    Args:
        path: The file, compressed when it ends in ``.gz`` or ``.zst``; None for standard output.

    Raises:
        ExportError: The file cannot be written.
    """
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        draft = draft_of(path)
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror}") from error
    try:
        with open(number, "wb") as stream:  # noqa: PTH123 - a descriptor
            if path.suffix == ".gz":
                # No time in the header: the same data give the same file.
                with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            elif path.suffix == ".zst":
                # Closing it ends its last frame, and would close the file.
                with pa.CompressedOutputStream(_Open(stream), "zstd") as packed:
                    yield packed
            else:
                yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


class _Open:
    """A file that is not closed by who writes to it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.write = stream.write
        self.flush = stream.flush
        self.closed = False

    def close(self) -> None:
        """Do nothing."""
