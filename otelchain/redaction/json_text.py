"""JSON text in which rules found something as it is written: replaced so that it stays JSON."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Tokens of RFC 8259 that stand for a value or a name.
_SCALAR = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|true|false|null'
    r"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?",
    re.DOTALL,
)


class Replaced(NamedTuple):
    """What stands for characters ``start`` to ``end``, and by which rule."""

    start: int
    end: int
    text: str
    rule: str


def is_json(text: str) -> bool:
    """Tell whether a text is JSON, also where a name occurs twice or a number is out of range."""
    try:
        # As floats, because Python refuses an integer of more than 4,300 digits.
        json.loads(text, parse_constant=_refuse, parse_int=float)
    except (ValueError, RecursionError):
        return False
    return True


def written(text: str, replaced: Iterable[Replaced]) -> str:
    """Write a text with its replacements."""
    parts, at = [], 0
    for start, end, instead, _ in replaced:
        parts += [text[at:start], instead]
        at = end
    return "".join([*parts, text[at:]])


def written_as_json(text: str, replaced: list[Replaced]) -> str:
    """Write JSON text with its replacements; whole strings and numbers go where it takes them.

    >>> written_as_json('{"id": 42}', [Replaced(7, 9, "[REDACTED:id]", "id")])
    '{"id": "[REDACTED:id]"}'
    """
    plain = written(text, replaced)
    if not replaced or is_json(plain):
        return plain
    return written(text, _whole_scalars(text, replaced))


def _whole_scalars(text: str, replaced: list[Replaced]) -> Iterator[Replaced]:
    ends = [each.end for each in replaced]
    for match in _SCALAR.finditer(text):
        first = bisect_right(ends, match.start())
        if first < len(replaced) and replaced[first].start < match.end():
            _, _, instead, rule = replaced[first]
            yield Replaced(match.start(), match.end(), json.dumps(instead), rule)


def _refuse(constant: str) -> float:
    raise ValueError(constant)
