"""An answer → a file, which is there whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from otelchain.errors import OtelchainError
from otelchain_collector.drafts import draft_of


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
    # A pipe or a device, which nothing can take the place of, is written to as it is.
    is_special = file.exists() and not file.is_file()
    try:
        # Beside the file, since a name can be taken over only on the same disk.
        part = file if is_special else draft_of(file)
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
