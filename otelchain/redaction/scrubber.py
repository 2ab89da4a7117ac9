"""The redactor of one place: never raises, counts, and remembers texts that come again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from otelchain.redaction.embedded import starts_json
from otelchain.redaction.place_rules import Above, PlaceRules
from otelchain.redaction.policy import WALK
from otelchain.redaction.replacing import failed
from otelchain.redaction.scrubbing import Pass
from otelchain.redaction.tally import Tally, Totals

_Kept = str | tuple[str, Tally]
NOTHING_ABOVE = Above()

# Payloads are remembered for a moment: the input of a run is often that of its parent, or what its
# sibling has just put out. Redacting 1 KB costs 4 µs, finding it again 0.2. At most 2 MiB each.
_SHORT_BYTES, _SHORT_KEPT, _LONG_KEPT = 4_096, 256, 8


class Attribute(NamedTuple):
    """An attribute as it may be kept."""

    key: str
    value: Any


class Scrubber:
    """Takes out of texts and trees what a policy finds in one place.

    Shared by any number of threads. Never raises and fails closed: a text on which a rule fails
    becomes ``<redaction failed: RULE>``.

    Args:
        rules: The rules of the place.
        totals: Told of every finding.
        key: Key of the attribute, with which paths may begin.
        mark: Names policy and place, for what is kept by the policy it has passed.
    """

    def __init__(self, rules: PlaceRules, totals: Totals, key: str = "", mark: str = "") -> None:
        self.mark = mark
        self._rules = rules
        self._totals = totals
        self._root = Pass(rules, Tally()).root(key)
        self._known = lru_cache(maxsize=4096)(self._kept_text)
        self._short_json = lru_cache(maxsize=_SHORT_KEPT)(self._kept_json)
        self._long_json = lru_cache(maxsize=_LONG_KEPT)(self._kept_json)
        self.reads_json_text = rules.reads_json_text
        # Nothing but its size is shown of any value here.
        self.withholds = Pass(rules, Tally()).whole({}, self._root) is not None

    def text(self, text: str, tally: Tally | None = None) -> str:
        """Give the text without what the policy finds; JSON text stays JSON.

        Args:
            text: Any text.
            tally: Told of every finding, beside the redactor's own count.
        """
        found = Tally()
        redacted = self._redacted(text, found)
        self._count(found, tally)
        return redacted

    def beginning(self, text: str) -> str:
        """Do as `text` does with the beginning of a text that is about to be cut.

        JSON that is cut is no JSON any more, so nobody could say what a path names in it: where
        there are paths, nothing of it stays.
        """
        if self._rules.paths is not None and starts_json(text):
            return ""
        return self.text(text)

    def known_text(self, text: str) -> str:
        """Do as `text` does, at once for texts that come again and again: names, tags, ids."""
        return self._remembered(self._known, text)

    def known_json(self, encoded: bytes) -> str:
        """Do as `text` does with JSON in UTF-8, at once where the same came a moment ago."""
        short = len(encoded) <= _SHORT_BYTES
        return self._remembered(self._short_json if short else self._long_json, encoded)

    def _remembered(self, remember: Callable[[Any], _Kept], given: str | bytes) -> str:
        try:
            known = remember(given)
        except _FailedError as failure:
            known = failure.redacted, failure.found
        if isinstance(known, str):
            return known
        redacted, found = known
        self._count(found, None)
        return redacted

    def value(self, tree: Any, tally: Tally | None = None) -> Any:
        """Give a JSON-like tree without what the policy finds. See ``Redactor.value``.

        Args:
            tree: Any tree.
            tally: Told of every finding, beside the redactor's own count.
        """
        found = Tally()
        try:
            redacted = Pass(self._rules, found).value(tree, self._root)
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            found.failed(WALK)
            redacted = failed(WALK)
        self._count(found, tally)
        return redacted

    def attribute(self, key: str, value: Any, tally: Tally | None = None) -> Attribute | None:
        """Redact an attribute that somebody else made: its key, and its value as the key says.

        Args:
            key: The key, which may be the name of a secret, or hold one.
            value: A text or a tree.
            tally: Told of every finding, beside the redactor's own count.

        Returns:
            The same objects where nothing was found; None where the attribute goes.
        """
        found = Tally()
        attribute: Attribute | None
        try:
            attribute = self._attribute(key, value, Pass(self._rules, found))
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            found.failed(WALK)
            attribute = Attribute(failed(WALK), failed(WALK))
        self._count(found, tally)
        return attribute

    def _attribute(self, key: str, value: Any, walk: Pass) -> Attribute | None:
        above = self._rules.entry(key)
        if walk.drops(above):
            return None
        name = str(walk.name(key, NOTHING_ABOVE))
        if isinstance(value, (dict, list)):
            return Attribute(name, walk.value(value, above))
        return Attribute(name, walk.leaf(value, above))

    def withheld(self, text: str | None, about_bytes: int) -> str:
        """Name a value by its size, and its hash where there is a key; see `withholds`.

        Args:
            text: Its whole; None where that is too large to be written.
            about_bytes: An estimate of its size, for then.
        """
        found = Tally()
        instead = Pass(self._rules, found).withheld(text, about_bytes, self._root)
        self._count(found, None)
        return instead

    def _redacted(self, text: str, found: Tally) -> str:
        try:
            if not isinstance(text, str):
                raise TypeError
            return str(Pass(self._rules, found).leaf(text, self._root))
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            found.failed(WALK)
            return failed(WALK)

    def _kept_json(self, encoded: bytes) -> _Kept:
        return self._kept_text(encoded.decode())

    def _kept_text(self, text: str) -> _Kept:
        """Give the text alone when nothing was found in it."""
        found = Tally()
        redacted = self._redacted(text, found)
        if found.failures:  # may go better the next time
            raise _FailedError(redacted, found)
        return (redacted, found) if found else redacted

    def _count(self, found: Tally, tally: Tally | None) -> None:
        if found:
            self._totals.add(found)
            if tally is not None:
                tally.add(found)


class _FailedError(Exception):
    """Carries a text that is not remembered."""

    def __init__(self, redacted: str, found: Tally) -> None:
        self.redacted, self.found = redacted, found
