"""What holds for every text and tree: secrets go, structure stays, once is enough."""

# ruff: noqa: RUF001 (full-width characters are what is tested)

import json
import string
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otelchain import Redactor

SECRETS = {
    "sk-" + "ant-api03-" + "Ab1" * 30: "anthropic_key",
    "gh" + "p_" + "Ab1" * 12: "github_token",
    "AK" + "IAIOSFODNN7EXAMPLE": "aws_access_key_id",
    "4111111111111111": "card",
    "5555 5555 5555 4444": "card",
    "GB82WEST12345698765432": "iban",
    "11010519491231002X": "cn_resident_id",
    "bob@example.com": "email",
    "+14155552671": "phone",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N": "jwt",
}
# Between a secret and the text around it stands something that is not part of either.
EDGES = [
    "",
    " ",
    "\n",
    "\t",
    '"',
    "'",
    "(",
    ")",
    "，",
    "。",
    "：",
    "号",
    "に",
    "<",
    ">",
    ";",
    "|",
    "\x00",
]
SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

any_text = st.text(st.characters(exclude_categories=[]), max_size=60)  # lone surrogates too
busy_text = st.text(
    st.sampled_from(
        [*string.ascii_letters, *string.digits, *" -_.,:;=@/+()[]{}<>\"'\\\n\t#&?!号密码："]
    ),
    max_size=80,
)
fragments = st.sampled_from(
    [
        *SECRETS, "password=", "password: ", '"token": "', "Bearer ", "https://u:pw@h/", "hunter2",
        "[REDACTED:card]", "[REDACTED:", "[card:0123456789abcdef]", "<redaction failed: card>",
        "密码：", "--token ", "Cookie: a=b", "-----BEGIN PRIVATE KEY-----", "415-555-2671", "\\n",
        "4111 1111 ", "1111 1111", "@example.com", " ", "\n", '"', "'", "}", "1", "a", ".", "sk-",
    ]
)  # fmt: skip
jumbles = st.lists(fragments, max_size=8).map("".join)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), any_text, busy_text, jumbles,
)  # fmt: skip
names = st.one_of(
    st.sampled_from(["role", "content", "password", "api_key", "phone", "max_tokens", "a"]),
    busy_text,
    jumbles,
)
trees = st.recursive(
    leaves,
    lambda children: st.one_of(
        st.lists(children, max_size=4), st.dictionaries(names, children, max_size=4)
    ),
    max_leaves=12,
)
clean_text = st.text(st.sampled_from([*string.ascii_lowercase, " ", "中", "文", "é"]), max_size=40)

MASK = Redactor()
HASH = Redactor(action="hash", hash_key="only for tests")
REMOVE = Redactor(action="remove")
ANCHORED = Redactor(
    patterns={"top": "^[a-c]+$", "end": r"[0-9]\z", "line": "(?m)^x", "gap": r"\Bq"}
)


@SETTINGS
@given(
    any_text,
    st.sampled_from(EDGES[1:]),
    st.sampled_from([*SECRETS]),
    st.sampled_from(EDGES[1:]),
    any_text,
)
def test_no_secret_survives_in_any_text(
    before: str, left: str, secret: str, right: str, after: str
) -> None:
    assert secret not in MASK.text(f"{before}{left}{secret}{right}{after}")


# Not among the fragments, which may glue two secrets into one word that is neither.
DEEP_SECRETS = ["gh" + "o_" + "Zz9" * 12, "eve@example.org", "5105105105105100", "+442079460958"]


@SETTINGS
@given(trees, st.sampled_from(DEEP_SECRETS), st.data())
def test_no_secret_survives_at_any_depth(tree: Any, secret: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 6))):
        around = [[tree, secret], {"a": tree, "b": secret}, {f"x {secret}": tree}]
        tree = data.draw(st.sampled_from(around))
    tree = [tree, f"the secret is {secret}."]

    assert secret not in json.dumps(MASK.value(tree))


@SETTINGS
@given(st.sampled_from([*SECRETS]), st.integers(1, 4), clean_text)
def test_no_secret_survives_in_json_inside_json(secret: str, depth: int, beside: str) -> None:
    text = json.dumps({"t": f"{beside}\n{secret}\n{beside}", "n": 1.5})
    for _ in range(depth):
        text = json.dumps([text])

    redacted = MASK.text(text)

    assert secret not in redacted
    for _ in range(depth):
        (redacted,) = json.loads(redacted)
    assert json.loads(redacted) == {
        "t": f"{beside}\n[REDACTED:{SECRETS[secret]}]\n{beside}",
        "n": 1.5,
    }


@SETTINGS
@given(trees)
def test_a_second_pass_over_a_masked_tree_changes_nothing(tree: Any) -> None:
    once = MASK.value(tree)

    assert MASK.value(once) is once


@SETTINGS
@given(trees)
def test_a_second_pass_over_a_hashed_tree_changes_nothing(tree: Any) -> None:
    once = HASH.value(tree)

    assert HASH.value(once) is once


@SETTINGS
@given(st.one_of(any_text, busy_text, jumbles))
def test_a_second_pass_over_text_changes_nothing(text: str) -> None:
    for redactor in (MASK, HASH, REMOVE):
        once = redactor.text(text)
        assert redactor.text(once) == once


@SETTINGS
@given(trees)
def test_the_shape_of_a_tree_stays(tree: Any) -> None:
    assert shape(MASK.value(tree)) == shape(tree)


def shape(tree: Any) -> Any:
    if isinstance(tree, dict):
        return [shape(value) for value in tree.values()]
    if isinstance(tree, list):
        return ["list", *map(shape, tree)]
    return tree if tree is None or isinstance(tree, bool) else "leaf"


@SETTINGS
@given(st.recursive(st.one_of(clean_text, st.booleans(), st.none(), st.integers(0, 999)), st.lists))
def test_a_tree_without_findings_is_given_back_itself(tree: Any) -> None:
    assert MASK.value(tree) is tree


@SETTINGS
@given(st.lists(st.one_of(any_text, busy_text, jumbles), max_size=5))
def test_a_list_is_redacted_as_each_of_its_texts_alone(texts: list[str]) -> None:
    for redactor in (MASK, ANCHORED):
        assert redactor.value(texts) == [redactor.text(text) for text in texts]


@SETTINGS
@given(st.one_of(any_text, busy_text, jumbles))
def test_the_scan_of_all_rules_misses_nothing_a_rule_alone_finds(text: str) -> None:
    engine = MASK._anywhere._rules.engine
    folded = text.encode("utf-8", "replace").decode()

    candidates, _ = engine._scanner.candidates(folded)

    for rule in engine._scanner._rules:
        # That one misses one in 300 by design: see `otelchain.redaction.entropy._mixed`.
        if rule not in candidates and rule.name != "generic_token":
            assert engine._of_rule(rule, folded) == []


finite = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), jumbles)


@SETTINGS
@given(st.dictionaries(names, st.one_of(finite, st.lists(finite, max_size=3)), max_size=4))
def test_json_text_stays_json(tree: Any) -> None:
    text = json.dumps(tree).replace("Infinity", "1e308")

    redacted = json.loads(MASK.text(text))

    assert shape(redacted) == shape(json.loads(text))
