"""Stored text, made safe to print: what controls a terminal becomes something to read."""

import unicodedata
from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Return the text with control and direction-changing characters as escapes.

    A model's answer or a web page may hold sequences that move the cursor, set the window's title
    or reverse the order of what is read.

    >>> print(visible("red: \x1b[31m"))
    red: \x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def escape_json(text: str) -> str:
    r"""Return JSON text with the same characters as ``\u`` escapes; it stays the same JSON."""
    if text.isprintable():
        return text
    return "".join(
        "".join(f"\\u{unit:04x}" for unit in _utf16(character))
        if _controls(character)
        else character
        for character in text
    )


def _escaped(character: str) -> str:
    if not _controls(character):
        return character
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return f"\\u{number:04x}" if number > 0xFF else f"\\x{number:02x}"


def _controls(character: str) -> bool:
    # Cc: control, Cf: format (bidirectional overrides, zero width), Zl and Zp: line separators.
    # A zero-width joiner holds an emoji together and is harmless.
    category = unicodedata.category(character)
    return category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and character != "\u200d")


def _utf16(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [
        int.from_bytes(encoded[place : place + 2], "big") for place in range(0, len(encoded), 2)
    ]
