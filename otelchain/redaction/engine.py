"""Applies rules to one text: scan, find, join, replace."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otelchain.redaction.folding import encodable
from otelchain.redaction.replacing import Action, OwnTokens, Replace, failed, outside
from otelchain.redaction.rules import Match, Rule, Span
from otelchain.redaction.scanner import Scanner, matches
from otelchain.redaction.views import View, plainest, views

# RE2 is linear for one match, but a pattern may scan to the end for each of many matches.
# A rule that takes longer than this on one text, in CPU time of its thread, fails closed.
RULE_BUDGET_SECONDS = 5.0
# Replacing can bring characters together that match anew; a fifth round has not been seen.
MAX_ROUNDS = 8


class Finding(NamedTuple):
    """A span to replace and the rule that found it."""

    span: Span
    rule: Rule


class RuleFailedError(Exception):
    """A rule raised or took too long; holds the rule's name only."""


class Engine:
    """Replaces what its rules find in a text; safe to share between threads.

    Where findings overlap, their union is replaced and named after the one that starts first,
    then the longest, then the first in the policy: no part of any finding is left over.
    """

    def __init__(
        self, rules: Sequence[Rule], action: Action, replace: Replace, tokens: OwnTokens
    ) -> None:
        self._scanner = Scanner(rules)
        self._order = {id(rule): place for place, rule in enumerate(rules)}
        self._removes = action == "remove"
        self._replace = replace
        self._tokens = tokens
        self._anchored = any(rule.anchored for rule in rules)

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
        if self._anchored:
            return all(map(self._scanner.is_clean, texts))
        return self._scanner.is_clean("\n".join(texts))

    def redact(self, text: str) -> str:
        """Replace until nothing more is found; a failing rule costs the whole text."""
        try:
            for _ in range(MAX_ROUNDS):
                before, text = text, self._one_round(text)
                if text == before:
                    break
        except RuleFailedError as error:
            return failed(error.args[0])
        return text

    def _one_round(self, text: str) -> str:
        findings = self._findings(text)
        if not findings:
            return text
        tokens = self._tokens.spans(text)
        parts, at = [], 0
        for span, rule in self._joined(findings):
            for start, end in outside(span, tokens):
                parts += [text[at:start], self._replacement(rule, text[start:end])]
                at = end
        return "".join([*parts, text[at:]])

    def _replacement(self, rule: Rule, value: str) -> str:
        value = plainest(value) if rule.folded else value
        return self._replace(rule.name, rule.canonical(value))

    def _joined(self, findings: list[Finding]) -> Iterator[Finding]:
        """Merge overlapping findings into one; findings are sorted."""
        (start, end), rule = findings[0]
        for span, other in findings[1:]:
            if span.start >= end:
                yield Finding(Span(start, end), rule)
                (start, end), rule = span, other
            else:
                end = max(end, span.end)
        yield Finding(Span(start, end), rule)

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
        (start, end), rule = finding
        return start, -end, self._order[id(rule)]

    def _of_rule(self, rule: Rule, text: str) -> list[Finding]:
        deadline = time.thread_time() + RULE_BUDGET_SECONDS
        findings: list[Finding] = []
        try:
            for match in matches(rule.pattern, text):
                findings += [Finding(span, rule) for span in self._spans(rule, match)]
                if time.thread_time() > deadline:
                    raise TimeoutError
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            raise RuleFailedError(rule.name) from None
        return findings

    def _spans(self, rule: Rule, match: Match) -> Iterator[Span]:
        for span in rule.find(match):
            if self._removes and rule.removes_all:
                yield Span(match.start(), match.end())
            elif span.start < span.end:
                yield span
