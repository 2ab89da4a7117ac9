"""The cheap patterns that look for names of secrets miss none that the word lists call secret."""

import itertools
import re

from otelchain.redaction.key_values import key_value_rules
from otelchain.redaction.keys import (
    _FACTS,
    _NOT_CREDENTIAL_TOKENS,
    _PHRASES,
    _WORDS,
    names_pattern,
    sensitive_names,
)

IS_SENSITIVE = sensitive_names([], default=True)
SOME = ("token", "tokens", "access", "auth", "refresh", "api", "session", "github", "7", "x")
WORDS = sorted({*_WORDS, *itertools.chain(*_PHRASES), *SOME, *list(_FACTS)[:20]})
BETWEEN = ("", "_", "-", ".", "__")


def names() -> set[str]:
    """Every word, and every two of them and three of some, in the spellings that are in use."""
    few = [*SOME, *sorted(_NOT_CREDENTIAL_TOKENS)[:5]]
    chosen = [
        *((word,) for word in WORDS),
        *itertools.product(WORDS, WORDS),
        *itertools.product(few, few, few),
    ]
    found = set()
    for parts in chosen:
        found.update(between.join(parts) for between in BETWEEN)
        found.add(parts[0] + "".join(part.title() for part in parts[1:]))
        found.add("_".join(parts).upper())
    return found


def test_no_secret_name_in_json_is_passed_over() -> None:
    sieve = re.compile(names_pattern([]))
    secret = [name for name in names() if IS_SENSITIVE(name)]

    assert len(secret) > 10_000
    assert [name for name in secret if not sieve.search(f'{{"{name}": 1}}')] == []


def test_no_secret_name_that_the_rules_for_text_would_take_is_passed_over() -> None:
    taken = 0
    ways = ("{}=x", "<{}>x</b>", "--{} x")
    for written, rule in zip(ways, key_value_rules(IS_SENSITIVE), strict=True):
        whole, sieve = re.compile(rule.pattern), re.compile(rule.first)
        for text in map(written.format, names()):
            match = whole.search(text)
            if match and IS_SENSITIVE(match[1]):
                taken += 1
                assert sieve.search(text), text
    assert taken > 10_000


def test_counts_of_tokens_are_not_looked_at_twice() -> None:
    said = '{"input_tokens": 3, "input_token_details": {}, "token_usage": {"prompt_tokens": 3}}'

    assert re.search(names_pattern([]), said) is None
    first = key_value_rules(IS_SENSITIVE)[0].first
    assert re.search(first, said) is None
