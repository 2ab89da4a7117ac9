"""The Redactor: policies, trees, replacements, and what happens when something goes wrong."""

# ruff: noqa: RUF001 (full-width and other characters are what is tested)
import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from otelchain import RedactionPolicyError, Redactor
from otelchain.redaction import HashKey, detectors, engine, presets, scanner

CARD = "4111111111111111"  # Visa's test number
HASH_KEY = "a key that only the test knows"


# --- trees ---------------------------------------------------------------------------------


def test_a_tree_without_findings_is_given_back_itself() -> None:
    tree = [{"role": "user", "content": "What is the weather in Paris?", "n": 3, "ok": None}]

    assert Redactor().value(tree) is tree


def test_only_the_leaves_with_findings_change() -> None:
    tree = {"role": "user", "parts": ["mail bob@example.com", "hello", 7, 0.5, True, None, {}, []]}

    assert Redactor().value(tree) == {
        "role": "user",
        "parts": ["mail [REDACTED:email]", "hello", 7, 0.5, True, None, {}, []],
    }


def test_the_tree_that_was_passed_is_not_changed() -> None:
    tree = {"a": [{"password": "hunter2"}]}

    Redactor().value(tree)

    assert tree == {"a": [{"password": "hunter2"}]}


def test_the_order_of_entries_stays() -> None:
    redacted = Redactor().value({"z": "bob@example.com", "a": 1, "m": {"y": CARD, "b": 2}})

    assert list(redacted) == ["z", "a", "m"]
    assert list(redacted["m"]) == ["y", "b"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (4111111111111111, "[REDACTED:card]"),
        (4111111111111111.0, "[REDACTED:card]"),
        (13812345678, "[REDACTED:phone]"),
        (360426199101010071, "[REDACTED:cn_resident_id]"),
        (4111111111111112, 4111111111111112),
        (1732924800123, 1732924800123),
        (12, 12),
        (float("inf"), float("inf")),
    ],
)
def test_a_number_that_is_an_identifier_is_replaced(number: float, expected: Any) -> None:
    assert Redactor().value({"n": number}) == {"n": expected}


def test_secrets_in_names_are_replaced_and_no_two_names_become_one() -> None:
    redacted = Redactor().value({"bob@example.com": 1, "eve@example.com": 2, "x": 3})

    assert redacted == {"[REDACTED:email]": 1, "[REDACTED:email]#2": 2, "x": 3}


def test_a_replaced_name_does_not_take_the_place_of_another() -> None:
    redacted = Redactor().value({"bob@example.com": 1, "[REDACTED:email]": 2})

    assert sorted(redacted.values()) == [1, 2]


def test_a_list_two_thousand_levels_deep_is_redacted() -> None:
    tree: Any = ["bob@example.com"]
    for _ in range(2000):
        tree = [tree]

    redacted = Redactor().value(tree)

    for _ in range(2000):
        (redacted,) = redacted
    assert redacted == ["[REDACTED:email]"]


def test_what_is_not_of_a_json_type_is_not_let_through() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    assert Redactor().value({"a": Secret(), "b": b"hunter2", "c": "kept"}) == {
        "a": "<redaction failed: type>",
        "b": "<redaction failed: type>",
        "c": "kept",
    }


def test_names_that_are_not_text_are_kept_or_replaced() -> None:
    assert Redactor().value({1: "a", 4111111111111111: "b"}) == {1: "a", "[REDACTED:card]": "b"}


# --- sensitive names -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "password", "Password", "PASSWD", "db_password", "userPassword", "password2", "pwd",
        "secret", "client_secret", "clientSecret", "CLIENT-SECRET", "token", "access_token",
        "refreshToken", "id_token", "X-Auth-Token", "api_key", "apiKey", "apikey", "API-KEY",
        "x-api-key", "openai_api_key", "OPENAI_API_KEY", "authorization", "Authorization",
        "proxy-authorization", "cookie", "Set-Cookie", "credentials", "private_key",
        "aws_secret_access_key", "AccountKey", "connection_string", "passphrase", "secret_id",
        "db_pass", "session_token", "cvv", "ssn", "jwt", "otp", "auth", "密码", "用户密码",
    ],
)  # fmt: skip
def test_the_value_of_a_sensitive_name_is_replaced(name: str) -> None:
    assert Redactor().value({name: "swordfish"}) == {name: "[REDACTED:secret]"}


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens", "input_tokens", "output_tokens", "total_tokens", "maxTokens", "tokens",
        "token_count", "token_usage", "token_type", "token_ids", "tokenizer", "eos_token",
        "pad_token", "next_page_token", "nextPageToken", "continuation_token",
        "time_per_output_token", "time_to_first_token", "password_policy", "password_length",
        "has_password", "is_secret", "secret_name", "token_url", "token_endpoint", "api_key_env",
        "authorization_url", "cookie_policy", "session_id", "thread_id", "key", "keys", "monkey",
        "primary_key", "passage", "passed", "compass", "secretary", "author", "bypass", "passport",
    ],
)  # fmt: skip
def test_the_value_of_a_harmless_name_stays(name: str) -> None:
    tree = {name: "swordfish"}

    assert Redactor().value(tree) is tree


def test_everything_below_a_sensitive_name_is_replaced_and_its_shape_stays() -> None:
    redacted = Redactor().value({"credentials": {"user": "bob", "pins": [1234, None, True, ""]}})

    assert redacted == {
        "credentials": {
            "user": "[REDACTED:secret]",
            "pins": ["[REDACTED:secret]", None, True, "[REDACTED:secret]"],
        }
    } or redacted == {
        "credentials": {
            "user": "[REDACTED:secret]",
            "pins": ["[REDACTED:secret]", None, True, ""],
        }
    }


def test_own_keys_are_compared_word_by_word() -> None:
    redactor = Redactor(detectors=[], keys=["customer", "X-Internal-Ref"])

    redacted = redactor.value(
        {"customer": "a", "customerName": "b", "x_internal_ref": "c", "customers": "d"}
    )

    assert redacted == {
        "customer": "[REDACTED:secret]",
        "customerName": "[REDACTED:secret]",
        "x_internal_ref": "[REDACTED:secret]",
        "customers": "d",
    }


def test_own_keys_are_found_in_text_too() -> None:
    redactor = Redactor(detectors=[], keys=["customer_no"])

    assert redactor.text("customer-no=4711, n=1") == "customer-no=[REDACTED:secret], n=1"
    assert redactor.text("password=hunter2") == "password=hunter2"


def test_the_token_of_a_log_probability_is_a_piece_of_text() -> None:
    tree = {"content": [{"token": "Hel", "logprob": -0.1}]}

    assert Redactor().value(tree) == tree


def test_a_serialised_langchain_secret_names_a_variable_and_stays() -> None:
    tree = {"openai_api_key": {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}}

    redacted = Redactor().value(tree)

    assert redacted == tree


def test_a_plain_number_under_a_telephone_name_is_a_telephone_number() -> None:
    redacted = Redactor().value(
        {"phone_number": "4155552671", "mobile": 4155552671, "phone_model": "iPhone 15"}
    )

    assert redacted == {
        "phone_number": "[REDACTED:phone]",
        "mobile": "[REDACTED:phone]",
        "phone_model": "iPhone 15",
    }


# --- text ----------------------------------------------------------------------------------


def test_json_text_stays_json_with_numbers_names_and_layout() -> None:
    text = '{"card": 4111111111111111, "price": 1.5, "to": ["bob@example.com"], "é": null}'

    assert Redactor().text(text) == (
        '{"card": "[REDACTED:card]", "price": 1.5, "to": ["[REDACTED:email]"], "é": null}'
    )


def test_json_inside_json_inside_json_is_found_and_stays_json() -> None:
    inner = json.dumps({"password": "hunter2", "n": 1})
    text = json.dumps({"arguments": json.dumps({"payload": inner})})

    redacted = Redactor().text(text)

    payload = json.loads(json.loads(json.loads(redacted)["arguments"])["payload"])
    assert payload == {"password": "[REDACTED:secret]", "n": 1}


def test_an_escaped_character_is_seen_through_in_json_text() -> None:
    text = '{"a": "\\u0062ob\\u0040example.com"}'

    assert json.loads(Redactor().text(text)) == {"a": "[REDACTED:email]"}


def test_text_without_findings_is_given_back_as_it_is() -> None:
    text = '{ "b":1.50,\t"a" : [ 1,2 ] , "t":"line\\nbreak" }'

    assert Redactor().text(text) == text


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "\ud83d\ude00", "\N{PILE OF POO}", "\ufeff"])
def test_odd_characters_neither_break_it_nor_get_lost(odd: str) -> None:
    assert Redactor().text(f"{odd} bob@example.com {odd}") == f"{odd} [REDACTED:email] {odd}"


def test_five_megabytes_are_redacted_to_the_last_character() -> None:
    text = "The quick brown fox, order 12345. " * 150_000 + "bob@example.com"

    redacted = Redactor().text(text)

    assert redacted == text.replace("bob@example.com", "[REDACTED:email]")


def test_overlapping_findings_are_replaced_as_one_named_after_the_first() -> None:
    redactor = Redactor(detectors=[], patterns={"left": "aaabb", "right": "bbccc", "in": "b"})

    assert redactor.text("xaaabbcccx") == "x[REDACTED:left]x"


def test_of_findings_with_one_start_the_longest_gives_the_name() -> None:
    redactor = Redactor(detectors=[], patterns={"short": "aa", "long": "aaa"})

    assert redactor.text("aaa") == "[REDACTED:long]"


def test_of_equal_findings_the_first_in_the_policy_gives_the_name() -> None:
    redactor = Redactor(detectors=[], patterns={"one": "a+", "two": "[a]+"})

    assert redactor.text("aaa") == "[REDACTED:one]"


# --- what the policy can say ---------------------------------------------------------------


def test_a_family_of_detectors_can_be_selected() -> None:
    redactor = Redactor(detectors=["email"])

    assert redactor.text(f"bob@example.com {CARD}") == f"[REDACTED:email] {CARD}"


def test_a_single_rule_can_be_selected() -> None:
    redactor = Redactor(detectors=["us_ssn"])

    assert redactor.text("536-90-4399 15108695088") == "[REDACTED:us_ssn] 15108695088"


def test_no_detectors_means_nothing_is_replaced() -> None:
    tree = {"password": "hunter2", "a": f"bob@example.com {CARD}"}

    assert Redactor(detectors=[]).value(tree) is tree


def test_a_pattern_with_a_group_named_secret_replaces_only_the_group() -> None:
    redactor = Redactor(detectors=[], patterns={"badge": r"badge (?P<secret>[0-9]+)"})

    assert redactor.text("badge 123 and badge 4") == (
        "badge [REDACTED:badge] and badge [REDACTED:badge]"
    )


@pytest.mark.parametrize("pattern", ["^top", r"\Atop", "top$", r"top\z", "(?m)^top$", r"\btop\b"])
def test_a_pattern_may_depend_on_where_a_text_begins_and_ends(pattern: str) -> None:
    redactor = Redactor(detectors=[], patterns={"mine": pattern})

    assert redactor.value(["x", "top", "y"]) == ["x", "[REDACTED:mine]", "y"]


def test_a_pattern_sees_the_text_as_it_is_written() -> None:
    redactor = Redactor(detectors=[], patterns={"mine": "１２"})

    assert redactor.text("１２３") == "[REDACTED:mine]３"


def test_a_pattern_also_sees_json_text_as_it_is_written() -> None:
    redactor = Redactor(patterns={"pair": '"id": (?P<secret>[0-9]+)'})

    assert redactor.text('{"id": 42}') == '{"id": "[REDACTED:pair]"}'


def test_a_callable_runs_on_texts_names_and_numbers() -> None:
    redactor = Redactor(detectors=[], callables=[lambda text: text.replace("7", "*")])

    assert redactor.value({"a7": "b7", "c": 17}) == {"a*": "b*", "c": "1*"}


def test_a_callable_gets_text_from_which_the_rules_removed_secrets() -> None:
    seen = []

    def spy(text: str) -> str:
        seen.append(text)
        return text

    Redactor(callables=[spy]).text("mail bob@example.com")

    assert seen == ["mail [REDACTED:email]"]


# --- replacements --------------------------------------------------------------------------


def test_a_hash_is_the_first_digits_of_the_hmac_of_the_value() -> None:
    redactor = Redactor(action="hash", hash_key=HashKey("key", "k2"))

    # printf 'bob@example.com' | openssl dgst -sha256 -hmac key
    assert redactor.text("bob@example.com") == "[email:k2:b55c2e91fb8602a0]"


def test_equal_values_get_equal_hashes_from_every_redactor_with_the_key() -> None:
    one = Redactor(action="hash", hash_key=HASH_KEY).text(f"a {CARD} b")
    two = Redactor(action="hash", hash_key=HASH_KEY.encode()).value(["4111 1111 1111 1111"])
    other = Redactor(action="hash", hash_key="another key").text(f"a {CARD} b")

    assert one == f"a {two[0]} b"
    assert other != one


def test_a_secret_has_one_hash_in_text_and_under_a_name() -> None:
    redactor = Redactor(action="hash", hash_key=HASH_KEY)

    assert redactor.text("password=hunter2") == (
        "password=" + redactor.value({"password": "hunter2"})["password"]
    )


def test_removal_leaves_nothing_and_drops_sensitive_entries() -> None:
    redactor = Redactor(action="remove")

    assert redactor.value({"password": "hunter2", "a": "to bob@example.com now"}) == {
        "a": "to  now"
    }
    assert redactor.text("password=hunter2 next") == " next"


def test_removal_takes_the_keyword_too_so_that_the_next_value_does_not_slip_under_it() -> None:
    redactor = Redactor(action="remove")

    assert redactor.text("密码 0000 0000 then") == " 0000 then"
    assert redactor.text("SSN 536904399 536904399") == " 536904399"


@pytest.mark.parametrize("action", ["mask", "hash", "remove"])
def test_a_second_pass_changes_nothing(action: Any) -> None:
    redactor = Redactor(action=action, hash_key=HASH_KEY if action == "hash" else None)
    text = (
        f"bob@example.com password=hunter2 next {CARD}, Authorization: Bearer abc12345 "
        "https://u:pw@host/ 密码：abc123 +14155552671 --token abc1234 x"
    )
    once = redactor.value({"password": "x", "t": text, CARD: [4111111111111111]})

    assert redactor.value(once) == once


def test_a_replacement_cannot_be_forged_to_hide_a_secret() -> None:
    redactor = Redactor()

    assert CARD not in redactor.text(f"[REDACTED:{CARD}] [card:{CARD}]")


# --- failing closed ------------------------------------------------------------------------


def test_a_callable_that_raises_costs_the_whole_text() -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    redactor = Redactor(callables=[broken])

    assert redactor.value({"a": "hunter2"}) == {
        "<redaction failed: broken>": "<redaction failed: broken>"
    }


def test_a_callable_that_returns_no_text_costs_the_whole_text() -> None:
    redactor = Redactor(callables=[lambda text: None])  # type: ignore[arg-type, return-value]

    assert redactor.text("hunter2") == "<redaction failed: callable-1>"


def test_a_rule_that_raises_costs_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(match: object) -> bool:
        raise RuntimeError("hunter2")

    monkeypatch.setattr("otelchain.redaction.checksums.is_card", broken)

    assert Redactor().text(f"pay {CARD} now") == "<redaction failed: card>"


def test_a_rule_that_takes_too_long_costs_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 100, 2))
    monkeypatch.setattr(engine.time, "thread_time", lambda: next(ticks))

    assert Redactor().text("to bob@example.com") == "<redaction failed: email>"


def test_an_automaton_out_of_memory_rules_no_rule_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemory:
        def Match(self, text: str) -> None:  # noqa: N802 (RE2's name)
            return None

    monkeypatch.setattr(scanner, "_compiled_set", lambda patterns: OutOfMemory())

    assert Redactor().value(["bob@example.com"]) == ["[REDACTED:email]"]


@pytest.mark.parametrize("tree", [object(), {"a": {1, 2}}, b"x", {("a", "b"): 1}])
def test_no_value_makes_it_raise(tree: Any) -> None:
    Redactor().value(tree)


def test_text_that_is_none_does_not_make_it_raise() -> None:
    assert Redactor().text(None) == "<redaction failed: tree>"  # type: ignore[arg-type]


# --- refused policies ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"detectors": ["emial"]}, "no redaction detector is named 'emial'"),
        ({"detectors": "email"}, "detectors takes a list"),
        ({"patterns": {"mine": "(?<=a)b"}}, "redaction pattern 'mine' cannot be used"),
        ({"patterns": {"mine": r"(a)\1"}}, "invalid escape sequence"),
        ({"patterns": {"mine": "("}}, "missing )"),
        ({"patterns": {"mine": ""}}, "redaction pattern 'mine' is empty"),
        ({"patterns": {"my rule]": "a"}}, "redaction rule name 'my rule]'"),
        ({"patterns": {"mine": 7}}, "must be text"),
        ({"patterns": {"mine": "[a-z]{1001}"}}, "invalid repetition size"),
        ({"keys": "password"}, "keys takes a list"),
        ({"keys": [" "]}, "must be a name"),
        ({"callables": ["upper"]}, "callable 1 is not callable"),
        ({"action": "encrypt"}, "use one of: mask, hash, remove"),
        ({"action": "hash"}, "needs hash_key"),
        ({"action": "hash", "hash_key": ""}, "needs hash_key"),
        ({"action": "hash", "hash_key": 7}, "needs hash_key"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_with_its_reason(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(RedactionPolicyError, match=message.replace("(", r"\(").replace(")", r"\)")):
        Redactor(**arguments)


def test_patterns_too_large_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "MAX_AUTOMATON_BYTES", 20_000)
    patterns = {f"rule{number}": f"(?i)[a-z{number}]{{20}}x" for number in range(6)}

    with pytest.raises(RedactionPolicyError, match="too large together"):
        Redactor(detectors=[], patterns=patterns)


def test_nothing_shows_the_hash_key() -> None:
    assert "only the test knows" not in repr(Redactor(action="hash", hash_key=HASH_KEY))


# --- the default policy as a whole ---------------------------------------------------------


@pytest.mark.parametrize("rule", detectors.DEFAULT_RULES, ids=lambda rule: rule.name)
def test_every_default_rule_compiles(rule: Any) -> None:
    assert scanner.compiled(rule.pattern)
    assert scanner.compiled(rule.first or rule.pattern)


def test_the_documented_families_are_the_ones_there_are() -> None:
    assert set(presets.DETECTORS) == {
        "api_key", "private_key", "jwt", "url_password", "authorization", "cookie", "secret",
        "national_id", "email", "card", "iban", "phone", "ip", "entropy",
    }  # fmt: skip


def test_one_redactor_serves_many_threads() -> None:
    redactor = Redactor()
    wrong = []

    def work(number: int) -> None:
        for turn in range(200):
            text = f"{number}-{turn} bob{number}@example.com"
            if redactor.text(text) != f"{number}-{turn} [REDACTED:email]":
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_importing_redaction_loads_no_engine_and_no_number_tables() -> None:
    code = (
        "import sys, otelchain.redaction as r; r.Redactor(); "
        "print(sorted({'re2', 'phonenumbers', 'stdnum', 'presidio_analyzer'} & set(sys.modules)))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert printed.stdout == "[]\n"
