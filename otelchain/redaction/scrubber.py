"""The redactor of one place: never raises, counts, and remembers texts that come again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from otelchain.redaction.place_rules import PlaceRules
from otelchain.redaction.policy import WALK
from otelchain.redaction.replacing import failed
from otelchain.redaction.scrubbing import Pass
from otelchain.redaction.tally import Tally, Totals


class Scrubber:
    """Takes out of texts and trees what a policy finds in one place.

    Shared by any number of threads. Never raises and fails closed: a text on which a rule fails
    becomes ``<redaction failed: RULE>``.

    Args:
        rules: The rules of the place.
        totals: Told of every finding.
        key: Key of the attribute, with which paths may begin.
    """

    def __init__(self, rules: PlaceRules, totals: Totals, key: str = "") -> None:
        self._rules = rules
        self._totals = totals
        self._root = Pass(rules, Tally()).root(key)
        self._known = lru_cache(maxsize=4096)(self._kept_text)
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

    def known_text(self, text: str) -> str:
        """Do as `text` does, at once for texts that come again and again: names, tags, ids."""
        try:
            known = self._known(text)
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

    def _redacted(self, text: str, found: Tally) -> str:
        try:
            if not isinstance(text, str):
                raise TypeError
            return str(Pass(self._rules, found).leaf(text, self._root))
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            found.failed(WALK)
            return failed(WALK)

    def _kept_text(self, text: str) -> str | tuple[str, Tally]:
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
