"""JSON kept as text inside a value: redacted as a tree, so that it is JSON afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_BYTE_ORDER_MARK = "\ufeff"
_MAX_INTEGER_CHARS = 4_000


def looks_like_json(text: str) -> bool:
    """Tell whether parsing is worth trying.

    >>> looks_like_json(' {"a": 1}'), looks_like_json("[REDACTED:email]"), looks_like_json("a")
    (True, False, False)
    """
    stripped = text.strip()
    return stripped[-1:] in {"}", "]"} and starts_json(stripped)


def starts_json(text: str) -> bool:
    """Tell whether a text begins as an object or a list in JSON does."""
    start = text.removeprefix(_BYTE_ORDER_MARK).lstrip()[:2]
    return start[:1] in {"{", "["} and start[1:] in '{["}] \n\t\r-0123456789tfnNI'


def redact_json(text: str, redact: Callable[[Any], Any]) -> str | None:
    """Redact JSON text as a tree; None when it is not JSON.

    Whatever a reader would take for JSON is walked through, or rules on names and paths could be
    led past: also what Python writes (``NaN``), a name that occurs twice, and numbers out of range,
    which become texts.

    Raises:
        RecursionError: It is nested deeper than Python reads, so nobody knows what names it has.
    """
    if text.startswith(_BYTE_ORDER_MARK):
        inner = redact_json(text.removeprefix(_BYTE_ORDER_MARK), redact)
        return None if inner is None else _BYTE_ORDER_MARK + inner
    try:
        tree = json.loads(
            text, parse_float=_number, parse_int=_integer, object_pairs_hook=_all_entries
        )
    except ValueError:
        return None
    redacted = redact(tree)
    if redacted is tree:
        return text
    spaced = '": ' in text
    separators = (", ", ": ") if spaced else (",", ":")
    try:
        written = json.dumps(redacted, ensure_ascii=text.isascii(), separators=separators)
        written.encode()
    except UnicodeEncodeError:  # lone surrogates, escaped in the original
        return json.dumps(redacted, separators=separators)
    return written


class _SameName(str):
    """A name that its object has already; equal to nothing, so that both entries are kept."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


def _all_entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) == len(pairs):
        return tree
    tree = {}
    for name, value in pairs:
        tree[_SameName(name) if name in tree else name] = value
    return tree


def _integer(literal: str) -> int | str:
    # Python refuses longer ones than 4,300 digits.
    return int(literal) if len(literal) <= _MAX_INTEGER_CHARS else literal


def _number(literal: str) -> float | str:
    number = float(literal)
    return literal if number in (float("inf"), float("-inf")) else number
