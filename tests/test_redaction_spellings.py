"""Other spellings of a secret: what the views show and where it stands, for any text around it."""

# ruff: noqa: E501, RUF001 (lists; full-width and other characters are what is tested)
import base64
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_scores import Text, texts
from otelchain import Redactor
from otelchain.redaction.rules import Span
from otelchain.redaction.views import views

SETTINGS = settings(max_examples=200, deadline=None)
MASK = Redactor()
HASH = Redactor(action="hash", hash_key="k" * 32)
REMOVE = Redactor(action="remove")


def by_detector() -> dict[str, list[Text]]:
    """Texts of the corpus with one value, by the detector that has to find it."""
    found: dict[str, list[Text]] = defaultdict(list)
    for text in texts():
        if len(text.labels) == 1:
            found[text.labels[0].detectors[0]].append(text)
    return found


CORPUS = by_detector()
KEYS = [
    text.text[label.start : label.end]
    for text in CORPUS["api_key"] + CORPUS["jwt"]
    if text.file in {"keys", "credentials"} and "webhooks" not in text.source
    for label in text.labels
]

any_text = st.text(st.characters(exclude_categories=[]), max_size=40)
ascii_text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)


def base64_text(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def base64_url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def every_byte(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


ENCODERS: list[Callable[[str], str]] = [
    json.dumps,
    lambda text: json.dumps({"a": [text]}),
    lambda text: quote(text, safe=""),
    every_byte,
    base64_text,
    base64_url,
]


# --- views ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("１２３", "123"),
        ("a\u200bb", "ab"),
        ("٣", "3"),
        (r"\u0041\u4f60", "A你"),
        (r"\\u0041", "A"),
        ("%41%2542", "AB"),
        ("x=YWJjZGVmZ2hpamtsbW5vcA;", "x=\nabcdefghijklmnop\n;"),
        ("100% of it", "100% of it"),
    ],
)
def test_the_last_view_is_the_plainest_spelling(text: str, last: str) -> None:
    assert list(views(text))[-1].text == last


@pytest.mark.parametrize(
    ("text", "seen", "original"),
    [
        ("a%40b", "@", "%40"),
        ("a%2540b", "@", "%2540"),
        ("ab\u200bcd", "bc", "b\u200bc"),
        ("ab\u200bcd", "ab", "ab"),
        ("ab\u200bcd", "cd", "cd"),
        (r"x \u0041\u0042 y", "AB", r"\u0041\u0042"),
        ("x YWJjZGVmZ2hpamtsbW5vcA== y", "cde", "YWJjZGVmZ2hpamtsbW5vcA=="),
        ("%41 YWJjZGVmZ2hpamtsbW5vcA== %42", "B", "%42"),
    ],
)
def test_what_is_seen_in_a_view_is_replaced_in_the_original(
    text: str, seen: str, original: str
) -> None:
    view = list(views(text))[-1]
    at = view.text.index(seen)

    start, end = view.original(Span(at, at + len(seen)))

    assert text[start:end] == original


@SETTINGS
@given(st.text(st.sampled_from([*"aZ09%4\\u@= \u200b\u0663１"]), max_size=30))
def test_every_character_of_a_view_stands_for_characters_of_the_original(text: str) -> None:
    for view in views(text):
        spans = [view.original(Span(at, at + 1)) for at in range(len(view.text))]
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert spans == sorted(spans)


def test_one_value_has_one_pseudonym_in_every_spelling() -> None:
    spellings = ["4111111111111111", "４１１１１１１１１１１１１１１１", "4111\u200b1111\u200b11111111", "٤١١١ ١١١١ ١١١١ ١١١١", "4111%201111%201111%201111"]  # fmt: skip

    assert len({HASH.text(spelling) for spelling in spellings}) == 1


# --- properties ----------------------------------------------------------------------------


@pytest.mark.parametrize("detector", sorted(CORPUS))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_value_of_every_detector_is_gone_from_any_text(detector: str, data: Any) -> None:
    text = data.draw(st.sampled_from(CORPUS[detector]))
    before, after = data.draw(any_text), data.draw(any_text)
    secret = text.text[text.labels[0].start : text.labels[0].end]
    around = f"{before.replace(secret, '')};\n{text.text}\n;{after.replace(secret, '')}"
    tree: Any = around
    for _ in range(data.draw(st.integers(0, 3))):
        tree = data.draw(st.sampled_from([[tree], {"a": tree}, json.dumps([tree])]))

    redacted = MASK.value(tree)

    assert all(secret not in leaf for leaf in leaves(redacted))


def leaves(value: Any) -> list[str]:
    """All strings of a tree, and of the JSON texts in it."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            return [value]
        return leaves(inner) if isinstance(inner, (list, dict, str)) else [value]
    children = value.values() if isinstance(value, dict) else value
    return [leaf for child in children for leaf in leaves(child)]


@SETTINGS
@given(
    st.sampled_from(KEYS),
    st.lists(st.sampled_from(ENCODERS), min_size=1, max_size=3),
    ascii_text,
    ascii_text,
)
def test_a_token_survives_no_encoding(
    secret: str, encoders: list[Callable[[str], str]], before: str, after: str
) -> None:
    wrapped = f"{before} ; {secret} ; {after}"
    for encode in encoders:
        wrapped = encode(wrapped)

    redacted = MASK.text(f"got {wrapped} .")

    for seen in [redacted, *(view.text for view in views(redacted))]:
        assert secret not in seen


@SETTINGS
@given(
    st.lists(
        st.one_of(
            st.sampled_from(texts()).map(lambda text: text.text),
            st.sampled_from(KEYS).flatmap(lambda key: st.sampled_from([e(key) for e in ENCODERS])),
            st.sampled_from(["%", "%4", "%2", "\\", "\\u00", "\u200b", "=", "A", "key ", "https://", "?a=", "\n"]),
        ),
        max_size=4,
    ).map("".join)
)  # fmt: skip
def test_a_second_pass_over_other_spellings_changes_nothing(text: str) -> None:
    for redactor in (MASK, HASH, REMOVE):
        once = redactor.text(text)
        assert redactor.text(once) == once
