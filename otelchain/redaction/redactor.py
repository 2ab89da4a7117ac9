"""The policy object: what to look for, where, what to write instead. See ``otelchain.content``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.findings import Findings, Found, findings_in
from otelchain.redaction.first_look import FirstLook
from otelchain.redaction.hash_keys import HashKey
from otelchain.redaction.place_rules import PlaceRules
from otelchain.redaction.places import Place
from otelchain.redaction.policy import DEFAULT_BUDGET_MS, Policy
from otelchain.redaction.policy_rule import PolicyRule, check_texts, one_of
from otelchain.redaction.presets import DEFAULT_PRESET, PRESETS
from otelchain.redaction.replacing import Action, ActionName, OwnTokens, Replacer
from otelchain.redaction.scrubber import Scrubber
from otelchain.redaction.tally import RedactionCounts, Tally, Totals

_NO_PATTERNS: Mapping[str, str] = MappingProxyType({})


class Redactor:
    r"""Replace secrets and personal identifiers in text and JSON-like trees.

    Without arguments it applies the preset ``personal``: provider keys and tokens, credentials in
    headers, URLs and key-value text, private keys, e-mail addresses, telephone numbers, payment
    cards, IBANs, national identity numbers, and whatever stands under a name such as
    ``password`` or ``api_key``. It may be shared by any number of threads, never raises while
    redacting, and fails closed: a text on which a rule fails becomes
    ``<redaction failed: RULE>``.

    Args:
        detectors: Families or single rules to look for instead of those of the preset, by name
            (as in ``[REDACTED:name]``); an empty list none.
        patterns: The user's own patterns by name, in RE2 syntax. Where a pattern has a group
            named ``secret``, only that group is replaced.
        keys: More names whose values are secret, compared word by word: ``customer`` covers
            ``customerId`` and ``customer-name``.
        callables: Functions from text to text, run after the rules on every string, name and
            number. They should leave their own output alone when they see it again.
        action: ``mask`` writes ``[REDACTED:rule]``; ``hash`` writes ``[rule:key id:digits]``, the
            same for the same value under the same key; ``partial`` writes ``[rule:***1111]``;
            ``remove`` writes nothing and drops dict entries with a sensitive name.
        hash_key: Secret key of ``hash`` (HMAC-SHA-256), or a `HashKey` with an id.
        preset: ``secrets``, ``personal``, ``strict`` or ``off``.
        rules: Rules with an action and a place of their own, before those above.
        time_budget_ms: What one rule may take for one text.

    Raises:
        RedactionPolicyError: Something in the policy cannot be used; the text says what.

    >>> redactor = Redactor()
    >>> redactor.text("mail bob@example.com, card 4111 1111 1111 1111")
    'mail [REDACTED:email], card [REDACTED:card]'
    >>> redactor.value({"password": "hunter2", "input_tokens": 12})
    {'password': '[REDACTED:secret]', 'input_tokens': 12}
    >>> Redactor(detectors=[], patterns={"ticket": r"\bT-[0-9]+\b"}).text("see T-1234")
    'see [REDACTED:ticket]'
    """

    def __init__(
        self,
        *,
        detectors: Iterable[str] | None = None,
        patterns: Mapping[str, str] = _NO_PATTERNS,
        keys: Iterable[str] = (),
        callables: Iterable[Callable[[str], str]] = (),
        action: ActionName = "mask",
        hash_key: str | bytes | HashKey | None = None,
        preset: str = DEFAULT_PRESET,
        rules: Iterable[PolicyRule] = (),
        time_budget_ms: int = DEFAULT_BUDGET_MS,
    ) -> None:
        one_of("preset", preset, PRESETS)
        start = PRESETS[preset]
        self._policy = Policy(
            start.detectors if detectors is None else detectors,
            [*rules, *_short_rules(patterns, keys, callables), *start.rules],
            Action(action),
            _hash_key(hash_key),
            time_budget_ms,
        )
        self._replace = Replacer(self._policy.hash_key)
        self._tokens = OwnTokens(self._policy.token_names, self._policy.partial_names)
        self._totals = Totals()
        self._rules_of = lru_cache(maxsize=256)(self._place_rules)
        self._anywhere = self._scrubber(None)
        #: What redacts in every place alike; None when the policy makes a difference.
        self.everywhere = None if self._policy.has_places else self._anywhere
        # An application has a few dozen keys; what a collector receives may have any number.
        self._of_place = lru_cache(maxsize=1024)(self._scrubber)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Redactor:
        """Read a policy from a TOML file; its keys are described in the README beside this module.

        Raises:
            RedactionPolicyError: The file cannot be used; the text names file, rule and reason.
        """
        from otelchain.redaction.policy_file import read_policy

        try:
            return cls(**read_policy(Path(path)))
        except RedactionPolicyError as error:
            raise RedactionPolicyError(f"{path}: {error}") from error

    def __repr__(self) -> str:
        return f"<Redactor: {self.summary()}>"

    def summary(self) -> str:
        """Say in a line what the policy does; for a person."""
        return str(self._policy)

    @property
    def reads_json_text(self) -> bool:
        """Whether `text` finds in JSON text all that `value` finds in the tree it stands for."""
        return self._anywhere.reads_json_text

    @cached_property
    def first_look(self) -> FirstLook:
        """What tells of many texts at once that there is nothing to redact, wherever they stand."""
        return FirstLook(self._rules_of(self._policy.applying(None)))

    def at(self, place: Place) -> Scrubber:
        """Give what redacts in a place: same methods, with the rules that apply there."""
        return self._of_place(place)

    def text(self, text: str, tally: Tally | None = None) -> str:
        """Give the text without what the policy finds; JSON text stays JSON.

        Where the text stands is not known here: rules that are bound to a place apply, unless they
        keep something.

        Args:
            text: Any text.
            tally: Told of every finding, beside the redactor's own count.

        >>> Redactor().text('{"card": 4111111111111111}')
        '{"card": "[REDACTED:card]"}'
        """
        return self._anywhere.text(text, tally)

    def beginning(self, text: str) -> str:
        """Do as `text` does with the beginning of a text that is about to be cut."""
        return self._anywhere.beginning(text)

    def value(self, tree: Any, tally: Tally | None = None) -> Any:
        """Give a JSON-like tree without what the policy finds.

        The same object when nothing was found, else a copy: the same shape, with strings (and
        numbers that are identifiers) replaced, tuples as lists. Names of dicts are redacted
        too and stay different from each other. What is not of a JSON type is replaced.

        Args:
            tree: Any tree.
            tally: Told of every finding, beside the redactor's own count.

        >>> Redactor().value({"to": ["bob@example.com", 4111111111111111]})
        {'to': ['[REDACTED:email]', '[REDACTED:card]']}
        """
        return self._anywhere.value(tree, tally)

    def find(self, value: Any, place: Place | None = None) -> list[Found]:
        """Tell what the policy finds in a text or tree, and where; never the value.

        >>> Redactor().find("mail bob@example.com")
        [Found(rule='email', start=5, end=20, path='')]
        """
        return self.findings(value, place).found

    def findings(self, value: Any, place: Place | None = None) -> Findings:
        """Do as `find` does, with the redacted value and the rules that failed."""
        rules = self._rules_of(self._policy.applying(place))
        return findings_in(rules, value, place.key if place else "")

    def counts(self) -> RedactionCounts:
        """Count what each rule replaced so far, and on how many texts it failed."""
        return self._totals.counts()

    @property
    def passes_with_findings(self) -> int:
        """Count the passes so far that replaced something or failed."""
        return self._totals.passes

    def _scrubber(self, place: Place | None) -> Scrubber:
        if place is not None and self.everywhere is not None:
            return self.everywhere
        rules = self._rules_of(self._policy.applying(place))
        key = place.key if place else ""
        return Scrubber(rules, self._totals, key, self._policy.mark(place))

    def _place_rules(self, applying: tuple[int, ...]) -> PlaceRules:
        chosen = self._policy.chosen(applying)
        budget_seconds = self._policy.budget_ms / 1_000
        return PlaceRules(chosen, self._replace, self._tokens, budget_seconds)


def _short_rules(
    patterns: Mapping[str, str], keys: Iterable[str], callables: Iterable[Callable[[str], str]]
) -> Iterable[PolicyRule]:
    if isinstance(keys, str):
        check_texts("keys", keys)
    for name, pattern in patterns.items():
        yield PolicyRule(name=name, pattern=pattern)
    own_keys = tuple(keys)
    if own_keys:
        yield PolicyRule(keys=own_keys)
    for position, function in enumerate(callables, start=1):
        if not callable(function):
            raise RedactionPolicyError(
                f"redaction callable {position} is not callable: {function!r}"
            )
        yield PolicyRule(callable=function)


def _hash_key(key: str | bytes | HashKey | None) -> HashKey | None:
    return key if key is None or isinstance(key, HashKey) else HashKey(key)
