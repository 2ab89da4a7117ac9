"""Counts what rules found and where they failed; never the value."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple


class Tally:
    """What one or several passes found, by rule; for one thread.

    Attributes:
        findings: How often each rule replaced something.
        failures: How many texts were given up because of each rule.
    """

    __slots__ = ("failures", "findings")

    def __init__(self) -> None:
        self.findings: dict[str, int] = {}
        self.failures: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.findings or self.failures)

    def found(self, rule: str, start: int, end: int) -> None:  # noqa: ARG002 (see findings.py)
        """Note that a rule found characters ``start`` to ``end`` of the text at hand."""
        self.findings[rule] = self.findings.get(rule, 0) + 1

    def failed(self, rule: str) -> None:
        """Note that a text was given up because a rule failed on it."""
        self.failures[rule] = self.failures.get(rule, 0) + 1

    def add(self, other: Tally) -> None:
        """Take over what another pass counted."""
        for rule, number in other.findings.items():
            self.findings[rule] = self.findings.get(rule, 0) + number
        for rule, number in other.failures.items():
            self.failures[rule] = self.failures.get(rule, 0) + number


class RedactionCounts(NamedTuple):
    """How often each rule replaced something, and on how many texts it failed."""

    findings: Mapping[str, int]
    failures: Mapping[str, int]


class Totals:
    """What all passes of a redactor found; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tally = Tally()
        #: Passes that found something or failed; only ever grows.
        self.passes = 0

    def add(self, tally: Tally) -> None:
        """Take over what a pass counted."""
        with self._lock:
            self.passes += 1
            self._tally.add(tally)

    def counts(self) -> RedactionCounts:
        """Copy what was counted so far."""
        with self._lock:
            return RedactionCounts(dict(self._tally.findings), dict(self._tally.failures))
