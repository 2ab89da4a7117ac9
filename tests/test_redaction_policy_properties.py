"""What holds for every policy: once is enough, structure stays, deny hides, allow does not leak."""

import json
import string
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otelchain import Redactor
from otelchain.redaction import HashKey, PolicyRule
from otelchain.redaction.paths import Paths, parse
from otelchain.redaction.places import content_place

SETTINGS = settings(max_examples=100)
KEY = HashKey("only for tests", "k1")
TOKEN = "gh" + "p_" + "Ab1" * 12
SECRET_SHAPES = {TOKEN, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"}

fragments = st.sampled_from(
    [
        TOKEN, "bob@example.com", "4111 1111 1111 1111", "+14155552671", "password=", "hunter2",
        "TICKET-1234", "[email:k1:", "0123456789abcdef]", "[withheld: 12 bytes]", "[card:***1111]",
        "[REDACTED:card]", "[REDACTED:", "<redaction failed: card>", "Bearer ", '"', "'", "{", "}",
        "1111", " ", "\n", "a", ":", "]", "customer_no=", "Bob",
    ]
)  # fmt: skip
jumbles = st.lists(fragments, max_size=6).map("".join)
texts = st.one_of(st.text(max_size=30), jumbles)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
names = st.sampled_from(
    ["role", "content", "password", "customer", "customer.no", "ssn", "a", "b", "0", "[0]", ""]
)
trees = st.recursive(
    leaves,
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(st.one_of(names, jumbles), children, max_size=3),
        children.map(lambda tree: json.dumps(tree).replace("Infinity", "1e308")),
    ),
    max_leaves=8,
)

POLICIES = {
    "mask": Redactor(),
    "hash": Redactor(action="hash", hash_key=KEY),
    "partial": Redactor(action="partial"),
    "remove": Redactor(action="remove"),
    "strict": Redactor(preset="strict", hash_key=KEY),
    "mixed": Redactor(
        rules=[
            PolicyRule(name="allowed", paths=["a.b", "**.role"], action="keep"),
            PolicyRule(name="ssn", paths=["**.ssn", "*[1]"], action="partial"),
            PolicyRule(name="customer", keys=["customer"], action="hash"),
            PolicyRule(detectors=["email"], action="hash"),
            PolicyRule(detectors=["card"], action="partial"),
            PolicyRule(detectors=["phone"], action="remove"),
            PolicyRule(name="ticket", pattern=r"TICKET-[0-9]+"),
            PolicyRule(name="note", paths=["b"], action="withhold"),
        ],
        hash_key=KEY,
    ),
}
every_policy = pytest.mark.parametrize("policy", POLICIES)


def shape(tree: Any) -> Any:
    if isinstance(tree, dict):
        return [shape(value) for value in tree.values()]
    if isinstance(tree, list):
        return ["list", *map(shape, tree)]
    return tree if tree is None else "leaf"


@every_policy
@SETTINGS
@given(trees)
def test_a_second_pass_changes_nothing(policy: str, tree: Any) -> None:
    redactor = POLICIES[policy]
    once = redactor.value(tree)

    assert redactor.value(once) == once


@every_policy
@SETTINGS
@given(trees)
def test_json_text_stays_json(policy: str, tree: Any) -> None:
    text = json.dumps(tree).replace("Infinity", "1e308")

    for redacted in (POLICIES[policy].text(text), POLICIES[policy].text(f" {text}\n")):
        if text[0] in "{[":
            json.loads(redacted)


@pytest.mark.parametrize("policy", ["mask", "hash", "partial"])
@SETTINGS
@given(trees)
def test_the_shape_of_a_tree_stays(policy: str, tree: Any) -> None:
    def without_booleans(tree: Any) -> Any:
        return shape(json.loads(json.dumps(tree)))

    assert without_booleans(POLICIES[policy].value(tree)) == without_booleans(tree)


@every_policy
@SETTINGS
@given(trees)
def test_finding_redacts_as_redacting_does_and_counts_the_same(policy: str, tree: Any) -> None:
    redactor = POLICIES[policy]
    before = sum(redactor.counts().findings.values())
    redacted = redactor.value(tree)
    counted = sum(redactor.counts().findings.values()) - before

    findings = redactor.findings(tree)

    assert findings.redacted == redacted
    assert len(findings.found) == counted


@every_policy
@SETTINGS
@given(st.one_of(texts, st.text(st.sampled_from(string.ascii_letters + " ."), max_size=40)))
def test_no_finding_holds_more_than_offsets(policy: str, text: str) -> None:
    for found in POLICIES[policy].find(text):
        assert 0 <= found.start <= found.end <= len(text)
        assert found.path == "" or found.path not in text


# --- paths ---------------------------------------------------------------------------------

steps = st.one_of(st.sampled_from(["a", "b", "ssn", "c"]), st.integers(0, 2))
wanted = st.sampled_from(["a", "b", "ssn", "*", "[*]", "[0]", "**", "s*", "A"])


def oracle(pattern: tuple[str, ...], path: tuple[Any, ...]) -> bool:
    """Match a whole path by trying everything: the definition, and exponential."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return oracle(pattern[1:], path) or bool(path and oracle(pattern, path[1:]))
    if not path:
        return False
    first = path[0]
    if isinstance(first, int):
        fits = pattern[0] in ("*", "[*]", f"[{first}]")
    else:
        fits = pattern[0] == "*" or pattern[0].lower() == first
        fits = fits or (pattern[0] == "s*" and first.startswith("s"))
    return fits and oracle(pattern[1:], path[1:])


@settings(max_examples=500)
@given(st.lists(st.lists(wanted, min_size=1, max_size=4), min_size=1, max_size=3), st.lists(steps))
def test_many_paths_at_once_match_as_each_alone(patterns: list[list[str]], path: list[Any]) -> None:
    segments = [tuple(pattern) for pattern in patterns]
    paths = Paths(segments)
    state = paths.start("")
    for step in path:
        state = paths.at(state, step) if isinstance(step, int) else paths.below(state, step)

    matching = [number for number, each in enumerate(segments) if oracle(each, tuple(path))]
    assert paths.matched(state) == min(matching, default=None)


@SETTINGS
@given(st.lists(steps, min_size=1, max_size=5), st.data())
def test_nothing_survives_below_a_path_that_is_denied(path: list[Any], data: Any) -> None:
    cut = data.draw(st.integers(1, len(path)))
    written = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path[:cut])
    tree: Any = "swordfish"
    for step in reversed(path):
        tree = [*[0] * step, tree] if isinstance(step, int) else {step: tree, "other": 1}
    if data.draw(st.booleans()):
        tree = json.loads(json.dumps(tree))
    redactor = Redactor(preset="off", rules=[PolicyRule(name="p", paths=[written.lstrip(".")])])

    assert "swordfish" not in json.dumps(redactor.value(tree))
    assert "swordfish" not in redactor.text(json.dumps(tree))
    assert "swordfish" not in redactor.value(json.dumps(tree))


@SETTINGS
@given(trees, st.sampled_from(sorted(SECRET_SHAPES)))
def test_an_allowed_path_lets_no_known_secret_through(tree: Any, secret: str) -> None:
    redactor = Redactor(rules=[PolicyRule(name="all", paths=["**"], action="keep")])

    redacted = redactor.value({"a": tree, "b": [f"see {secret} there"], "c": {"password": secret}})

    assert f"{secret} there" not in json.dumps(redacted)
    assert redacted["c"]["password"] != secret


@SETTINGS
@given(trees)
def test_strict_shows_nothing_of_any_content(tree: Any) -> None:
    redactor = POLICIES["strict"].at(content_place("otelchain.input"))

    redacted = redactor.value(["swordfish", tree])

    assert isinstance(redacted, str)
    assert redacted.startswith("[withheld: ")
    assert len(redacted) < 60


# --- ids -----------------------------------------------------------------------------------

CALL_IDS = st.one_of(
    st.text(st.sampled_from(string.ascii_letters + string.digits), min_size=24, max_size=24).map(
        lambda text: f"call_{text}"
    ),
    st.text(st.sampled_from(string.ascii_letters + string.digits), min_size=22, max_size=22).map(
        lambda text: f"toolu_01{text}"
    ),
    st.integers(10**23, 10**24 - 1).map(lambda number: f"call_{number}"),
    st.text(st.sampled_from(string.digits), min_size=16, max_size=16).map(
        lambda text: f"call_{text}"
    ),
)
# Also UUIDs of decimal digits only, which look most like numbers.
UUIDS = st.one_of(
    st.uuids().map(str),
    st.text(st.sampled_from(string.digits), min_size=32, max_size=32).map(
        lambda digits: str(UUID(digits))
    ),
    st.uuids().map(lambda uuid: f"lc_run--{uuid}-0"),
)
TRACE_IDS = st.one_of(
    st.integers(1, 2**128 - 1).map(lambda number: f"{number:032x}"),
    st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}"),
    st.tuples(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1)).map(
        lambda ids: f"00-{ids[0]:032x}-{ids[1]:016x}-01"
    ),
)


@settings(max_examples=1_500)
@given(st.one_of(CALL_IDS, UUIDS, TRACE_IDS))
def test_ids_of_runs_spans_and_tool_calls_are_left_alone(identifier: str) -> None:
    message = {
        "role": "tool",
        "tool_call_id": identifier,
        "parts": [{"type": "tool_call_response", "id": identifier, "response": "ok"}],
        "run_id": identifier,
    }

    assert POLICIES["mask"].value(message) == message
    assert POLICIES["mask"].text(identifier) == identifier
    assert POLICIES["mask"].text(f"run {identifier} failed") == f"run {identifier} failed"


def test_the_paths_of_the_documentation_can_be_read() -> None:
    assert parse("metadata.customer.*") == ("metadata", "customer", "*")
    assert parse("messages[*].content") == ("messages", "[*]", "content")
    assert parse("**.ssn") == ("**", "ssn")
