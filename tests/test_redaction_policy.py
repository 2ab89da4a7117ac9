"""Rules of a policy: what each kind finds, what its action writes, and where it applies."""

import hashlib
import hmac
import json
import logging
import re
import time
from typing import Any

import pytest

from otelchain import RedactionPolicyError, Redactor
from otelchain.redaction import HashKey, PolicyRule, user_functions
from otelchain.redaction.findings import Found
from otelchain.redaction.places import PLACES, Place, content_place, fact_place, foreign_place
from otelchain.redaction.presets import DETECTORS, PERSONAL_FAMILIES, PRESETS, SECRET_FAMILIES
from otelchain.redaction.tally import Tally

CARD = "4111 1111 1111 1111"  # Visa's test number
KEY = HashKey("a key that only the test knows", "k2")
TOKEN = "gh" + "p_" + "Ab1" * 12  # a GitHub token's published shape


def only(*rules: PolicyRule, **more: Any) -> Redactor:
    return Redactor(preset="off", rules=rules, **more)


# --- actions -------------------------------------------------------------------------------


def test_each_rule_has_an_action_of_its_own() -> None:
    redactor = only(
        PolicyRule(detectors=["email"], action="hash"),
        PolicyRule(detectors=["card"], action="partial"),
        PolicyRule(detectors=["iban"], action="remove"),
        PolicyRule(detectors=["api_key"]),
        hash_key=KEY,
    )

    digits = hmac.new(b"a key that only the test knows", b"bob@example.com", hashlib.sha256)
    assert redactor.text(f"bob@example.com|{CARD}|GB82WEST12345698765432|{TOKEN}") == (
        f"[email:k2:{digits.hexdigest()[:16]}]|[card:***1111]||[REDACTED:github_token]"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111 1111 1111 1111", "[card:***1111]"),
        ("4111-1111-1111-1111", "[card:***1111]"),
        ("536-90-4399", "[us_ssn:***4399]"),
    ],
)
def test_a_partial_mask_shows_the_last_four(text: str, expected: str) -> None:
    assert Redactor(action="partial").text(text) == expected


def test_a_partial_mask_never_shows_more_than_half() -> None:
    redactor = only(PolicyRule(name="pin", paths=["pin"], action="partial"))

    assert redactor.value({"pin": "1234567"}) == {"pin": "[REDACTED:pin]"}
    assert redactor.value({"pin": "12345678"}) == {"pin": "[pin:***5678]"}


def test_overlapping_findings_show_nothing_of_each_other() -> None:
    redactor = only(
        PolicyRule(name="a", pattern="abcdefgh", action="partial"),
        PolicyRule(name="b", pattern="ghij", action="mask"),
    )

    assert redactor.text("abcdefghij") == "[REDACTED:a]"


def test_withholding_names_the_size_and_with_a_key_the_hash() -> None:
    rule = PolicyRule(name="all", paths=["note"], action="withhold")
    digits = hmac.new(b"a key that only the test knows", "né".encode(), hashlib.sha256)

    assert only(rule).value({"note": "né"}) == {"note": "[withheld: 3 bytes]"}
    assert only(rule, hash_key=KEY).value({"note": "né"}) == {
        "note": f"[withheld: 3 bytes, k2:{digits.hexdigest()[:16]}]"
    }


def test_a_container_is_withheld_whole() -> None:
    redactor = only(PolicyRule(name="all", paths=["note"], action="withhold"))

    assert redactor.value({"note": {"bob": [1, 2]}, "n": 1}) == {
        "note": "[withheld: 13 bytes]",  # {"bob":[1,2]}
        "n": 1,
    }


def test_a_hash_starts_with_a_letter_somewhere_so_that_no_number_hides_in_one() -> None:
    key = HashKey("k", "k1")
    digits = [key.digits(str(number)) for number in range(20_000)]

    assert all(re.search("[a-f]", each) for each in digits)
    assert len(set(digits)) == 20_000


def test_a_card_number_cannot_hide_in_what_looks_like_a_token() -> None:
    redactor = Redactor(action="hash", hash_key=KEY)
    plain = CARD.replace(" ", "")

    for forged in (f"[card:kx:{plain}]", f"[card:{plain}:abcdef0123456789]", f"[card:***{plain}]"):
        assert plain not in redactor.text(forged)


def test_tokens_of_another_key_and_another_action_are_left_alone() -> None:
    text = f"bob@example.com {CARD}"
    old = Redactor(action="hash", hash_key=HashKey("the key of last year", "k1")).text(text)

    assert "k1" in old
    assert Redactor(action="hash", hash_key=KEY).text(f"password={old}") == f"password={old}"
    assert Redactor().value({"password": old.split()[0]}) == {"password": old.split()[0]}


def test_a_value_has_one_pseudonym_whatever_rule_finds_it_and_however_it_is_written() -> None:
    redactor = Redactor(
        action="hash",
        hash_key=KEY,
        rules=[PolicyRule(name="pan", paths=["metadata.pan"])],
    )

    texts = [redactor.text(spelled) for spelled in (CARD, CARD.replace(" ", "-"))]
    number = redactor.value([4111111111111111])[0]
    by_path = [redactor.value({"metadata": {"pan": pan}}) for pan in (CARD, 4111111111111111)]
    by_name = redactor.value({"card_number": CARD})
    assert texts == [number, number]
    assert by_path == [{"metadata": {"pan": number.replace("card", "pan")}}] * 2
    assert by_name == {"card_number": number.replace("card", "secret")}


def test_without_a_key_hashing_is_refused() -> None:
    where = r"rule 1: .*hash_key.*OTELCHAIN_REDACTION_KEY"
    with pytest.raises(RedactionPolicyError, match=where):
        only(PolicyRule(detectors=["email"], action="hash"))


def test_nothing_shows_the_key() -> None:
    redactor = Redactor(action="hash", hash_key=KEY)

    assert "only the test knows" not in f"{redactor!r} {KEY!r} {redactor.summary()}"
    assert "k2" in redactor.summary()


def test_a_key_without_an_id_gets_one_of_its_own() -> None:
    one, other = HashKey("one key"), HashKey("another key")

    assert re.fullmatch("k[0-9a-f]{4}", one.id)
    assert one.id != other.id
    assert one.id == HashKey(b"one key").id


# --- detectors, keys, callables ------------------------------------------------------------


def test_the_first_rule_that_speaks_of_a_detector_counts() -> None:
    redactor = Redactor(
        rules=[
            PolicyRule(detectors=["us_ssn"], action="remove"),
            PolicyRule(detectors=["national_id"], action="partial"),
            PolicyRule(detectors=["us_ssn"], action="keep"),
        ]
    )

    assert redactor.text("536-90-4399 756.9217.0769.85") == " [ch_ahv:***6985]"


def test_a_detector_that_is_kept_finds_nothing() -> None:
    redactor = Redactor(rules=[PolicyRule(detectors=["email"], action="keep")])

    assert redactor.text(f"bob@example.com {CARD}") == "bob@example.com [REDACTED:card]"


def test_keys_have_a_name_and_an_action_of_their_own_in_trees_and_in_text() -> None:
    redactor = Redactor(rules=[PolicyRule(name="customer", keys=["customer no"], action="partial")])

    assert redactor.value({"customerNo": 4711471147, "password": "x"}) == {
        "customerNo": "[customer:***1147]",
        "password": "[REDACTED:secret]",
    }
    assert redactor.text("customer_no=4711471147") == "customer_no=[customer:***1147]"


def test_a_key_that_is_kept_is_no_secret_but_a_longer_one_still_is() -> None:
    redactor = Redactor(rules=[PolicyRule(keys=["session_token"], action="keep")])
    tree = {"session_token": "abc", "session_token_secret": "abc"}

    assert redactor.value(tree) == {
        "session_token": "abc",
        "session_token_secret": "[REDACTED:secret]",
    }
    assert redactor.text("session_token=abc1 x") == "session_token=abc1 x"


# --- paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "tree", "expected"),
    [
        ("a", {"a": "x", "b": "x"}, {"a": "*", "b": "x"}),
        ("A", {"a": "x"}, {"a": "*"}),
        ("a.b", {"a": {"b": "x", "c": "x"}}, {"a": {"b": "*", "c": "x"}}),
        ("a.*", {"a": {"b": "x", "c": ["x", 1]}}, {"a": {"b": "*", "c": ["*", "*"]}}),
        ("a", {"a": {"b": "x", "c": [True, None, 1.5]}}, {"a": {"b": "*", "c": ["*", None, "*"]}}),
        ("a.b", {"a.b": "x"}, {"a.b": "*"}),
        ("cust_*", {"cust_1": "x", "cust": "x"}, {"cust_1": "*", "cust": "x"}),
        ("m[*].c", {"m": [{"c": "x", "r": "x"}, {"c": "x"}]},
         {"m": [{"c": "*", "r": "x"}, {"c": "*"}]}),
        ("m[1]", {"m": ["x", "x", "x"]}, {"m": ["x", "*", "x"]}),
        ("$.m[0].c", {"m": [{"c": "x"}, {"c": "x"}]}, {"m": [{"c": "*"}, {"c": "x"}]}),
        ("**.ssn", {"ssn": "x", "a": [{"b": {"ssn": "x", "n": "x"}}]},
         {"ssn": "*", "a": [{"b": {"ssn": "*", "n": "x"}}]}),
        ("$..ssn", {"a": [{"ssn": "x"}]}, {"a": [{"ssn": "*"}]}),
        ("a.**.z", {"a": {"z": "x", "b": {"c": {"z": "x"}}}},
         {"a": {"z": "*", "b": {"c": {"z": "*"}}}}),
        ("[*]", ["x", "x"], ["*", "*"]),
        ("*", {"a": "x", "b": ["x"]}, {"a": "*", "b": ["*"]}),
        ("**", ["x", {"a": "x"}], ["*", {"a": "*"}]),
        ("a[*]", {"a": {"b": "x"}}, {"a": {"b": "x"}}),
    ],
)  # fmt: skip
def test_a_path_names_a_place_in_a_tree(path: str, tree: Any, expected: Any) -> None:
    redactor = only(PolicyRule(name="p", paths=[path]))
    wanted = json.loads(json.dumps(expected).replace('"*"', '"[REDACTED:p]"'))

    assert redactor.value(tree) == wanted
    assert json.loads(redactor.text(json.dumps(tree))) == wanted


def test_a_path_goes_on_through_json_kept_as_text() -> None:
    redactor = only(PolicyRule(name="p", paths=["**.arguments.ssn"]))
    inner = json.dumps({"ssn": "x", "n": 1})

    redacted = redactor.value({"calls": [{"arguments": inner}]})

    assert json.loads(redacted["calls"][0]["arguments"]) == {"ssn": "[REDACTED:p]", "n": 1}


@pytest.mark.parametrize(
    ("key", "path", "tree"),
    [
        ("otelchain.metadata", "metadata.customer.*", {"customer": {"x": "v"}}),
        ("otelchain.metadata", "customer.x", {"customer": {"x": "v"}}),
        ("otelchain.metadata", "otelchain.metadata.customer", {"customer": {"x": "v"}}),
        ("gen_ai.input.messages", "messages[*].parts[*].content", [{"parts": [{"content": "v"}]}]),
        ("otelchain.input", "messages[*].content", {"messages": [{"content": "v"}]}),
        ("traceloop.association.properties.ssn", "**.ssn", "v"),
        ("llm.input_messages.0.message.content", "input_messages[*].message.content", "v"),
    ],
)
def test_a_path_begins_at_the_value_or_at_any_part_of_the_attributes_key(
    key: str, path: str, tree: Any
) -> None:
    redactor = only(PolicyRule(name="p", paths=[path]))

    redacted = redactor.at(content_place(key)).value(tree)

    assert json.dumps(redacted) == json.dumps(tree).replace('"v"', '"[REDACTED:p]"')


def test_a_removed_path_takes_its_entry_with_it_and_leaves_the_order_of_lists() -> None:
    redactor = only(PolicyRule(name="p", paths=["a.b", "l[0]"], action="remove"))

    assert redactor.value({"a": {"b": {"c": 1}, "d": 2}, "l": ["x", "y"]}) == {
        "a": {"d": 2},
        "l": ["", "y"],
    }


def test_an_allowed_path_keeps_personal_data_and_not_secrets() -> None:
    redactor = Redactor(rules=[PolicyRule(name="contact", paths=["contact.**"], action="keep")])
    contact = {"mail": f"bob@example.com {CARD}", "a@b.de": "x", "note": f"use {TOKEN}"}
    tree = {"contact": contact, "x": CARD}

    assert redactor.value(tree) == {
        "contact": {**contact, "note": "use [REDACTED:github_token]"},
        "x": "[REDACTED:card]",
    }


def test_an_allowed_path_keeps_secrets_too_when_the_rule_says_so() -> None:
    rule = PolicyRule(name="demo", paths=["demo"], action="keep", keep_secrets=True)

    assert Redactor(rules=[rule]).value({"demo": TOKEN}) == {"demo": TOKEN}


def test_an_allowed_path_allows_its_own_name_and_not_the_names_below() -> None:
    redactor = Redactor(rules=[PolicyRule(name="state", paths=["session_token"], action="keep")])

    assert redactor.value({"session_token": {"at": "abc", "password": "abc"}}) == {
        "session_token": {"at": "abc", "password": "[REDACTED:secret]"}
    }


@pytest.mark.parametrize("action", ["mask", "remove", "withhold", "hash", "partial"])
def test_of_paths_that_overlap_the_first_rule_counts(action: Any) -> None:
    allow = PolicyRule(name="tier", paths=["metadata.customer.tier"], action="keep")
    deny = PolicyRule(name="customer", paths=["metadata.customer"], action=action)
    tree = {"metadata": {"customer": {"tier": "gold", "name": "Bob Dylan"}}}

    allowed_first = only(allow, deny, hash_key=KEY).value(tree)
    denied_first = only(deny, allow, hash_key=KEY).value(tree)

    assert "gold" in json.dumps(allowed_first)
    assert "Bob" not in json.dumps([allowed_first, denied_first])
    assert "gold" not in json.dumps(denied_first)


def test_a_path_does_not_reach_an_object_that_only_looks_like_a_serialised_secret() -> None:
    redactor = only(PolicyRule(name="p", paths=["k"]))
    tree = {"k": {"lc": 1, "type": "secret", "id": ["Bob"]}}

    assert "Bob" not in json.dumps(redactor.value(tree))


@pytest.mark.parametrize("path", ["", " ", "a[", "a[x]", "a.[b", "[", ".".join("a" * 40)])
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(RedactionPolicyError, match=r"rule 1 \('p'\).*path"):
        only(PolicyRule(name="p", paths=[path]))


# --- places --------------------------------------------------------------------------------


def test_a_rule_applies_in_its_places_only() -> None:
    redactor = only(PolicyRule(detectors=["email"], places=["outputs", "errors"]))

    shown = {
        key: redactor.at(content_place(key)).text("bob@example.com")
        for key in ("otelchain.input", "otelchain.output", "exception.message", "otelchain.tags")
    }
    assert shown == {
        "otelchain.input": "bob@example.com",
        "otelchain.output": "[REDACTED:email]",
        "exception.message": "[REDACTED:email]",
        "otelchain.tags": "bob@example.com",
    }


def test_a_rule_applies_to_attributes_by_their_key() -> None:
    redactor = only(PolicyRule(detectors=["email"], attributes=["http.*", "url.full"]))

    assert redactor.at(foreign_place("HTTP.target")).text("a@b.de") == "[REDACTED:email]"
    assert redactor.at(foreign_place("db.statement")).text("a@b.de") == "a@b.de"


def test_where_the_place_is_not_known_what_takes_away_applies_and_what_keeps_does_not() -> None:
    redactor = Redactor(
        rules=[
            PolicyRule(detectors=["email"], places=["tags"], action="keep"),
            PolicyRule(name="n", pattern="[0-9]+", places=["tags"]),
        ]
    )

    assert redactor.text("bob@example.com 7") == "[REDACTED:email] [REDACTED:n]"
    assert redactor.at(content_place("otelchain.tags")).text("a@b.de 7") == "a@b.de [REDACTED:n]"


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("otelchain.input", "inputs"),
        ("gen_ai.input.messages", "inputs"),
        ("gen_ai.prompt.0.content", "inputs"),
        ("gen_ai.prompt.name", "facts"),
        ("gen_ai.tool.call.result", "outputs"),
        ("llm.output_messages.0.message.content", "outputs"),
        ("retrieval.documents.3.document.content", "documents"),
        ("gen_ai.tool.definitions", "prompts"),
        ("exception.stacktrace", "errors"),
        ("langfuse.trace.metadata.customer", "metadata"),
        ("tag.tags", "tags"),
        ("gen_ai.request.model", "facts"),
        ("otelchain.run.id", "facts"),
        ("my.own.attribute", "other"),
    ],
)
def test_the_place_is_told_from_the_attributes_key(key: str, place: str) -> None:
    assert foreign_place(key) == Place(place, key)
    assert place in PLACES


# --- presets -------------------------------------------------------------------------------

PERSON = f"bob@example.com {CARD} +14155552671"


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("off", f"{PERSON} {TOKEN}"),
        ("secrets", f"{PERSON} [REDACTED:github_token]"),
        ("personal", "[REDACTED:email] [REDACTED:card] [REDACTED:phone] [REDACTED:github_token]"),
        ("strict", "[withheld: 89 bytes]"),
    ],
)
def test_a_preset_finds_what_its_name_says(preset: str, expected: str) -> None:
    assert Redactor(preset=preset).text(f"{PERSON} {TOKEN}") == expected


def test_the_default_is_the_preset_personal() -> None:
    text = f"{PERSON} {TOKEN} password=hunter2"

    assert Redactor().text(text) == Redactor(preset="personal").text(text)


def test_every_family_is_of_a_person_or_a_secret() -> None:
    assert set(DETECTORS) >= PERSONAL_FAMILIES
    assert set(SECRET_FAMILIES) == {
        "api_key", "private_key", "jwt", "url_password", "authorization", "cookie", "secret",
        "entropy",
    }  # fmt: skip
    assert list(PRESETS) == ["secrets", "personal", "strict", "off"]


def test_strict_withholds_content_and_lets_names_pass_the_detectors() -> None:
    redactor = Redactor(preset="strict")

    assert redactor.at(content_place("otelchain.input")).value({"Bob": "x"}) == (
        "[withheld: 11 bytes]"
    )
    assert redactor.at(fact_place("user.id")).text("bob@example.com") == "[REDACTED:email]"
    assert redactor.at(fact_place("otelchain.run.name")).text("ask") == "ask"


def test_strict_can_be_opened_at_a_path() -> None:
    redactor = Redactor(
        preset="strict", rules=[PolicyRule(name="roles", paths=["**.role"], action="keep")]
    )
    messages = [{"role": "user", "content": "I am Bob"}, {"role": "assistant", "content": "Hi"}]

    assert redactor.at(content_place("gen_ai.input.messages")).value(messages) == [
        {"role": "user", "content": "[withheld: 8 bytes]"},
        {"role": "assistant", "content": "[withheld: 2 bytes]"},
    ]


# --- structure -----------------------------------------------------------------------------


def test_messages_keep_roles_ids_and_order() -> None:
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "I am bob@example.com"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "call_4111111111111111", "name": "find",
                 "arguments": {"mail": "bob@example.com"}},
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_4111111111111111", "response": 7}],
        },
    ]  # fmt: skip

    redacted = Redactor().value(messages)

    assert json.dumps(redacted) == json.dumps(messages).replace(
        "bob@example.com", "[REDACTED:email]"
    )


def test_json_text_with_a_name_twice_stays_json() -> None:
    text = '{"a": 4111111111111111, "a": "bob@example.com", "n": 1e999}'

    redacted = Redactor().text(text)

    assert json.loads(redacted, object_pairs_hook=list) == [
        ("a", "[REDACTED:card]"),
        ("a", "[REDACTED:email]"),
        ("n", "1e999"),  # no number that Python could write back
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"customer": {"name": "Bob"}, "score": NaN}',
        '[Infinity, {"customer": {"name": "Bob"}}]',
        '{"customer": {"name": "Bob"}, "score": 1e999}',
        '{"customer": {"name": "Bob"}, "score": %s}' % ("1" * 5_000),
        '{"customer": {"name": "Bob"}, "customer": 1}',
        '{"customer": 1, "customer": {"name": "Bob"}}',
        '\ufeff{"customer": {"name": "Bob"}}',
        '{"customer": {"name": "Bob"}, "deep": %s}' % ("[" * 5_000 + "]" * 5_000),
    ],
)
def test_what_a_reader_takes_for_json_leads_nothing_past_a_path(text: str) -> None:
    by_path = Redactor(rules=[PolicyRule(name="person", paths=["**.customer"])])
    by_key = Redactor(keys=["customer"])

    for redactor in (by_path, by_key):
        assert "Bob" not in redactor.text(text)
        redacted = redactor.value({"kept": "x", "inside": text})
        assert "Bob" not in redacted["inside"]
        assert redacted["kept"] == "x"


# --- failing closed ------------------------------------------------------------------------


def test_an_entry_that_is_removed_is_counted_and_named() -> None:
    rule = PolicyRule(name="person", paths=["customer"], action="remove")
    value = {"kept": 1, "deep": [{"password": "hunter2"}], "customer": {"name": "Bob"}}

    redactor = Redactor(action="remove", rules=[rule])

    assert redactor.value(value) == {"kept": 1, "deep": [{}]}
    assert redactor.counts().findings == {"person": 1, "secret": 1}
    assert redactor.find(value) == [
        Found("person", 0, 0, "customer"),
        Found("secret", 0, 0, "deep[0].password"),
    ]


def test_failures_are_counted_by_rule() -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    redactor = Redactor(callables=[broken])
    tally = Tally()

    redactor.value(["a", {"b": 1}], tally)

    assert redactor.counts().failures == {"broken": 3}  # a text, a name, a number
    assert tally.failures == {"broken": 3}


def test_a_function_that_takes_too_long_costs_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(text: str) -> str:
        time.sleep(0.02)
        return text

    redactor = Redactor(callables=[slow], time_budget_ms=10)

    assert redactor.text("Bob") == "<redaction failed: slow>"


def test_a_function_that_is_slow_again_and_again_is_not_called_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    calls = []

    def slow(text: str) -> str:
        calls.append(text)
        now[0] += 2.0
        return text

    monkeypatch.setattr(user_functions.time, "monotonic", lambda: now[0])
    redactor = Redactor(callables=[slow])

    with caplog.at_level(logging.ERROR, "otelchain"):
        shown = [redactor.text(f"Bob {number}") for number in range(5)]
    now[0] += user_functions.PAUSE_SECONDS
    redactor.text("Bob again")

    assert shown == ["<redaction failed: slow>"] * 5
    assert calls == ["Bob 0", "Bob 1", "Bob 2", "Bob again"]
    assert len(caplog.records) == 1
    assert "slow" in caplog.text
    assert "Bob" not in caplog.text


def test_a_failure_is_not_remembered_for_the_next_time() -> None:
    answers = iter([ValueError(), "fine"])

    def flaky(text: str) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    scrubber = Redactor(callables=[flaky]).at(fact_place("user.id"))

    assert scrubber.known_text("bob") == "<redaction failed: flaky>"
    assert scrubber.known_text("bob") == "fine"
    assert scrubber.known_text("bob") == "fine"


# --- findings ------------------------------------------------------------------------------


def test_findings_say_rule_and_place_and_not_the_value() -> None:
    text = f"mail bob@example.com, card {CARD}"

    assert Redactor().find(text) == [Found("email", 5, 20), Found("card", 27, 46)]
    assert [text[f.start : f.end] for f in Redactor().find(text)] == ["bob@example.com", CARD]


def test_findings_in_json_say_the_path() -> None:
    tree = {"a": [{"b": "x bob@example.com"}], "password": "hunter2", "eve@example.org": 1}

    expected = [
        Found("email", 0, 15),  # the name itself, in the object at the root
        Found("email", 2, 17, "a[0].b"),
        Found("secret", 0, 7, "password"),
    ]
    assert Redactor().find(tree) == expected
    assert Redactor().find(json.dumps(tree)) == expected


def test_a_path_in_a_finding_does_not_show_a_name_that_is_redacted() -> None:
    tree = {"bob@example.com": {"password": "x"}}

    assert "bob" not in str(Redactor().find(tree))


def test_what_is_replaced_is_counted_by_rule_also_when_it_was_seen_before() -> None:
    redactor = Redactor()
    tally = Tally()

    redactor.text(f"bob@example.com {CARD}", tally)
    for _ in range(3):
        redactor.at(fact_place("user.id")).known_text("bob@example.com")

    assert tally.findings == {"email": 1, "card": 1}
    assert redactor.counts().findings == {"email": 4, "card": 1}


def test_what_was_replaced_already_is_not_found_again() -> None:
    redactor = Redactor()
    redacted = redactor.value({"password": "x", "a": "bob@example.com"})

    assert redactor.find(redacted) == []


# --- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([PolicyRule()], "rule 1: a rule needs exactly one of detectors, pattern"),
        ([PolicyRule(name="a", pattern="x", keys=["k"])], "it has pattern and keys"),
        ([PolicyRule(detectors=["emial"])], "rule 1: no redaction detector is named 'emial'; did"),
        ([PolicyRule(detectors=["email"], name="mail")], "detectors have names of their own"),
        ([PolicyRule(detectors=["email"], places=["input"])], "no redaction place is named"),
        ([PolicyRule(detectors=["email"], action="hide")], "no redaction action is named 'hide'"),
        ([PolicyRule(detectors="email")], "detectors takes a list"),
        ([PolicyRule(pattern="x")], "needs a name"),
        ([PolicyRule(paths=["a"])], "needs a name"),
        ([PolicyRule(name="a", pattern="x", action="keep")], "pattern with action keep"),
        ([PolicyRule(name="a", pattern="x" * 10_001)], "has 10001 characters"),
        ([PolicyRule(name="a", pattern="(a{1000}){1000}")], "rule 1 .'a'.: redaction pattern 'a'"),
        ([PolicyRule(name="a", pattern="x"), PolicyRule(name="a", paths=["b"])], "rule 2 .'a'.: "),
        ([PolicyRule(name="email", pattern="x")], "name of a built-in detector"),
        ([PolicyRule(detectors=["card"], action="partial", keep_last=9)], "must be 1 to 8"),
        ([PolicyRule(detectors=["card"], action="mask", keep_last=4)], "keep_last goes with"),
        ([PolicyRule(detectors=["card"], keep_last=4)], "keep_last goes with"),
        ([PolicyRule(detectors=["card"], places=[])], "places is empty"),
        ([PolicyRule(detectors=["card"], attributes=())], "attributes is empty"),
        ([PolicyRule(detectors=["card"], keep_secrets=True)], "keep_secrets goes with paths"),
        ([PolicyRule(callable=str, action="mask")], "a callable decides itself"),
        ([PolicyRule(callable="str")], "is not callable"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_work_is_refused_with_its_number_and_reason(
    rules: list[PolicyRule], message: str
) -> None:
    with pytest.raises(RedactionPolicyError, match=message):
        only(*rules)


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, 10**9])
def test_a_budget_that_is_none_is_refused(budget: Any) -> None:
    with pytest.raises(RedactionPolicyError, match="time_budget_ms"):
        Redactor(time_budget_ms=budget)


@pytest.mark.parametrize("key_id", ["1", "k" * 9, "k:1", "k 1"])
def test_a_key_id_that_does_not_fit_into_a_token_is_refused(key_id: str) -> None:
    with pytest.raises(RedactionPolicyError, match="key_id"):
        HashKey("secret", key_id)
