"""What is put in place of a secret: a mask, a keyed hash, or nothing."""

from __future__ import annotations

import hashlib
import hmac
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.rules import Span

Action = Literal["mask", "hash", "remove"]
Replace = Callable[[str, str], str]  # rule name, canonical value → replacement

HASH_HEX_DIGITS = 16
_BLANK = "\x1a"  # SUBSTITUTE: no letter, digit, space or quote


def failed(name: str) -> str:
    """Stand in for a text that could not be checked.

    >>> failed("email")
    '<redaction failed: email>'
    """
    return f"<redaction failed: {name}>"


def replacement(action: Action, hash_key: str | bytes | None) -> Replace:
    """Make the function that writes replacements.

    Raises:
        RedactionPolicyError: Unknown action, or a hash without a usable key.
    """
    if action not in get_args(Action):
        known = ", ".join(get_args(Action))
        raise RedactionPolicyError(f"redaction action {action!r} is unknown; use one of: {known}")
    if action == "hash":
        return _hashing(_key_bytes(hash_key))
    if action == "remove":
        return lambda _name, _value: ""
    return lambda name, _value: f"[REDACTED:{name}]"


def _key_bytes(hash_key: str | bytes | None) -> bytes:
    if not isinstance(hash_key, (str, bytes)) or not hash_key:
        raise RedactionPolicyError(
            'action="hash" needs hash_key: without a secret key, hashes of short values can be '
            "looked up; pass the same key wherever equal values should give equal tokens"
        )
    return hash_key.encode("utf-8", "surrogatepass") if isinstance(hash_key, str) else hash_key


def _hashing(key: bytes) -> Replace:
    def replace(name: str, value: str) -> str:
        message = value.encode("utf-8", "surrogatepass")
        digest = hmac.new(key, message, hashlib.sha256).hexdigest()
        return f"[{name}:{digest[:HASH_HEX_DIGITS]}]"

    return replace


class OwnTokens:
    """Finds replacements made earlier, which no rule may touch again."""

    def __init__(self, names: Iterable[str], action: Action) -> None:
        known = "|".join(sorted(map(re.escape, set(names)), key=len, reverse=True))
        shapes = [rf"\[REDACTED:(?:{known})\]", rf"<redaction failed: (?:{known})>"]
        if action == "hash":  # elsewhere the shape could hide a number
            shapes.append(rf"\[(?:{known}):[0-9a-f]{{{HASH_HEX_DIGITS}}}\]")
        self._pattern = re.compile("|".join(shapes))

    def spans(self, text: str) -> list[Span]:
        """Give their places, in order."""
        if "[" not in text and "<" not in text:
            return []
        return [Span(*match.span()) for match in self._pattern.finditer(text)]

    def blanked(self, text: str) -> str:
        """Hide them, because ``github_token`` inside a mask is no name of a secret."""
        if "[" not in text and "<" not in text:
            return text
        return self._pattern.sub(lambda match: _BLANK * len(match.group()), text)


def _end(span: Span) -> int:
    return span.end


def outside(span: Span, taken: list[Span]) -> Iterator[Span]:
    """Cut ``taken`` (in order) out of a span.

    >>> list(outside(Span(0, 9), [Span(2, 4), Span(8, 12)]))
    [Span(start=0, end=2), Span(start=4, end=8)]
    """
    start = span.start
    # Taken spans do not overlap, so their ends are in order too.
    for place in range(bisect_right(taken, start, key=_end), len(taken)):
        other = taken[place]
        if other.start >= span.end:
            break
        if other.start > start:
            yield Span(start, other.start)
        start = max(start, other.end)
    if start < span.end:
        yield Span(start, span.end)
