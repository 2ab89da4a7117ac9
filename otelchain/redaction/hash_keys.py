"""The secret key of hashes: where it is read from, and the id that tells its tokens from others."""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path

from otelchain.errors import RedactionPolicyError

KEY_VARIABLE = "OTELCHAIN_REDACTION_KEY"
"""Where the key stands when a policy does not say otherwise."""

HASH_HEX_DIGITS = 16
# Of a key that came from a file or a variable; RFC 2104 advises as many bytes as the hash has (32).
MIN_KEY_BYTES = 16

# A number hides neither in the digits (one must be a letter) nor in the id (it starts with one).
ID_PATTERN = r"[A-Za-z][A-Za-z0-9_-]{0,7}"
DIGITS_PATTERN = rf"(?=[0-9]*[a-f])[0-9a-f]{{{HASH_HEX_DIGITS}}}"


class HashKey:
    """One key with its id; shows the id and never the key.

    Args:
        key: The secret. Text counts as its UTF-8 bytes.
        key_id: Written into every token. Default: ``k`` and four hex digits made from the key, so
            that a new key has a new id without anyone having to think of one.

    Raises:
        RedactionPolicyError: No key, or an id that does not fit into a token.
    """

    __slots__ = ("_key", "id")

    def __init__(self, key: str | bytes | None, key_id: str = "") -> None:
        if not isinstance(key, (str, bytes)) or not key:
            raise RedactionPolicyError(
                'action "hash" needs hash_key: without a secret key, hashes of short values can be '
                "looked up; pass the same key wherever equal values should give equal tokens "
                "(of a policy file: the variable OTELCHAIN_REDACTION_KEY, or what [hash] names)"
            )
        self._key = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
        self.id = checked_id(key_id) if key_id else "k" + self._hex(b"otelchain key id")[:4]

    def __repr__(self) -> str:
        return f"<HashKey {self.id}>"

    def digits(self, value: str) -> str:
        """Give the first 16 hex digits of the HMAC-SHA-256 of a value; at least one is a letter.

        One hash in 1,800 starts with 16 decimal digits; there the digits start one place later.
        """
        found = self._hex(value.encode("utf-8", "surrogatepass"))
        for at in range(len(found) - HASH_HEX_DIGITS):
            if not found[at : at + HASH_HEX_DIGITS].isdecimal():
                return found[at : at + HASH_HEX_DIGITS]
        raise ValueError("an HMAC without a letter")  # 1 in 10**13; the caller fails closed

    def _hex(self, message: bytes) -> str:
        return hmac.digest(self._key, message, "sha256").hex()


def checked_id(key_id: str) -> str:
    """Refuse an id that could not be told from the rest of a token.

    Raises:
        RedactionPolicyError: It is not a letter followed by up to seven of ``A-Z a-z 0-9 _ -``.
    """
    if not isinstance(key_id, str) or not re.fullmatch(ID_PATTERN, key_id):
        raise RedactionPolicyError(
            f"key_id {key_id!r} must be a letter and up to 7 of the characters A-Z a-z 0-9 _ -"
        )
    return key_id


def key_from_variable(variable: str, key_id: str) -> HashKey | None:
    """Read the key from the environment; None when the variable is not set.

    Raises:
        RedactionPolicyError: The key is too short.
    """
    text = os.environ.get(variable, "").strip()
    return _long_enough(text.encode(), f"the variable {variable}", key_id) if text else None


def key_from_file(path: Path, key_id: str) -> HashKey:
    """Read the key from a file; white space at both ends is not part of it.

    Raises:
        RedactionPolicyError: The file cannot be read, or the key is too short.
    """
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise RedactionPolicyError(f"key_file {path}: {error.strerror}") from error
    return _long_enough(content, f"key_file {path}", key_id)


def _long_enough(key: bytes, source: str, key_id: str) -> HashKey:
    if len(key) < MIN_KEY_BYTES:
        raise RedactionPolicyError(
            f"{source} holds {len(key)} bytes; a key needs at least {MIN_KEY_BYTES} "
            "(make one with: openssl rand -hex 32)"
        )
    return HashKey(key, key_id)
