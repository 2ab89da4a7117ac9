"""What is put in place of a secret: a mask, a keyed hash, its end, its size, nothing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.hash_keys import DIGITS_PATTERN, ID_PATTERN, HashKey
from otelchain.redaction.rules import Span

ActionName = Literal["mask", "hash", "remove", "partial", "withhold", "keep"]
ACTIONS: tuple[str, ...] = get_args(ActionName)

MAX_KEPT = 8
_BLANK = "\x1a"  # SUBSTITUTE: no letter, digit, space or quote


class Action(NamedTuple):
    """What happens to what a rule found.

    Attributes:
        name: ``mask`` writes ``[REDACTED:rule]``, ``hash`` writes ``[rule:key id:digits]``,
            ``partial`` writes ``[rule:***1111]``, ``remove`` writes nothing, ``withhold`` writes
            the size, ``keep`` leaves it.
        keep_last: Letters and digits that ``partial`` shows; 1 to 8, never more than half of them.
    """

    name: str = "mask"
    keep_last: int = 4


MASK, KEEP = Action("mask"), Action("keep")


def failed(name: str) -> str:
    """Stand in for a text that could not be checked.

    >>> failed("email")
    '<redaction failed: email>'
    """
    return f"<redaction failed: {name}>"


class Replacer:
    """Writes replacements.

    Args:
        hash_key: None where nothing is hashed.
    """

    def __init__(self, hash_key: HashKey | None) -> None:
        self._hash_key = hash_key

    def __call__(self, action: Action, rule: str, value: str) -> str:
        """Give what stands for a value, in the spelling that its rule makes canonical."""
        if action.name == "hash":
            return f"[{rule}:{self._hashed(value)}]"
        if action.name == "partial":
            tail = last_characters(value, action.keep_last)
            return f"[{rule}:***{tail}]" if tail else f"[REDACTED:{rule}]"
        if action.name == "remove":
            return ""
        if action.name == "withhold":
            return self.withheld(value)
        return f"[REDACTED:{rule}]"

    def withheld(self, value: str) -> str:
        """Name a value by its size, and its hash where there is a key."""
        size = len(value.encode("utf-8", "surrogatepass"))
        key = f", {self._hashed(value)}" if self._hash_key else ""
        return f"[withheld: {size} bytes{key}]"

    def _hashed(self, value: str) -> str:
        if self._hash_key is None:
            raise RedactionPolicyError("a hash needs a key")  # policies without one are refused
        return f"{self._hash_key.id}:{self._hash_key.digits(value)}"


def last_characters(value: str, number: int) -> str:
    """Give the last letters and digits of a value; none where they would be more than half of it.

    >>> last_characters("4111 1111 1111 1234", 4), last_characters("hunter2", 4)
    ('1234', '')
    """
    plain = [char for char in value if char.isalnum()]
    return "".join(plain[-number:]) if len(plain) >= 2 * number else ""


class OwnTokens:
    """Finds replacements made earlier, which no rule may touch again.

    Hashes of every key id are among them, so that a rotated key leaves old tokens as they are.

    Args:
        names: What may stand in a token as the rule.
        partial: Rules of which the last characters are shown, and how many.
    """

    def __init__(self, names: Iterable[str], partial: Mapping[str, int]) -> None:
        known = "|".join(sorted(map(re.escape, set(names)), key=len, reverse=True))
        hashed = f"{ID_PATTERN}:{DIGITS_PATTERN}"
        shapes = [
            rf"\[REDACTED:(?:{known})\]",
            rf"<redaction failed: (?:{known})>",
            rf"\[(?:{known}):{hashed}\]",
            rf"\[withheld: (?:about )?[0-9]{{1,15}} bytes(?:, {hashed})?\]",
        ]
        shapes += [rf"\[{re.escape(name)}:\*\*\*\w{{{n}}}\]" for name, n in partial.items()]
        self._pattern = re.compile("|".join(shapes))

    def spans(self, text: str) -> list[Span]:
        """Give their places, in order."""
        if "[" not in text and "<" not in text:
            return []
        return [Span(*match.span()) for match in self._pattern.finditer(text)]

    def blanked(self, text: str) -> str:
        """Hide them, because ``github_token`` inside a mask is no name of a secret."""
        if "[" not in text and "<" not in text:
            return text
        return self._pattern.sub(lambda match: _BLANK * len(match.group()), text)

    def cover(self, text: str) -> bool:
        """Tell whether nothing but replacements, white space and quotes is in a text."""
        left = outside(Span(0, len(text)), self.spans(text))
        return all(not text[start:end].strip(' \t\r\n"') for start, end in left)


def _end(span: Span) -> int:
    return span.end


def outside(span: Span, taken: list[Span]) -> Iterator[Span]:
    """Cut ``taken`` (in order) out of a span.

    >>> list(outside(Span(0, 9), [Span(2, 4), Span(8, 12)]))
    [Span(start=0, end=2), Span(start=4, end=8)]
    """
    start = span.start
    # Taken spans do not overlap, so their ends are in order too.
    for place in range(bisect_right(taken, start, key=_end), len(taken)):
        other = taken[place]
        if other.start >= span.end:
            break
        if other.start > start:
            yield Span(start, other.start)
        start = max(start, other.end)
    if start < span.end:
        yield Span(start, span.end)
