r"""Other spellings of the same characters, made alike without moving any character.

Full-width letters and digits, the digits of every script, no-break spaces and typographic hyphens
become ASCII; escapes that a string kept from a JSON text (``\n``) become spaces, because the ``n``
of ``\nAKIA…`` is not part of the key. The folded text has the length of the original, so offsets
hold in both; what changes the length is in ``otelchain.redaction.views``.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SPACES = dict.fromkeys([0x00A0, 0x2002, 0x2003, 0x2007, 0x2009, 0x202F, 0x3000], 0x20)
_HYPHENS = dict.fromkeys([0x2010, 0x2011, 0x2012, 0x2013, 0x2212, 0xFE63], 0x2D)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\[nrtbf]")


@lru_cache(maxsize=1)
def _alike() -> dict[int, int]:
    """Map what looks or counts alike to ASCII; the digits are Unicode's own list (30 ms)."""
    digits = {
        code: 0x30 + unicodedata.decimal(chr(code))
        for code in range(0x80, sys.maxunicode + 1)
        if chr(code).isdecimal()
    }
    return {**digits, **_FULL_WIDTH, **_SPACES, **_HYPHENS}


def encodable(text: str) -> str:
    """Put U+FFFD for each lone surrogate; RE2 works on UTF-8, which has none."""
    return _SURROGATE.sub("\ufffd", text)


def fold(text: str) -> str:
    r"""Return ``text`` in its plainest spelling, as long as before.

    >>> fold("\uff11\uff13\uff18 \\n4111 \u0661\u0662")
    '138   4111 12'
    """
    plain = _ESCAPE.sub(lambda match: " " * len(match.group()), text)
    return plain if plain.isascii() else encodable(plain.translate(_alike()))
