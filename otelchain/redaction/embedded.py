"""JSON kept as text inside a value: redacted as a tree, so that it is JSON afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def looks_like_json(text: str) -> bool:
    """Tell whether parsing is worth trying.

    >>> looks_like_json(' {"a": 1}'), looks_like_json("[REDACTED:email]"), looks_like_json("a")
    (True, False, False)
    """
    stripped = text.strip()
    return (stripped[:1], stripped[-1:]) in {("{", "}"), ("[", "]")} and (
        stripped[1:2] in '{["}] \n\t\r-0123456789tfn'
    )


def redact_json(text: str, redact: Callable[[Any], Any]) -> str | None:
    """Redact JSON text as a tree; None when it is not JSON or cannot be written back as it was."""
    try:
        tree = json.loads(
            text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_distinct
        )
    except (ValueError, RecursionError):
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
    except RecursionError:
        return None
    return written


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with two equal names: the tree would show only the last value of them."""
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a name occurs twice")
    return tree


def _finite(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise ValueError(literal)
    return number


def _refuse(constant: str) -> float:
    raise ValueError(constant)
