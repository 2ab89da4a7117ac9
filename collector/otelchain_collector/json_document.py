"""Read the JSON of an OTLP request (for otlp_json) so that one odd value costs no other."""

import json
import re
from typing import Any

import orjson

#: Stands for bytes that are not UTF-8; no text can hold it.
NOT_UTF8 = "\ufdd0\udc00\ud800"
_UNDECODED = re.compile("[\udc80-\udcff]+")
# A record that otlp_fields lets through has 160 brackets around its innermost value.
_MAX_BRACKETS = 400
_TOKENS = re.compile(r'"[^"]*"|[\[\]{}]')


def load_json(body: bytes) -> Any:
    """Read a document.

    Half a surrogate pair becomes U+FFFD (otlp_fields). Text that is not UTF-8 and values that are
    nested too deep stay recognisable, so that they cost their own record only. NaN and Infinity
    without quotes and control characters in text, which careless writers let through, are what
    they say.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It has more brackets than it closes.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # Raw surrogates are what this makes of bytes that are not UTF-8.
        text = _UNDECODED.sub(NOT_UTF8, body.decode(errors="surrogateescape"))
        return json.loads(_shallow(text), strict=False)


def _shallow(text: str) -> str:
    """Put null in the place of everything inside more than _MAX_BRACKETS brackets."""
    kept: list[str] = []
    depth = start = 0
    # Without escapes, every quote begins or ends a text: a pattern that knows escapes takes 100
    # bytes for each while it looks.
    unescaped = text.replace("\\\\", "__").replace('\\"', "__")
    for token in _TOKENS.finditer(unescaped):
        bracket = token[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == _MAX_BRACKETS + 1:
                kept.append(text[start : token.start()] + "null")
        elif bracket in ("]", "}"):
            if depth == _MAX_BRACKETS + 1:
                start = token.end()
            depth -= 1
    # Brackets that are never closed: the parser has to see them.
    return text if depth > _MAX_BRACKETS or not kept else "".join([*kept, text[start:]])
