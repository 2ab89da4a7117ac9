"""Identities for records that OTLP gives none (from the decoders of logs and metrics)."""

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from otelchain_collector.rows import LogRow, MetricPointRow

Row = TypeVar("Row", LogRow, MetricPointRow)


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
        digest = blake2b(_said(columns), digest_size=16).digest()
        number = self._seen[digest]
        self._seen[digest] = number + 1
        if number == 0:
            return digest.hex()
        return blake2b(digest + number.to_bytes(8, "big"), digest_size=16).hexdigest()


def as_they_came(
    redacted: Sequence[Row], came: Sequence[Row], key: Callable[[], bytes]
) -> list[Row]:
    """Give the records of a request that was redacted the identities of what came.

    Two that differ only in what was taken out are two. One that is as it came keeps the identity
    that it has without any redaction; of the others a digest must not tell what they said.

    Args:
        redacted: What is to be stored.
        came: The same records before redaction, in the same order.
        key: Returns the secret of the digests.
    """
    if len(redacted) != len(came):  # A fault of ours: better twice than not at all.
        return [row._replace(record_id=secrets.token_hex(16)) for row in redacted]
    return [
        after._replace(
            record_id=before.record_id
            # The received time, the last one, is no part of what a record says, but equal here.
            if _said(after[1:]) == _said(before[1:])
            else keyed_id(before.record_id, key())
        )
        for after, before in zip(redacted, came, strict=True)
    ]


def keyed_id(record_id: str, key: bytes) -> str:
    """Return the identity of a record that said, before redaction, what this identity says."""
    return blake2b(record_id.encode(), digest_size=16, key=key).hexdigest()


def _said(columns: tuple[Any, ...]) -> bytes:
    # ascii() tells -0.0, NaN, None, 1 and 1.0 apart and is the same in every Python.
    return ascii(columns).encode()
