r"""Other spellings of the same characters, made alike without moving any character.

Full-width digits, no-break spaces and typographic hyphens become ASCII; escapes that a string
kept from a JSON text (``\n``, ``\u00e9``) become spaces, because the ``n`` of ``\nAKIA…`` is not
part of the key. The folded text has the length of the original, so offsets hold in both.
"""

from __future__ import annotations

import re

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SPACES = dict.fromkeys([0x00A0, 0x2002, 0x2003, 0x2007, 0x2009, 0x202F, 0x3000], 0x20)
_HYPHENS = dict.fromkeys([0x2010, 0x2011, 0x2012, 0x2013, 0x2212, 0xFE63], 0x2D)
_ALIKE = {**_FULL_WIDTH, **_SPACES, **_HYPHENS}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[nrtbf])")

# RE2. Full-width punctuation alone does not need folding: Chinese prose is full of it, and the
# patterns that care (colon, equals sign) name both forms.
NEEDS_FOLDING = (
    r"[\x{FF10}-\x{FF19}\x{FF20}-\x{FF3A}\x{FF41}-\x{FF5A}\x{FF0B}\x{FF0D}"
    r"\x{00A0}\x{2002}\x{2003}\x{2007}\x{2009}\x{202F}\x{2010}-\x{2013}\x{2212}\x{FE63}]"
    r"|\\(?:u[0-9a-fA-F]{4}|[nrtbf])"
)


def encodable(text: str) -> str:
    """Put U+FFFD for each lone surrogate; RE2 works on UTF-8, which has none."""
    return _SURROGATE.sub("\ufffd", text)


def fold(text: str) -> str:
    r"""Return ``text`` in its plainest spelling, as long as before.

    >>> fold("\uff11\uff13\uff18 \\n4111")
    '138   4111'
    """
    plain = _ESCAPE.sub(lambda match: " " * len(match.group()), text)
    return plain if plain.isascii() else encodable(plain.translate(_ALIKE))
