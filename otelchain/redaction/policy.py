"""From what the user asked for to the rules of one redactor, refused early when it cannot work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.detectors import DEFAULT_RULES, OPTIONAL_RULES
from otelchain.redaction.key_values import SPOKEN_RULES, key_value_rules
from otelchain.redaction.keys import IsSensitive
from otelchain.redaction.names import check_installed
from otelchain.redaction.rules import Match, Rule, Span, whole
from otelchain.redaction.scanner import compiled

DETECTORS = tuple(dict.fromkeys([*(rule.family for rule in DEFAULT_RULES), "secret"]))
"""Names that ``Redactor(detectors=…)`` takes: families of rules. Single rules work too."""

OPTIONAL_DETECTORS = tuple(dict.fromkeys(rule.family for rule in OPTIONAL_RULES))
"""Families that only who names them has."""

RULE_NAMES = frozenset(rule.name for rule in DEFAULT_RULES)

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def selected(detectors: Iterable[str] | None) -> frozenset[str]:
    """Resolve families to themselves and their rules; None selects everything.

    Raises:
        RedactionPolicyError: A name is neither a family nor a rule.
    """
    if detectors is None:
        return RULE_NAMES | set(DETECTORS)
    if isinstance(detectors, str):
        raise RedactionPolicyError(f"detectors takes a list of names, got the text {detectors!r}")
    names = set(detectors)
    unknown = sorted(names - RULE_NAMES - set(DETECTORS) - set(OPTIONAL_DETECTORS))
    if unknown:
        known = ", ".join([*DETECTORS, *OPTIONAL_DETECTORS])
        raise RedactionPolicyError(f"no redaction detector is named {unknown[0]!r}; known: {known}")
    return frozenset(names | {rule.name for rule in DEFAULT_RULES if rule.family in names})


def default_rules(names: frozenset[str]) -> list[Rule]:
    """Give the built-in rules that were selected, in policy order.

    Raises:
        RedactionPolicyError: A rule needs what is not installed.
    """
    if names.intersection(OPTIONAL_DETECTORS):
        check_installed()
    rules = (*DEFAULT_RULES, *OPTIONAL_RULES)
    return [rule for rule in rules if rule.name in names or rule.family in names]


def secret_rules(names: frozenset[str], keys: list[str], is_sensitive: IsSensitive) -> list[Rule]:
    """Give the rules for named secrets in text, if they or keys of the user's are wanted."""
    spoken = SPOKEN_RULES if "secret" in names else []
    return [*key_value_rules(is_sensitive, keys), *spoken] if spoken or keys else []


def pattern_rules(patterns: Mapping[str, str]) -> list[Rule]:
    """Make rules of the user's patterns.

    Raises:
        RedactionPolicyError: A name or a pattern cannot be used.
    """
    return [_pattern_rule(name, pattern) for name, pattern in patterns.items()]


def _pattern_rule(name: str, pattern: str) -> Rule:
    check_name(name)
    if not isinstance(pattern, str):
        raise RedactionPolicyError(f"redaction pattern {name!r} must be text, got {pattern!r}")
    if not pattern:
        raise RedactionPolicyError(f"redaction pattern {name!r} is empty")
    import re2

    try:
        groups = compiled(pattern).groupindex
    except (re2.error, UnicodeEncodeError) as error:
        raise RedactionPolicyError(
            f"redaction pattern {name!r} cannot be used: {_reason(error)}. Patterns have RE2 "
            "syntax: no look-around, no back-references, \\z for the end of the text"
        ) from error
    find = _named_group(groups["secret"]) if "secret" in groups else whole
    anchored = re.search(r"[\^$]|\\[AzQ]", pattern) is not None
    return Rule(name, name, pattern, find, folded=False, anchored=anchored)


def _named_group(group: int) -> Callable[[Match], list[Span]]:
    def find(match: Match) -> list[Span]:
        span = Span(match.start(group), match.end(group))
        return [span] if span.start >= 0 else []

    return find


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)


def check_name(name: str) -> None:
    """Refuse names that would not survive inside a replacement.

    Raises:
        RedactionPolicyError: The name has other characters than ``A-Z a-z 0-9 _ . -``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RedactionPolicyError(
            f"redaction rule name {name!r} must be 1 to 64 of the characters A-Z a-z 0-9 _ . -"
        )


def checked_keys(keys: Iterable[str]) -> list[str]:
    """Refuse keys that name nothing.

    Raises:
        RedactionPolicyError: A key is empty or not text, or one text was given for a list.
    """
    if isinstance(keys, str):
        raise RedactionPolicyError(f"keys takes a list of names, got the text {keys!r}")
    names = list(keys)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise RedactionPolicyError(f"redaction key {name!r} must be a name")
    return names


def checked_callables(
    callables: Iterable[Callable[[str], str]],
) -> list[tuple[str, Callable[[str], str]]]:
    """Name each callable for the text that replaces what it fails on.

    Raises:
        RedactionPolicyError: One of them cannot be called.
    """
    named = []
    for position, function in enumerate(callables, start=1):
        if not callable(function):
            raise RedactionPolicyError(
                f"redaction callable {position} is not callable: {function!r}"
            )
        name = getattr(function, "__name__", "")
        named.append((name if _NAME.fullmatch(name) else f"callable-{position}", function))
    return named
