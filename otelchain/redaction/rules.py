"""What a rule is: a shape to look for, and a check that turns a match into spans to replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Match(Protocol):
    """The part of an ``re2`` match that rules use; offsets are in characters."""

    string: str

    @property
    def re(self) -> Any: ...  # noqa: D102
    def start(self, group: int = 0) -> int: ...  # noqa: D102
    def end(self, group: int = 0) -> int: ...  # noqa: D102
    def group(self, group: int = 0) -> Any: ...  # noqa: D102


class Span(NamedTuple):
    """Half-open range of characters."""

    start: int
    end: int


Find = Callable[[Match], Iterable[Span]]
Check = Callable[[str], bool]


def whole(match: Match) -> Iterable[Span]:
    """Replace everything that matched."""
    return (Span(match.start(), match.end()),)


def last_group(match: Match) -> Iterable[Span]:
    """Replace the last group that took part: patterns list their forms as alternatives."""
    for group in range(match.re.groups, 0, -1):
        if match.start(group) >= 0:
            return (Span(match.start(group), match.end(group)),)
    return whole(match)


def checked(check: Check, find: Find = whole) -> Find:
    """Replace what ``find`` gives only where ``check`` accepts its text."""

    def find_checked(match: Match) -> Iterable[Span]:
        return [span for span in find(match) if check(match.string[span.start : span.end])]

    return find_checked


def same(value: str) -> str:
    """Hash a value as it is written."""
    return value


@dataclass(frozen=True)
class Rule:
    r"""One thing to look for.

    Attributes:
        name: Written into the replacement, as in ``[REDACTED:email]``.
        family: The detector the rule belongs to; selecting a family selects its rules.
        pattern: RE2 syntax. Must not depend on where the text begins or ends unless
            ``anchored`` says so, because a tree is scanned as one joined text.
        find: Turns a match into the spans to replace; may give none.
        first: Cheaper pattern for the scan of all rules at once; it must occur wherever
            ``pattern`` does. Empty: ``pattern`` itself.
        canonical: Brings spellings of one value together before it is hashed.
        folded: Look at the folded text (full-width digits as ASCII, escapes blank).
        anchored: The pattern may use ``^ $ \A \z``: leaves are scanned one by one.
        removes_all: Removal takes the whole match and not only the found spans.
    """

    name: str
    family: str
    pattern: str
    find: Find = whole
    first: str = ""
    canonical: Callable[[str], str] = same
    folded: bool = True
    anchored: bool = False
    removes_all: bool = False
