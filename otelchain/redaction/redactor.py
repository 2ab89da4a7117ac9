"""The policy object: what to look for, what to write instead. See ``otelchain.content``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from otelchain.redaction import policy
from otelchain.redaction.checksums import compact
from otelchain.redaction.embedded import looks_like_json, redact_json
from otelchain.redaction.engine import Engine
from otelchain.redaction.keys import names_pattern, sensitive_names, words
from otelchain.redaction.phones import PHONE_WORDS, is_plausible
from otelchain.redaction.replacing import Action, OwnTokens, failed, outside, replacement
from otelchain.redaction.rules import Span
from otelchain.redaction.trees import PHONE, SECRET, number_text, rebuild, texts_and_names

_NO_PATTERNS: Mapping[str, str] = MappingProxyType({})
_UNKNOWN_TYPE, _WALK = "type", "tree"


class Redactor:
    r"""Replace secrets and personal identifiers in text and JSON-like trees.

    Without arguments it applies the default policy: provider keys and tokens, credentials in
    headers, URLs and key-value text, private keys, e-mail addresses, telephone numbers, payment
    cards, IBANs, national identity numbers, and whatever stands under a name such as
    ``password`` or ``api_key``. It may be shared by any number of threads, never raises while
    redacting, and fails closed: a text on which a rule fails becomes
    ``<redaction failed: RULE>``.

    Args:
        detectors: Families or single rules of the default policy to keep, by name (as in
            ``[REDACTED:name]``); None keeps all, an empty list none.
        patterns: The user's own patterns by name, in RE2 syntax. Where a pattern has a group
            named ``secret``, only that group is replaced.
        keys: More names whose values are secret, compared word by word: ``customer`` covers
            ``customerId`` and ``customer-name``.
        callables: Functions from text to text, run after the rules on every string, name and
            number. They should leave their own output alone when they see it again.
        action: ``mask`` writes ``[REDACTED:rule]``; ``hash`` writes ``[rule:digits]``, the same
            for the same value under the same key; ``remove`` writes nothing and drops dict
            entries with a sensitive name.
        hash_key: Secret key of ``hash`` (HMAC-SHA-256).

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
        action: Action = "mask",
        hash_key: str | bytes | None = None,
    ) -> None:
        names = policy.selected(detectors)
        own_keys = policy.checked_keys(keys)
        is_sensitive = sensitive_names(own_keys, default="secret" in names)
        own_rules = policy.pattern_rules(patterns)
        rules = [
            *policy.default_rules(names),
            *policy.secret_rules(names, own_keys, is_sensitive),
            *own_rules,
        ]
        rules.sort(key=lambda rule: rule.family == "entropy")  # what has a better name keeps it
        self._callables = policy.checked_callables(callables)
        self._action = action
        self._replace = replacement(action, hash_key)
        self._tokens = OwnTokens(
            [
                *policy.RULE_NAMES,
                *policy.OPTIONAL_DETECTORS,
                SECRET,
                _UNKNOWN_TYPE,
                _WALK,
                *patterns,
            ]
            + [name for name, _ in self._callables],
            action,
        )
        self._engine = Engine(rules, action, self._replace, self._tokens)
        # Inside JSON text the user's patterns may also look at the text as it is written.
        self._own = Engine(own_rules, action, self._replace, self._tokens) if own_rules else None
        if own_rules:
            self._engine.compile()  # a policy that cannot work is refused here and not later
        knows_phones = any(rule.family == PHONE for rule in rules)
        knows_names = "secret" in names or own_keys or knows_phones
        self._name_words = [*own_keys, *PHONE_WORDS] if knows_names else None
        self._label = lru_cache(maxsize=4096)(self._labels(is_sensitive, knows_phones))
        self._summary = f"{len(rules)} rules, {len(self._callables)} callables, action={action!r}"

    @property
    def reads_json_text(self) -> bool:
        """Whether `text` finds in JSON text all that `value` finds in the tree it stands for.

        So with the bundled rules. A pattern of the user may be bound to the ends of a text, and a
        callable is meant for the strings inside.
        """
        return self._own is None and not self._callables

    @cached_property
    def _may_name_secrets(self) -> Callable[[str], bool]:
        if self._name_words is None:
            return lambda text: False  # noqa: ARG005 - no name is sensitive
        import re2  # when something is to be redacted

        search = re2.compile(names_pattern(self._name_words).encode()).search
        return lambda text: search(text.encode(errors="replace")) is not None

    def __repr__(self) -> str:
        return f"<Redactor: {self._summary}>"

    def text(self, text: str) -> str:
        """Give the text without what the policy finds; JSON text stays JSON.

        >>> Redactor().text('{"card": 4111111111111111}')
        '{"card": "[REDACTED:card]"}'
        """
        try:
            return self._text(text)
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            return failed(_WALK)

    def value(self, tree: Any) -> Any:
        """Give a JSON-like tree without what the policy finds.

        The same object when nothing was found, else a copy: the same shape, with strings (and
        numbers that are identifiers) replaced, tuples as lists. Names of dicts are redacted
        too and stay different from each other. What is not of a JSON type is replaced.

        >>> Redactor().value({"to": ["bob@example.com", 4111111111111111]})
        {'to': ['[REDACTED:email]', '[REDACTED:card]']}
        """
        try:
            if self._is_clean(tree):
                return tree
            removes = self._action == "remove"
            copy, changed = rebuild(tree, self._leaf, self._label, drop_secrets=removes)
        except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
            return failed(_WALK)
        return copy if changed else tree

    def _labels(
        self, is_sensitive: Callable[[str], bool], knows_phones: bool
    ) -> Callable[[str], str]:
        def label(name: str) -> str:
            name = self._tokens.blanked(name)
            if is_sensitive(name):
                return SECRET
            return PHONE if knows_phones and PHONE_WORDS.intersection(words(name)) else ""

        return label

    def _is_clean(self, tree: Any) -> bool:
        if self._callables:
            return False
        try:
            texts, names = texts_and_names(tree)
            texts.extend(names)
            return not any(map(self._label, names)) and self._engine.are_clean(texts)
        except TypeError:  # not a JSON type, or a name that is not text
            return False

    def _text(self, text: str) -> str:
        is_json = looks_like_json(text)
        if not self._engine.is_clean(text) or (is_json and self._may_name_secrets(text)):
            as_json = redact_json(text, self.value) if is_json else None
            if as_json is None:
                text = self._engine.redact(text)
            else:
                text = self._own.redact(as_json) if self._own else as_json
        for name, function in self._callables:
            text = _called(name, function, text)
        return text

    def _leaf(self, leaf: Any, label: str) -> Any:
        if leaf is None or isinstance(leaf, bool):
            return leaf
        if not isinstance(leaf, (str, int, float)):
            return failed(_UNKNOWN_TYPE)
        text = leaf if isinstance(leaf, str) else number_text(leaf)
        cleaned = self._labelled(text, label) if label else self._text(text)
        return leaf if cleaned == text else cleaned

    def _labelled(self, text: str, label: str) -> str:
        if label == PHONE:
            value = compact(text)
            return self._replace(PHONE, value) if is_plausible(text) else self._text(text)
        left = outside(Span(0, len(text)), self._tokens.spans(text))
        is_done = all(not text[start:end].strip() for start, end in left)
        return text if is_done else self._replace(SECRET, text)


def _called(name: str, function: Callable[[str], str], text: str) -> str:
    try:
        result = function(text)
    except Exception:  # noqa: BLE001 (fail closed; the error may hold the value)
        return failed(name)
    return result if isinstance(result, str) else failed(name)
