"""Identities for records that OTLP gives none (from the decoders of logs and metrics)."""

from collections import Counter
from hashlib import blake2b
from typing import Any


class ContentIds:
    """Identities of the records of one request.

    A record is what it says. Equal records of one request are told apart by their order, so that
    all of them are stored, and a resend of the request gives the same identities again. The same
    record in another request is taken for a resend.
    """

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def of(self, columns: tuple[Any, ...]) -> str:
        """Return 32 hex digits for a record whose columns these are."""
        # ascii() tells -0.0, NaN, None, 1 and 1.0 apart and is the same in every Python.
        digest = blake2b(ascii(columns).encode(), digest_size=16).digest()
        number = self._seen[digest]
        self._seen[digest] = number + 1
        if number == 0:
            return digest.hex()
        return blake2b(digest + number.to_bytes(8, "big"), digest_size=16).hexdigest()
