"""The key of identities of what was redacted, in a file beside the database (for the decoding).

Such an identity is a digest of what came, and whoever has the rest of a record could try out what
was taken out of it: all phone numbers are soon counted. So it is a keyed one, and the key is not in
the database: it is in no snapshot, copy, export or answer.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from otelchain_collector.drafts import draft_of
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.real_path import real_path

# As many as BLAKE2b's digest has at most, in hex digits.
_DIGITS: Final = 128


class IdentityKey:
    """A key that is read, or made, when it is needed first; for one thread.

    Args:
        database: The file that it is kept beside; None for a key that ends with the process.
    """

    def __init__(self, database: Path | None) -> None:
        self._path = None if database is None else key_path(database)
        self._key = secrets.token_bytes(_DIGITS // 2) if self._path is None else b""

    def value(self) -> bytes:
        """Return its 64 bytes.

        Raises:
            StoreUnavailableError: It cannot be read or kept now.
        """
        if not self._key and self._path is not None:
            try:
                self._key = _read(self._path) or _made(self._path)
            except OSError as error:
                raise StoreUnavailableError(
                    f"cannot keep the key of identities {self._path}: {error.strerror}"
                ) from error
        return self._key


def key_path(database: Path) -> Path:
    """Return the path of the file; it need not exist."""
    database = real_path(database)
    return database.with_name(f"{database.name}.identity-key")


def _read(path: Path) -> bytes | None:
    try:
        text = path.read_bytes().strip()
    except FileNotFoundError:
        return None
    # Half a key, or none, could be tried out.
    is_whole = len(text) == _DIGITS and all(digit in b"0123456789abcdef" for digit in text)
    return bytes.fromhex(text.decode()) if is_whole else None


def _made(path: Path) -> bytes:
    key = secrets.token_bytes(_DIGITS // 2)
    draft = draft_of(path)
    # New, for this user only, and never through a link that somebody laid there.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return key
