"""Read the JSON of an OTLP request (for otlp_json) so that one odd value costs no other."""

import json
import math
import re
from typing import Any

import orjson

#: Stands for bytes that are not UTF-8; no text can hold it.
NOT_UTF8 = "\ufdd0\udc00\ud800"
_UNDECODED = re.compile("[\udc80-\udcff]+")
#: A record that otlp_fields lets through has 160 brackets around its innermost value.
MAX_BRACKETS = 400
# A text that is never closed is one token too.
_TOKENS = re.compile(r'"[^"]*(?:"|\Z)|[\[\]{}]')
# Stands for every number that no field can hold, be it an integer or a double; Python itself would
# refuse the whole document for an integer of more than 4,300 digits.
_TOO_LARGE = 10**400
_MAX_INTEGER_CHARS = 400


def load_json(body: bytes) -> Any:
    """Read a document.

    Half a surrogate pair becomes U+FFFD (otlp_fields). Text that is not UTF-8 and values that are
    nested too deep stay recognisable, so that they cost their own record only, as does a number
    that not even a double can hold: it is an integer out of every range. NaN and Infinity without
    quotes and control characters in text, which careless writers let through, are what they say.

    Raises:
        ValueError: It is not JSON; the text says why, and quotes nothing.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # Raw surrogates are what this makes of bytes that are not UTF-8.
        text = _UNDECODED.sub(NOT_UTF8, body.decode(errors="surrogateescape"))
        # json would tell its caller how to decode it.
        if text.startswith("\ufeff"):
            raise ValueError("it starts with a byte order mark") from None
        return json.loads(_shallow(text), strict=False, parse_int=_integer, parse_float=_double)


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_INTEGER_CHARS else _TOO_LARGE


def _double(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _TOO_LARGE


def _shallow(text: str) -> str:
    """Put null in the place of everything inside more than MAX_BRACKETS brackets."""
    kept: list[str] = []
    depth = start = 0
    # Without escapes, every quote begins or ends a text: a pattern that knows escapes takes 100
    # bytes for each while it looks.
    unescaped = text.replace("\\\\", "__").replace('\\"', "__")
    for token in _TOKENS.finditer(unescaped):
        bracket = token[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == MAX_BRACKETS + 1:
                kept.append(text[start : token.start()] + "null")
        elif bracket in ("]", "}"):
            if depth == MAX_BRACKETS + 1:
                start = token.end()
            depth -= 1
    if depth > MAX_BRACKETS:
        raise ValueError(f"more than {MAX_BRACKETS} brackets are never closed")
    return "".join([*kept, text[start:]])
