import dataclasses
import json
import threading
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from otelchain.snapshot import MAX_DEPTH, snapshot


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Holder:
    lock: Any


class Model(BaseModel):
    name: str
    note: str | None = None


class BrokenRepr:
    def __repr__(self) -> str:
        raise ValueError("secret of the application")


class BrokenMapping(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


def itself() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        (None, None),
        (True, True),
        (2**53 + 1, 2**53 + 1),
        (2**64, "18446744073709551616"),  # beyond what JSON writers keep exactly
        (-(2**63), -(2**63)),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ("plain", "plain"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("pair \ud83d\ude00", "pair 😀"),
        (b"\x00\x01", "<2 bytes>"),
        (datetime(2026, 1, 2, tzinfo=timezone.utc), "2026-01-02T00:00:00+00:00"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/srv/x"), "/srv/x"),
        (Colour.RED, "red"),
        ((1, (2,)), [1, [2]]),
        ({2: 1, None: 2, True: 3, (1, 2): 4}, {"2": 1, "null": 2, "true": 3, "(1, 2)": 4}),
        (Model(name="x"), {"name": "x", "note": None}),
        (Document("text"), {"type": "Document", "page_content": "text"}),
        (AIMessage("hi"), {"type": "ai", "content": "hi"}),
        (itself(), ["<cycle: list>"]),
        (object, "<class 'object'>"),
        (BrokenRepr(), f"<{__name__}.BrokenRepr: ValueError>"),
        (BrokenMapping(a=1), f"<{__name__}.BrokenMapping: RuntimeError>"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_becomes_the_json_a_reader_expects(value: object, tree: object) -> None:
    assert snapshot(value, 10_000).tree == tree


def test_a_lock_inside_a_dataclass_is_named_not_copied() -> None:
    tree = snapshot(Holder(threading.Lock()), 10_000).tree

    assert "lock object" in tree["lock"]


def test_a_structure_nested_too_deep_is_named_where_it_stops() -> None:
    value: Any = "bottom"
    for _ in range(2_000):
        value = [value]

    text = json.dumps(snapshot(value, 10_000).tree)

    assert text.count("[") == MAX_DEPTH
    assert "<nested too deep: list>" in text


def test_what_was_recorded_does_not_change_with_the_object() -> None:
    value = {"rows": [1]}
    tree = snapshot(value, 1_000).tree

    value["rows"].append(2)

    assert tree == {"rows": [1]}


@pytest.mark.failure("broken-utf-8")
def test_a_text_beyond_the_budget_keeps_its_size_and_the_hash_of_its_whole() -> None:
    text = "é" * 1_000

    taken = snapshot(text, 101)

    digest = sha256(text.encode()).hexdigest()
    assert taken.tree == "é" * 50 + f"… [cut: 2000 bytes, sha256 {digest}]"
    assert taken.truncated


def test_a_list_beyond_the_budget_says_how_much_is_missing() -> None:
    taken = snapshot(["0123456789"] * 100, 260)

    # 26 bytes of budget for each entry: its text, and 16 for walking it
    assert taken.tree[-1] == "… [cut: 90 of 100 entries]"
    assert taken.tree[:-1] == ["0123456789"] * 10


def test_a_secret_at_the_cut_is_redacted_whole() -> None:
    def redact(text: str) -> str:
        return text.replace("SECRET", "[x]")

    taken = snapshot("a" * 97 + "SECRET" + "b" * 500, 100, redact)

    assert "SEC" not in taken.tree


def test_a_secret_where_the_redactor_stopped_reading_is_not_kept_in_half() -> None:
    """Long secrets before it become short, and what the redactor saw last moves to the front."""

    def redact(text: str) -> str:
        return text.replace("LONG" * 2_500, "[x]").replace("SECRET", "[x]")

    read_bytes = 100_000 + 8_192
    for halved in range(1, 6):
        text = "LONG" * 2_500
        text += "a" * (read_bytes - len(text) - halved) + "SECRET" + "b" * 50_000

        assert "S" not in snapshot(text, 100_000, redact).tree.partition("… [cut")[0]


@pytest.mark.parametrize("holds", [lambda value: value, lambda value: {value: 1}, lambda v: [v]])
def test_a_secret_where_a_repr_is_cut_is_redacted_whole(holds: Any) -> None:
    class Wordy:
        def __repr__(self) -> str:
            return "a" * 997 + "SECRET" + "b" * 500

    taken = snapshot(holds(Wordy()), 5_000, lambda text: text.replace("SECRET", "[x]"))

    assert "a" * 997 in str(taken.tree)
    assert "SEC" not in str(taken.tree)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes()
    | st.decimals()
    | st.builds(BrokenRepr)
    | st.builds(object),
    lambda children: (
        st.lists(children)
        | st.tuples(children, children)
        | st.dictionaries(st.none() | st.text() | st.integers() | st.floats(), children)
        | st.builds(Holder, children)
    ),
    max_leaves=30,
)


@given(ANYTHING, st.integers(0, 200))
def test_any_value_becomes_valid_json_near_its_budget(value: object, max_bytes: int) -> None:
    text = orjson.dumps(snapshot(value, max_bytes).tree)

    # 64 levels of containers and one note beside each are all that may come on top.
    assert len(text) < max_bytes * 6 + 64 * 300
