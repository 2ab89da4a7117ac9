"""Applies rules to one text: scan, find, join, replace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otelchain.redaction.folding import encodable
from otelchain.redaction.json_text import Replaced, written, written_as_json
from otelchain.redaction.replacing import MASK, Action, OwnTokens, Replacer, failed, outside
from otelchain.redaction.rules import Match, Rule, Span
from otelchain.redaction.scanner import Scanner, matches
from otelchain.redaction.tally import Tally
from otelchain.redaction.views import View, plainest, views

# Replacing can bring characters together that match anew; a fifth round has not been seen.
MAX_ROUNDS = 8


class TreatedRule(NamedTuple):
    """A rule and what happens to what it finds."""

    rule: Rule
    action: Action


class Finding(NamedTuple):
    """A span to replace, the rule that found it, and what to do."""

    span: Span
    rule: Rule
    action: Action


class RuleFailedError(Exception):
    """A rule raised or took too long; holds the rule's name only."""


class Engine:
    """Replaces what its rules find in a text; safe to share between threads.

    Where findings overlap, their union is replaced and named after the one that starts first,
    then the longest, then the first in the policy: no part of any finding is left over.

    Args:
        rules: In policy order.
        replace: Writes replacements.
        tokens: Finds earlier ones.
        budget_seconds: RE2 is linear for one match, but a pattern may scan to the end for each of
            many matches. A rule that takes longer than this on one text, in CPU time of its
            thread, fails closed.
    """

    def __init__(
        self,
        rules: Sequence[TreatedRule],
        replace: Replacer,
        tokens: OwnTokens,
        budget_seconds: float,
    ) -> None:
        self._scanner = Scanner([treated.rule for treated in rules])
        self._order = {id(treated.rule): place for place, treated in enumerate(rules)}
        self._actions = {id(treated.rule): treated.action for treated in rules}
        self._replace = replace
        self._tokens = tokens
        self._budget_seconds = budget_seconds
        #: Whether a rule depends on where a text begins or ends.
        self.anchored = any(treated.rule.anchored for treated in rules)
        self._rules = [treated.rule for treated in rules]
        #: What occurs wherever one of the rules finds something.
        self.first_patterns = [rule.first or rule.pattern for rule in self._rules]

    @property
    def unfolded_patterns(self) -> list[str]:
        """What occurs wherever a rule finds something that looks at texts as they are written."""
        return [rule.first or rule.pattern for rule in self._rules if not rule.folded]

    def compile(self) -> None:
        """Build the automaton now.

        Raises:
            RedactionPolicyError: The patterns are too large together.
        """
        self._scanner.compile()

    def is_clean(self, text: str) -> bool:
        """Tell that no rule can find anything in the text. May be wrong only with False."""
        return self._scanner.is_clean(text)

    def are_clean(self, texts: list[str]) -> bool:
        """Tell the same of many texts, in one scan unless a rule depends on where texts end."""
        if self.anchored:
            return all(map(self._scanner.is_clean, texts))
        return self._scanner.is_clean("\n".join(texts))

    def redact(self, text: str, tally: Tally, *, as_json: bool = False) -> str:
        """Replace until nothing more is found; a failing rule costs the whole text.

        Args:
            text: The text as it is written.
            tally: Told of every finding; in later rounds, where offsets have moved, of the whole.
            as_json: The text is JSON and stays JSON.
        """
        size = len(text)
        write = written_as_json if as_json else written
        try:
            for further in range(MAX_ROUNDS):
                replaced = list(self._replaced(text))
                for each in replaced:
                    tally.found(each.rule, *((0, size) if further else (each.start, each.end)))
                before, text = text, write(text, replaced)
                if text == before:
                    break
        except RuleFailedError as error:
            tally.failed(error.args[0])
            instead = failed(error.args[0])
            return json.dumps(instead) if as_json else instead
        return text

    def _replaced(self, text: str) -> Iterator[Replaced]:
        """Find what is to be replaced, in order and without overlaps."""
        findings = self._findings(text)
        if not findings:
            return
        tokens = self._tokens.spans(text)
        for finding in _joined(findings):
            rule = finding.rule
            for start, end in outside(finding.span, tokens):
                value = text[start:end]
                value = rule.canonical(plainest(value) if rule.folded else value)
                instead = self._replace(finding.action, rule.name, value)
                yield Replaced(start, end, instead, rule.name)

    def _findings(self, text: str) -> list[Finding]:
        text = self._tokens.blanked(text)
        rules, has_views = self._scanner.candidates(text)
        if has_views:
            found = self._of_rules([rule for rule in rules if not rule.folded], encodable(text))
            found += [finding for view in views(text) for finding in self._in_view(view)]
        else:
            found = self._of_rules(rules, text)
        return sorted(found, key=self._position)

    def _in_view(self, view: View) -> list[Finding]:
        text = self._tokens.blanked(view.text)
        rules, _ = self._scanner.candidates(text)
        found = self._of_rules([rule for rule in rules if rule.folded], text)
        return [each._replace(span=view.original(each.span)) for each in found]

    def _of_rules(self, rules: list[Rule], text: str) -> list[Finding]:
        return [finding for rule in rules for finding in self._of_rule(rule, text)]

    def _position(self, finding: Finding) -> tuple[int, int, int]:
        start, end = finding.span
        return start, -end, self._order[id(finding.rule)]

    def _of_rule(self, rule: Rule, text: str) -> list[Finding]:
        deadline = time.thread_time() + self._budget_seconds
        action = self._actions[id(rule)]
        findings: list[Finding] = []
        try:
            for match in matches(rule.pattern, text):
                spans = _spans(rule, action, match)
                findings += [Finding(span, rule, action) for span in spans]
                if time.thread_time() > deadline:
                    raise TimeoutError
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            raise RuleFailedError(rule.name) from None
        return findings


def _spans(rule: Rule, action: Action, match: Match) -> Iterator[Span]:
    for span in rule.find(match):
        if action.name == "remove" and rule.removes_all:
            yield Span(match.start(), match.end())
        elif span.start < span.end:
            yield span


def _joined(findings: list[Finding]) -> Iterator[Finding]:
    """Merge overlapping findings into one; findings are sorted."""
    joined = findings[0]
    for other in findings[1:]:
        if other.span.start >= joined.span.end:
            yield joined
            joined = other
        elif other.rule is not joined.rule or other.span.end > joined.span.end:
            joined = _union(joined, other)
    yield joined


def _union(first: Finding, second: Finding) -> Finding:
    """Join two; the last characters of one may be the secret of the other, so none are shown."""
    action = (
        MASK if first.action.name == "partial" and first.action != second.action else first.action
    )
    return Finding(Span(first.span.start, max(first.span.end, second.span.end)), first.rule, action)
