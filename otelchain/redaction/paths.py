"""Paths into JSON trees: ``metadata.customer.*``, ``messages[*].content``, ``**.ssn``.

=================  ==================================================================
``customer``       a name; case does not matter, ``*`` and ``?`` stand for any text and
                   any character of it
``*``              one name or one place in a list
``[*]``, ``[0]``   any place in a list, the first
``**``             any number of names and places, also none
=================  ==================================================================

A path begins at the value's own root, or at any part of the key of its attribute: in
``otelchain.metadata`` both ``metadata.customer`` and ``customer`` are found. Dots in names count as
dots of a path. JSONPath's ``$.`` and ``..`` may be written too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.places import glob_pattern

Segments = tuple[str, ...]
State = frozenset[tuple[int, int]]
"""Which paths may still match: (number of the path, segments of it that are passed)."""

MAX_SEGMENTS = 32
_ANY_DEPTH = "**"
_PLACE = re.compile(r"\[[0-9]")
_SEGMENT = re.compile(r"\.?(\*\*|[^.\[\]]+)|\.?(\[(?:\*|[0-9]{1,9})\])")


def parse(path: str) -> Segments:
    """Split a path.

    >>> parse("messages[*].content"), parse("$..ssn")
    (('messages', '[*]', 'content'), ('**', 'ssn'))

    Raises:
        RedactionPolicyError: It is none.
    """
    if not isinstance(path, str) or not path.strip():
        raise RedactionPolicyError(f"path {path!r} must be text such as 'metadata.customer.*'")
    rest = re.sub(r"\A\$(?=[.\[])", "", path.strip())
    rest = rest.replace("..", ".**.").removeprefix(".")
    segments, at = [], 0
    while at < len(rest):
        match = _SEGMENT.match(rest, at)
        if match is None or (match.group().startswith(".") and at == 0):
            raise RedactionPolicyError(
                f"path {path!r} cannot be read from {rest[at:]!r}; write names with dots between "
                "them, [*] or [0] for places in a list, ** for any depth"
            )
        segments.append(match.group(1) or match.group(2))
        at = match.end()
    if len(segments) > MAX_SEGMENTS:
        raise RedactionPolicyError(f"path {path!r} has more than {MAX_SEGMENTS} parts")
    return tuple(segments)


class Paths:
    """Follows many paths at once while a tree is walked from the top.

    Args:
        paths: In order of precedence: where several match, the first counts.
    """

    def __init__(self, paths: Sequence[Segments]) -> None:
        self._paths = tuple(paths)
        self._start = self._closed((number, 0) for number in range(len(paths)))
        self._places = {int(part[1:-1]) for path in paths for part in path if _PLACE.match(part)}
        self.step = lru_cache(maxsize=16_384)(self._step)

    def start(self, key: str) -> State:
        """Give the state at the root of the value of an attribute."""
        state = self._start
        for segment in key.split(".") if key else ():
            state = self.below(state, segment) | self._start
        return state

    def below(self, state: State, name: str) -> State:
        """Give the state below an entry of a dict."""
        for segment in name.split(".") if "." in name else (name,):
            state = self.step(state, segment)
        return state

    def at(self, state: State, place: int) -> State:
        """Give the state at a place in a list."""
        return self.step(state, self.known(place))

    def known(self, place: int) -> int:
        """Give one number for all places that no path names."""
        return place if place in self._places else -1

    def matched(self, state: State) -> int | None:
        """Give the number of the first path that ends here."""
        ended = (number for number, passed in state if passed == len(self._paths[number]))
        return min(ended, default=None)

    def _step(self, state: State, segment: str | int) -> State:
        return self._closed(self._moves(state, segment))

    def _moves(self, state: State, segment: str | int) -> Iterator[tuple[int, int]]:
        for number, passed in state:
            path = self._paths[number]
            if passed == len(path):
                continue
            if path[passed] == _ANY_DEPTH:
                yield number, passed
            elif _fits(path[passed], segment):
                yield number, passed + 1

    def _closed(self, moves: Iterator[tuple[int, int]]) -> State:
        """Add what ``**`` reaches without a step."""
        found = set()
        for number, passed in moves:
            path = self._paths[number]
            found.add((number, passed))
            while passed < len(path) and path[passed] == _ANY_DEPTH:
                passed += 1
                found.add((number, passed))
        return frozenset(found)


def _fits(wanted: str, segment: str | int) -> bool:
    """Compare; attributes that write a list as ``messages.0.content`` have places as names."""
    if wanted == "*":
        return True
    if isinstance(segment, int) or segment.isdecimal():
        return wanted in ("[*]", f"[{segment}]", str(segment))
    return glob_pattern(wanted).fullmatch(segment) is not None
