"""From what the user asked for to the rules that apply in one place, refused early."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable

from otelchain.errors import RedactionPolicyError
from otelchain.redaction import paths
from otelchain.redaction.chosen import CallableRule, Chosen, KeysRule, PathRule
from otelchain.redaction.detectors import DEFAULT_RULES, OPTIONAL_RULES
from otelchain.redaction.engine import TreatedRule
from otelchain.redaction.hash_keys import HashKey
from otelchain.redaction.key_values import SPOKEN_RULES, key_value_rules
from otelchain.redaction.keys import IsSensitive, exact_names, sensitive_names
from otelchain.redaction.names import check_installed
from otelchain.redaction.places import Place, matches_any
from otelchain.redaction.policy_rule import NAME, PolicyRule, one_of, pattern_rule
from otelchain.redaction.policy_rule import checked as checked_rule
from otelchain.redaction.presets import DETECTORS, OPTIONAL_DETECTORS, PERSONAL_FAMILIES, RULE_NAMES
from otelchain.redaction.replacing import ACTIONS, KEEP, MASK, Action
from otelchain.redaction.rules import Rule
from otelchain.redaction.trees import PHONE, SECRET

JSON, TYPE, WALK = "json", "type", "tree"
"""Names for failures that are no rule's."""

# The handler's largest value (128 KiB) takes the slowest rule 2 ms when it is prose, and 90 ms when
# it is nothing but telephone numbers; the rest is for slower machines and larger texts.
DEFAULT_BUDGET_MS = 1_000
MAX_BUDGET_MS = 60_000


class Policy:
    """A checked policy.

    Args:
        base: Families and single rules that are looked for anyway; None for all.
        rules: The rules, in order of precedence.
        action: For what no rule gives an action.
        hash_key: None where nothing is hashed.
        budget_ms: What a rule may take for one text.

    Raises:
        RedactionPolicyError: It cannot be used; the text names the rule.
    """

    def __init__(
        self,
        base: Iterable[str] | None,
        rules: Iterable[PolicyRule],
        action: Action,
        hash_key: HashKey | None,
        budget_ms: int = DEFAULT_BUDGET_MS,
    ) -> None:
        one_of("action", action.name, [name for name in ACTIONS if name != "keep"])
        self.action = action
        self.hash_key = hash_key
        self.budget_ms = _checked_budget(budget_ms)
        self._base = selected(base)
        self.rules = tuple(rules)
        self._selected: list[frozenset[str]] = []
        self._patterns: dict[int, Rule] = {}
        seen: set[str] = set()
        for number, rule in enumerate(self.rules):
            try:
                self._take(number, checked_rule(rule), seen)
            except RedactionPolicyError as error:
                raise RedactionPolicyError(f"{title(number, rule)}: {error}") from error
        if self._base.union(*self._selected).intersection(OPTIONAL_DETECTORS):
            check_installed()
        if self.uses("hash") and hash_key is None:
            self._refuse_to_hash()

    def _refuse_to_hash(self) -> None:
        try:
            HashKey(None)
        except RedactionPolicyError as error:
            of = [title(n, rule) for n, rule in enumerate(self.rules) if rule.action == "hash"]
            raise RedactionPolicyError(f"{of[0]}: {error}" if of else str(error)) from None

    def __str__(self) -> str:
        built_in = sum(1 for name in DETECTORS if name in self._base)
        key = f", hash key: {self.hash_key.id}" if self.hash_key else ""
        return (
            f"families of detectors: {built_in}, rules: {len(self.rules)}, "
            f"action: {self.action.name}{key}"
        )

    def _take(self, number: int, rule: PolicyRule, seen: set[str]) -> None:
        names = selected(rule.detectors) if rule.detectors else frozenset()
        self._selected.append(names)
        if rule.pattern is not None:
            self._patterns[number] = pattern_rule(rule.name, rule.pattern)
        name = name_of(number, rule)
        if rule.detectors or name == SECRET:
            return
        if name in seen:
            raise RedactionPolicyError(f"another rule is named {name!r} too")
        if name in RULE_NAMES or name in DETECTORS or name in (TYPE, WALK, JSON):
            raise RedactionPolicyError(f"{name!r} is the name of a built-in detector")
        seen.add(name)

    def uses(self, action_name: str) -> bool:
        """Tell whether something may be treated so."""
        actions = [rule.action for rule in self.rules if rule.action]
        return action_name in (self.action.name, *actions)

    @property
    def token_names(self) -> list[str]:
        """What may stand in a replacement as the rule."""
        own = [name_of(number, rule) for number, rule in enumerate(self.rules)]
        return [*RULE_NAMES, *OPTIONAL_DETECTORS, SECRET, TYPE, WALK, JSON, *filter(None, own)]

    @property
    def partial_names(self) -> dict[str, int]:
        """Rules of which some characters are shown, and how many."""
        partial = {}
        if self.action.name == "partial":
            partial = dict.fromkeys(self.token_names, self.action.keep_last)
        for number, rule in enumerate(self.rules):
            if rule.action == "partial":
                names = self._selected[number] or {name_of(number, rule)}
                partial.update(dict.fromkeys(names, _shown(rule)))
        return partial

    @property
    def has_places(self) -> bool:
        """Whether it matters where a text stands."""
        return any(rule.places or rule.attributes or rule.paths for rule in self.rules)

    def applying(self, place: Place | None) -> tuple[int, ...]:
        """Number the rules that apply in a place.

        Where the place is not known, rules that take away apply and rules that keep do not.
        """
        return tuple(n for n, rule in enumerate(self.rules) if _applies(rule, place))

    def mark(self, place: Place | None) -> str:
        """Name what this policy does in a place, in 12 hex digits: the same in every process."""
        applying = [self.rules[number] for number in self.applying(place)]
        functions = [
            (rule.callable.__module__, getattr(rule.callable, "__qualname__", ""))
            for rule in applying
            if rule.callable is not None
        ]
        said = (
            sorted(self._base),
            [dataclasses.replace(rule, callable=None) for rule in applying],
            functions,
            self.action,
            self.hash_key,
            place.key if place and any(rule.paths for rule in applying) else "",
        )
        return hashlib.sha256(repr(said).encode(errors="replace")).hexdigest()[:12]

    def chosen(self, applying: tuple[int, ...]) -> Chosen:
        """Put together what applies."""
        built_in = [
            TreatedRule(rule, action)
            for rule in (*DEFAULT_RULES, *OPTIONAL_RULES)
            if (action := self._treatment({rule.name, rule.family}, applying)) is not None
        ]
        keys = self._keys(applying)
        named = [treated for each in keys for treated in _text_rules(each)]
        spoken_action = self._treatment({SECRET}, applying)
        if spoken_action is not None:
            named += [TreatedRule(rule, spoken_action) for rule in SPOKEN_RULES]
        own = [
            TreatedRule(self._patterns[number], self._action(self.rules[number]))
            for number in applying
            if number in self._patterns
        ]
        kept = [each for each in built_in if each.rule.family not in PERSONAL_FAMILIES]
        rules = [*built_in, *named, *own]
        rules.sort(key=lambda each: each.rule.family == "entropy")  # a better name stays
        return Chosen(
            rules=rules,
            own=own,
            kept=[*kept, *named],
            keys=keys,
            phone=self._treatment({PHONE}, applying),
            paths=list(self._paths(applying)),
            callables=[
                CallableRule(name_of(number, self.rules[number]), function)
                for number in applying
                if (function := self.rules[number].callable) is not None
            ],
        )

    def _treatment(self, names: set[str], applying: tuple[int, ...]) -> Action | None:
        """Tell what happens to a detector's findings; None where it is not looked for."""
        for number in applying:
            if names & self._selected[number]:
                action = self._action(self.rules[number])
                return None if action == KEEP else action
        return self.action if names & self._base else None

    def _action(self, rule: PolicyRule) -> Action:
        if rule.action is None:
            return self.action
        return (
            Action(rule.action, _shown(rule)) if rule.action == "partial" else Action(rule.action)
        )

    def _keys(self, applying: tuple[int, ...]) -> list[KeysRule]:
        found: list[KeysRule] = []
        kept: list[IsSensitive] = []
        for number in applying:
            rule = self.rules[number]
            if rule.keys and rule.action == "keep":
                kept.append(exact_names(rule.keys))
            elif rule.keys:
                is_named = _but_not(sensitive_names(rule.keys), tuple(kept))
                name = name_of(number, rule)
                found.append(KeysRule(is_named, name, self._action(rule), tuple(rule.keys)))
        default = self._treatment({SECRET}, applying)
        if default is not None:
            is_named = _but_not(sensitive_names((), default=True), tuple(kept))
            found.append(KeysRule(is_named, SECRET, default))
        return found

    def _paths(self, applying: tuple[int, ...]) -> Iterable[PathRule]:
        for number in applying:
            rule = self.rules[number]
            for path in rule.paths:
                yield PathRule(paths.parse(path), rule.name, self._action(rule), rule.keep_secrets)


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
    for name in sorted(names - RULE_NAMES - set(DETECTORS) - set(OPTIONAL_DETECTORS)):
        one_of(
            "detector",
            name,
            [*DETECTORS, *OPTIONAL_DETECTORS, *sorted(RULE_NAMES - set(DETECTORS))],
        )
    return frozenset(names | {rule.name for rule in DEFAULT_RULES if rule.family in names})


def name_of(number: int, rule: PolicyRule) -> str:
    """Give the name that replacements show; empty for detectors, which have their own."""
    if rule.name or rule.detectors:
        return rule.name
    if rule.callable is not None:
        name = getattr(rule.callable, "__name__", "")
        return name if NAME.fullmatch(name) else f"callable-{number + 1}"
    return SECRET


def title(number: int, rule: PolicyRule) -> str:
    """Name a rule in an error."""
    return f"rule {number + 1} ({rule.name!r})" if rule.name else f"rule {number + 1}"


def _applies(rule: PolicyRule, place: Place | None) -> bool:
    if not rule.places and not rule.attributes:
        return True
    if place is None:
        return rule.action != "keep"
    in_place = rule.places is None or place.name in rule.places
    return in_place and (not rule.attributes or matches_any(rule.attributes, place.key))


def _shown(rule: PolicyRule) -> int:
    return MASK.keep_last if rule.keep_last is None else rule.keep_last


def _but_not(is_named: IsSensitive, kept: tuple[IsSensitive, ...]) -> IsSensitive:
    if not kept:
        return is_named
    return lambda name: is_named(name) and not any(is_kept(name) for is_kept in kept)


def _text_rules(keys: KeysRule) -> list[TreatedRule]:
    """Look for named values in running text too."""
    rules = key_value_rules(keys.is_named, keys.words)
    return [TreatedRule(dataclasses.replace(rule, name=keys.rule), keys.action) for rule in rules]


def _checked_budget(budget_ms: int) -> int:
    if type(budget_ms) is not int or not 0 < budget_ms <= MAX_BUDGET_MS:
        raise RedactionPolicyError(
            f"time_budget_ms must be a whole number from 1 to {MAX_BUDGET_MS}, not {budget_ms!r}"
        )
    return budget_ms
