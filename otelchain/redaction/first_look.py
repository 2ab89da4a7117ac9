r"""One scan that tells of many texts at once that a policy finds nothing in them.

For whoever sees much that is clean, as a collector does. `Engine.is_clean` says which rules may
find something, in one text; this says whether any can, in all texts of a request, at two thirds of
the cost. It may be wrong only by sending a clean text to the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from otelchain.redaction.place_rules import PlaceRules
from otelchain.redaction.scanner import MAX_AUTOMATON_BYTES
from otelchain.redaction.spellings import NEEDS_VIEWS

# What JSON escapes besides \u, which no scan below sees through (NEEDS_VIEWS names it).
_CHARACTERS = {
    letter: bytes([stands_for])
    for letter, stands_for in zip(b'nrtbf"/', b'\n\r\t\b\f"/', strict=True)
}
_FOLDED = re.compile(rb"\\[nrtbf]")
# JSON inside strings inside JSON.
_MAX_NESTING = 4
_NAMED_GROUP = re.compile(r"\(\?P<\w+>")


class FirstLook:
    """Looks at texts for a policy; safe to share between threads.

    Args:
        rules: The rules that apply anywhere.
    """

    def __init__(self, rules: PlaceRules) -> None:
        engine = rules.engine
        #: False where the policy may change texts that no pattern tells: by paths or functions, or
        #: by patterns bound to the ends of a text.
        self.tells = rules.paths is None and not rules.functions and not engine.anchored
        #: Whether UUIDs can be passed over: the bundled rules find nothing in them.
        self.skips_uuids = rules.own is None
        self._is_named = rules.named
        patterns, names = engine.first_patterns, rules.names_pattern
        # Most texts are clean after the first of these; the others tell what it was.
        looked_for = [*patterns, *filter(None, [names])]
        self._all = _one_of([*looked_for, NEEDS_VIEWS]) if looked_for else None
        self._patterns = _one_of(patterns) if patterns else None
        as_written = [*engine.unfolded_patterns, *filter(None, [names])]
        self._as_written = _one_of(as_written) if as_written else None
        self._spellings = _one_of([NEEDS_VIEWS])
        self._names = _one_of([names], capture=True) if names else None

    def is_named(self, name: str) -> bool:
        """Tell whether a name alone makes its value secret."""
        return self._is_named(name) is not None

    def is_clean(self, texts: Iterable[str]) -> bool:
        """Tell that no rule can find anything in any of the texts."""
        plain: list[str] = []
        escaped: list[str] = []
        for text in texts:
            (escaped if "\\" in text else plain).append(text)
        return self.bytes_are_clean(_joined(plain), _joined(escaped))

    def bytes_are_clean(self, plain: bytes, escaped: bytes) -> bool:
        r"""Tell the same of texts in UTF-8, one a line: those without and those with a backslash.

        The latter may be JSON, and most JSON of messages has a ``\n``. What the rules see of such a
        text is either what stands in it, or what it says as JSON, or it with blanks for escapes.
        """
        if not self._finds_nothing(plain):
            return False
        for _ in range(_MAX_NESTING):
            if b"\\" not in escaped:
                return self._finds_nothing(escaped)
            if not (self._shows_nothing(escaped) and self._finds_nothing(_folded(escaped))):
                return False
            before, escaped = escaped, _unescaped(escaped)
            if escaped == before:  # backslashes that escape nothing
                return True
        return False

    def _finds_nothing(self, text: bytes) -> bool:
        if self._all is None or self._all.search(text) is None:
            return True
        return self._spellings.search(text) is None and self._matches_nothing(text)

    def _shows_nothing(self, text: bytes) -> bool:
        """Tell the same of a text with escapes as it is written, where few rules look at it."""
        quick = self._as_written
        return quick is None or quick.search(text) is None or self._matches_nothing(text)

    def _matches_nothing(self, text: bytes) -> bool:
        if self._patterns is not None and self._patterns.search(text) is not None:
            return False
        # Many names hold a word such as token; few are names of secrets.
        return self._names is None or not any(map(self._may_be_named, self._names.findall(text)))

    def _may_be_named(self, written: bytes) -> bool:
        """Tell whether what stands before a colon, in quotes, is or may be the name of a secret."""
        name = written.partition(b'"')[2].rpartition(b'"')[0]
        return b"\\" in name or self.is_named(name.decode(errors="replace"))


def _one_of(patterns: Iterable[str], *, capture: bool = False) -> Any:
    import re2  # 8 ms and a C library: only when something is to be redacted

    options = re2.Options()
    options.log_errors = False
    options.never_capture = not capture
    # Beyond it RE2 goes on without an automaton: slower, and as exact.
    options.max_mem = MAX_AUTOMATON_BYTES
    # Two rules may have a group of the same name.
    each = (f"(?:{_NAMED_GROUP.sub('(?:', pattern)})" for pattern in patterns)
    return re2.compile("|".join(each).encode(), options)


def _joined(texts: list[str]) -> bytes:
    return "\n".join(texts).encode(errors="replace")


def _unescaped(text: bytes) -> bytes:
    """Read what JSON escapes, but for the escapes by number."""
    first, *rest = text.split(b"\\")
    read = [first]
    parts = iter(rest)
    for part in parts:
        if not part:  # two backslashes; what follows the second is no escape
            read += [b"\\", next(parts, b"")]
        elif part[0] in _CHARACTERS:
            read += [_CHARACTERS[part[0]], part[1:]]
        else:
            read += [b"\\", part]
    return b"".join(read)


def _folded(text: bytes) -> bytes:
    """Put blanks for escapes, as `otelchain.redaction.folding` does."""
    return _FOLDED.sub(b"  ", text)
