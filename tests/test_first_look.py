"""The first look at many texts never calls clean what the rules would change."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus_scores
from otelchain import Redactor, attributes
from otelchain.redaction import PolicyRule
from otelchain.redaction.places import _FACT_KEYS, _KEYS
from test_redaction_policy_properties import texts, trees

DEFAULT = Redactor()
CASES = [case.text for case in corpus_scores.texts()]


def shout(text: str) -> str:
    return text.upper()


def is_found(text: str) -> bool:
    return DEFAULT.text(text) != text


def spellings(text: str) -> dict[str, str]:
    """Return ways in which a text stands in an attribute."""
    lines = f'first\n{text}\n"last"\t'
    return {
        "alone": text,
        "JSON": json.dumps({"a": [lines]}),
        "JSON that is not ASCII": json.dumps({"ä": lines}, ensure_ascii=False),
        "JSON in JSON": json.dumps({"a": json.dumps([lines])}),
        "Python": repr({"a": lines}),
        "a path": f"C:\\new\\{text}\\readme",
    }


@pytest.mark.parametrize("spelling", spellings(""))
def test_no_text_of_the_corpus_with_a_finding_is_called_clean(spelling: str) -> None:
    look = DEFAULT.first_look
    clean = ["nothing here", "C:\\temp", '{"a": "b\\n"}']
    wrong = [
        text
        for text in (spellings(case)[spelling] for case in CASES)
        if is_found(text) and look.is_clean([*clean, text, *clean])
    ]
    assert wrong == []


def test_most_of_what_has_no_finding_is_called_clean() -> None:
    look = DEFAULT.first_look
    prose = 'The parcel was\nsent on Tuesday; see https://example.org/a?b=1 for "more".'
    plain = [
        prose,
        json.dumps({"role": "user", "parts": [{"content": prose}]}),
        json.dumps({"authors": ["x"], "usage": {"total": 3.5}, "id": "call_abc"}),
    ]
    assert all(look.is_clean([text]) for text in plain)
    assert look.is_clean(plain)


@given(st.lists(texts, max_size=4))
@settings(max_examples=300)
def test_what_is_called_clean_has_no_finding(several: list[str]) -> None:
    if DEFAULT.first_look.is_clean(several):
        assert [text for text in several if is_found(text)] == []


@given(trees)
@settings(max_examples=300)
def test_json_of_any_tree_that_is_called_clean_has_no_finding(tree: Any) -> None:
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5)
    if DEFAULT.first_look.is_clean([text]):
        assert not is_found(text)


def test_what_patterns_cannot_tell_is_not_asked_of_it() -> None:
    assert DEFAULT.first_look.tells
    assert Redactor(patterns={"ticket": r"T-[0-9]+"}).first_look.tells
    assert not Redactor(preset="strict").first_look.tells
    assert not Redactor(callables=[shout]).first_look.tells
    assert not Redactor(rules=[PolicyRule(name="a", paths=["a"])]).first_look.tells
    assert not Redactor(patterns={"all": r"^a$"}).first_look.tells


def test_patterns_of_the_user_with_one_group_name_are_looked_for_together() -> None:
    redactor = Redactor(patterns={"a": "a=(?P<secret>[0-9]+)", "b": "b=(?P<secret>[0-9]+)"})

    assert not redactor.first_look.is_clean(["x b=12"])
    assert redactor.first_look.is_clean(["x c=12"])


def test_no_key_of_a_convention_is_taken_for_the_name_of_a_secret() -> None:
    """Else every span of a model would lose its token counts."""
    ours = [value for value in vars(attributes).values() if isinstance(value, str)]
    known = [*" ".join(_KEYS.values()).split(), *_FACT_KEYS.split(), *ours]

    assert len(known) > 150
    look = DEFAULT.first_look
    assert [key for key in known if look.is_named(key.replace("*", "0.x"))] == []
    assert look.is_named("http.request.header.authorization")
    assert look.is_clean(key.replace("*", "0.x") for key in known)
