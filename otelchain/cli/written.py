"""An answer → a file, which is there whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from otelchain.errors import OtelchainError


class OutputError(OtelchainError):
    """A file cannot be written."""


def write_text(text: str, file: Path) -> None:
    """Write text as UTF-8.

    Raises:
        OutputError: The file cannot be written.
    """
    write_file(file, lambda stream: stream.write(text.encode()))


def write_file(file: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let a function write the bytes of a file.

    Raises:
        OutputError: The file cannot be written.
    """
    # Beside the file, since a name can be taken over only on the same disk.
    part = file.with_name(f".{file.name}.{os.getpid()}")
    if file.exists() and not file.is_file():
        part = file  # a pipe or a device, which nothing can take the place of
    try:
        try:
            with part.open("wb") as stream:
                write(stream)
            part.replace(file)
        except BaseException:
            if part != file:
                part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"cannot write {str(file)!r}: {error.strerror or error}") from error
