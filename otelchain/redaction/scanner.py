"""One linear pass that tells which rules can occur in a text (``re2.Set``)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.folding import encodable
from otelchain.redaction.rules import Match, Rule
from otelchain.redaction.spellings import NEEDS_VIEWS

# The set's automaton is built as texts need it, up to this; a compiled default policy uses 1 MB.
MAX_AUTOMATON_BYTES = 64 * 2**20

_ALWAYS, _VIEWS, _FIRST_RULE = 0, 1, 2


def _options() -> Any:
    import re2  # 8 ms and a C library: only when something is to be redacted

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_AUTOMATON_BYTES
    return options


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str | bytes) -> Any:
    """Compile with RE2.

    Raises:
        re2.error: RE2 has no such syntax (look-around, back-references) or it is too large.
    """
    import re2

    return re2.compile(pattern, _options())


class AsciiMatch:
    """A match over bytes that answers with text; in ASCII their offsets are the same."""

    __slots__ = ("_match", "string")

    def __init__(self, match: Any, text: str) -> None:
        self._match = match
        self.string = text

    @property
    def re(self) -> Any:
        """The compiled pattern."""
        return self._match.re

    def start(self, group: int = 0) -> int:
        """Give where a group begins, -1 if it took no part."""
        return int(self._match.start(group))

    def end(self, group: int = 0) -> int:
        """Give where a group ends, -1 if it took no part."""
        return int(self._match.end(group))

    def group(self, group: int = 0) -> str | None:
        """Give the text of a group, None if it took no part."""
        start: int = self._match.start(group)
        return None if start < 0 else self.string[start : self._match.end(group)]


def matches(pattern: str, text: str) -> Iterator[Match]:
    """Find every match; bytes are three times faster than text, which RE2 has to measure."""
    if not text.isascii():
        yield from compiled(pattern).finditer(text)
        return
    for match in compiled(pattern.encode()).finditer(text.encode()):
        yield AsciiMatch(match, text)


@functools.lru_cache(maxsize=16)
def _compiled_set(patterns: tuple[str, ...]) -> Any:
    import re2

    search = re2.Set.SearchSet(_options())
    for pattern in patterns:
        search.Add(pattern)
    search.Compile()
    return search


class Scanner:
    """Finds which of its rules have a candidate in a text; safe to share between threads.

    Raises:
        RedactionPolicyError: The patterns together are too large for one automaton.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        firsts = (rule.first or rule.pattern for rule in self._rules)
        # The empty pattern matches every text: an answer without it means that RE2 ran out
        # of memory, which it reports as "no match". See `_occurring`.
        self._patterns = ("", NEEDS_VIEWS, *firsts)
        self._every = list(range(len(self._patterns)))
        self._set: Any = None

    def compile(self) -> Any:
        """Build the automaton now (about 15 ms) and not at the first text."""
        import re2

        try:
            self._set = _compiled_set(self._patterns)
        except re2.error as error:
            raise RedactionPolicyError(
                f"redaction patterns are too large together ({len(self._rules)} rules); "
                "use fewer or shorter ones"
            ) from error
        return self._set

    def is_clean(self, text: str) -> bool:
        """Tell whether no rule can match and nothing has another spelling."""
        return len(self._occurring(text)) == 1

    def candidates(self, text: str) -> tuple[list[Rule], bool]:
        """Give the rules that may match, in policy order, and whether to look at its views too."""
        found = sorted(self._occurring(text))
        rules = [self._rules[index - _FIRST_RULE] for index in found if index >= _FIRST_RULE]
        return rules, _VIEWS in found

    def _occurring(self, text: str) -> list[int]:
        match = (self._set or self.compile()).Match
        try:
            found: list[int] | None = match(text)
        except UnicodeEncodeError:
            found = [*(match(encodable(text)) or self._every), _VIEWS]
        if not found:  # out of memory: no rule can be ruled out
            return self._every
        return found
