"""``{"password": {"a": "…"}}`` in what is no JSON: cut short, in a sentence, as a repr."""

import json
from typing import Any

import pytest

from otelchain import Redactor
from otelchain.content import ContentGate

SECRET = "Xyzzy7Plugh"
UNDER: dict[str, Any] = {
    "object": {"a": SECRET},
    "list": [SECRET],
    "deep": {"a": {"b": ["c", {"d": SECRET}]}},
    "brackets in texts": {"a": "}]})", "b": 'quoted "}" \\', "c": SECRET},
    "after a number": [12345, None, SECRET],
    "flat": SECRET,
}
SPELLINGS = {
    "JSON": json.dumps,
    "JSON in JSON": lambda tree: json.dumps(json.dumps(tree)),
    "JSON three times": lambda tree: json.dumps(json.dumps(json.dumps(tree))),
    "compact": lambda tree: json.dumps(tree, separators=(",", ":")),
    "indented": lambda tree: json.dumps(tree, indent=2),
    "repr": repr,
    "repr of a tuple": lambda tree: repr({key: (value,) for key, value in tree.items()}),
    "in a sentence": lambda tree: f"It sent {json.dumps(tree)} and failed.",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("under", UNDER)
def test_nothing_below_a_secret_name_is_left_wherever_a_text_is_cut(
    under: str, spelling: str
) -> None:
    text = SPELLINGS[spelling]({"user": "ann", "password": UNDER[under], "n": 1})
    for end in range(len(text) + 1):
        cut = Redactor().text(text[:end])
        assert "Xyzzy" not in cut, cut


@pytest.mark.parametrize("under", UNDER)
def test_a_json_text_beyond_the_budget_of_a_value_holds_none_either(under: str) -> None:
    gate = ContentGate(Redactor(), capture=True, max_value_bytes=131_072)
    text = json.dumps({"password": UNDER[under], "rest": ["word "] * 40_000})
    for value in (text, {"body": text}, [[text]], f"see {text}"):
        found = gate.json("otelchain.input", value)
        assert len(found["otelchain.input"]) > 100_000  # type: ignore[arg-type]
        assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        'fields: "password": {"type": "string"}, "n": {',
        '"password": {} and "token": []',
        '"tokens": {"input": 1200, "output": 345}',
    ],
)
def test_what_holds_no_value_stays(text: str) -> None:
    assert Redactor().text(text) == text
