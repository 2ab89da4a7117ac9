r"""Other spellings of a text in which a secret shows: folded, unescaped, URL- and Base64-decoded.

A view is a text and the way back: what a rule finds in it is replaced in the original. Each decoder
is a scan for what it can decode and one pass over what it found, so all of them are linear, and a
text without such spellings never gets here (``NEEDS_VIEWS`` is part of the scan of all rules).
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import unquote

from otelchain.redaction.folding import encodable, fold
from otelchain.redaction.rules import Span
from otelchain.redaction.scanner import matches
from otelchain.redaction.spellings import BASE64_TEXT, URL_ESCAPE, ZERO_WIDTH

# Spellings inside one another: a URL in a URL, Base64 in Base64. A fourth has not been seen.
MAX_ROUNDS = 3

_BESIDES = rf"{ZERO_WIDTH}+|\\+u([0-9a-fA-F]{{4}})"


class Edit(NamedTuple):
    """Characters of a text and what they stand for."""

    start: int
    end: int
    text: str


class View:
    """A text in another spelling, and where its characters stand in the original."""

    def __init__(self, source: str, edits: Iterable[Edit], below: View | None = None) -> None:
        self._below = below
        self._edits = list(edits)
        at, parts = 0, []
        for start, end, text in self._edits:
            parts += [source[at:start], text]
            at = end
        self.text = fold("".join([*parts, source[at:]]))
        # Where each edit starts here: moved by what the edits before it added.
        added = accumulate(
            (len(text) - (end - start) for start, end, text in self._edits), initial=0
        )
        self._starts = [
            start + more for (start, _, _), more in zip(self._edits, added, strict=False)
        ]

    def original(self, span: Span) -> Span:
        """Give the characters of the original that a span of the view stands for."""
        span = Span(self._place(span.start), self._place(span.end - 1, last=True))
        return self._below.original(span) if self._below else span

    def _place(self, at: int, *, last: bool = False) -> int:
        """Give the start of a character in the text below, or its end."""
        number = bisect_right(self._starts, at) - 1
        if number < 0:
            return at + last
        start, end, text = self._edits[number]
        beyond = at - self._starts[number] - len(text)
        if beyond >= 0:
            return end + beyond + last
        return end if last else start


def views(text: str) -> Iterator[View]:
    r"""Give the views of a text that differ from each other; the first is the folded one.

    >>> [view.text for view in views("bob%40example.com")]
    ['bob%40example.com', 'bob@example.com']
    """
    text = encodable(text)
    view = View(text, _unescaped(text))
    yield view
    for _ in range(MAX_ROUNDS):
        found = False
        # Base64 last: a token has Base64 in it, and is one only where nothing is glued to it.
        for decode in (*[_without_url_escapes] * MAX_ROUNDS, _without_base64):
            edits = list(decode(view.text))
            if edits:
                found, view = True, View(view.text, edits, view)
                yield view
        if not found:
            return


def plainest(text: str) -> str:
    """Give one spelling for all spellings of a value, for its hash.

    >>> plainest("bob%40ex\u200bample.com")
    'bob@example.com'
    """
    return list(views(text))[-1].text.strip("\n")


def _unescaped(text: str) -> Iterator[Edit]:
    if "\\u" in text or not text.isascii():
        for match in matches(_BESIDES, text):
            code = match.group(1)
            yield Edit(match.start(), match.end(), _character(code) if code else "")


def _character(code: str) -> str:
    character = chr(int(code, 16))
    return character if character.isprintable() else " "


def _without_url_escapes(text: str) -> Iterator[Edit]:
    if "%" in text:
        for match in matches(URL_ESCAPE, text):
            yield Edit(match.start(), match.end(), unquote(match.group()))


def _without_base64(text: str) -> Iterator[Edit]:
    for match in matches(BASE64_TEXT, text):
        yield Edit(match.start(), match.end(), f"\n{_base64_text(match.group())}\n")


def _base64_text(encoded: str) -> str:
    whole = encoded.rstrip("=").translate(_STANDARD)
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    return base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("ascii", "replace")


_STANDARD = str.maketrans("-_", "+/")
