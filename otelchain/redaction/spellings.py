"""What the other spellings of a character look like, in RE2 syntax. See ``views`` for their use."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_lowercase, ascii_uppercase, digits

ZERO_WIDTH = (
    r"[\x{AD}\x{180E}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{FEFF}]"
)
"""Soft hyphen, joiners, marks of direction: nothing to see."""

URL_ESCAPE = r"%[0-7][0-9A-Fa-f]|(?:%[89A-Fa-f][0-9A-Fa-f])+"
"""RFC 3986: one ASCII character, or a run of bytes of UTF-8."""


def _quad() -> str:
    """Four Base64 characters that stand for three of ASCII text, in either alphabet (RFC 4648).

    An index has six bits. The upper four of a printable byte are 2 to 7, of a tab or a line end 0,
    which leaves the first three characters less than half of the alphabet each: random data
    does not pass five times in a row.
    """
    alphabet = [*ascii_uppercase, *ascii_lowercase, *digits, "+-", "/_"]

    def those(allowed: Callable[[int], bool]) -> str:
        return "[" + re.escape("".join(c for i, c in enumerate(alphabet) if allowed(i))) + "]"

    first = those(lambda index: index in (2, 3) or 8 <= index < 32)
    second = those(lambda index: index % 16 in (0, 2, 3, 4, 5, 6, 7))
    return first + second + those(lambda index: index % 4 < 2) + those(lambda _: True)


_BASE64_TEXT = rf"(?:{_quad()}){{5,}}"
BASE64_TEXT = rf"{_BASE64_TEXT}[A-Za-z0-9+/_\-]{{0,3}}={{0,2}}"
"""At least 15 characters of ASCII text in Base64, from where its groups of four begin."""

NEEDS_VIEWS = (
    # Full-width punctuation alone does not: Chinese prose is full of it, and the patterns that
    # care (colon, equals sign) name both forms. Nor do the joiners inside emoji and Persian words.
    r"[\x{FF10}-\x{FF19}\x{FF20}-\x{FF3A}\x{FF41}-\x{FF5A}\x{FF0B}\x{FF0D}"
    r"\x{00A0}\x{2002}\x{2003}\x{2007}\x{2009}\x{202F}\x{2010}-\x{2013}\x{2212}\x{FE63}]"
    r"|[^\P{Nd}\x00-\x7F]"  # the digits of other scripts
    r"|\\(?:u[0-9a-fA-F]{4}|[nrtbf])"
    rf"|[!-~]{ZERO_WIDTH}|%[0-9A-Fa-f]{{2}}|{_BASE64_TEXT}"
)
"""Some view of the text differs from it."""
