"""A policy as a file: what it says is done, and a file that cannot be used stops everything."""

# ruff: noqa: E501 (a table of cases reads best with one case a line)
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

import otelchain.provider
from fakes import FakeRetriever
from otelchain import OtelCallbackHandler, RedactionPolicyError, Redactor, configure, instrument
from otelchain.instrumentation import OtelchainInstrumentor, _installed, uninstrument
from otelchain.redaction.loading import load
from otelchain.redaction.places import content_place, foreign_place

KEY = "0123456789abcdef-only-for-tests"
CARD = "4111 1111 1111 1111"  # Visa's test number
EXAMPLE = Path(__file__).parent.parent / "deploy" / "redaction.toml"

Write = Callable[[str], Path]


@pytest.fixture(name="write")
def _write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "redaction.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def mark(text: str) -> str:
    """A function that a policy file names."""
    return text.replace("Bob", "[a name]")


# --- what a file can say -------------------------------------------------------------------


def test_an_empty_file_is_the_default_policy(write: Write) -> None:
    text = f"bob@example.com {CARD} password=hunter2"

    assert Redactor.from_file(write("")).text(text) == Redactor().text(text)


def test_a_file_starts_from_a_preset_and_changes_it(write: Write) -> None:
    path = write('preset = "secrets"\n[[rules]]\ndetectors = ["email"]\naction = "remove"\n')

    assert Redactor.from_file(path).text(f"<bob@example.com> {CARD} password=hunter2") == (
        f"<> {CARD} password=[REDACTED:secret]"
    )


def test_a_callable_is_named_by_module_and_function(write: Write) -> None:
    path = write(f'[[rules]]\ncallable = "{__name__}:mark"\n')

    assert Redactor.from_file(path).value(["Bob said"]) == ["[a name] said"]


def test_the_example_does_what_its_comments_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION_KEY", KEY)
    redactor = Redactor.from_file(EXAMPLE)
    metadata = {
        "customer": {"tier": "gold", "name": "Bob", "pets": ["Rex"]},
        "mail": "bob@example.com",
        "accountNo": "4711",
        "ref": "TICKET-12345",
    }

    redacted = redactor.at(content_place("otelchain.metadata")).value(metadata)

    assert redacted["customer"] == {"tier": "gold"}
    assert redacted["mail"].startswith("[email:k1:")
    assert redacted["accountNo"].startswith("[account:k1:")
    assert redacted["ref"] == "TICKET-[REDACTED:ticket]"
    assert redactor.text(CARD) != redactor.at(content_place("otelchain.output")).text(CARD)
    assert redactor.at(content_place("otelchain.output")).text(CARD) == "[card:***1111]"
    query = redactor.at(content_place("gen_ai.retrieval.query.text")).text("where is Bob")
    assert query.startswith("[withheld: 12 bytes, k1:")


# --- keys of hashes ------------------------------------------------------------------------

HASH_EMAILS = '[[rules]]\ndetectors = ["email"]\naction = "hash"\n'


def test_the_key_comes_from_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION_KEY", KEY)
    monkeypatch.setenv("MY_KEY", KEY + KEY)
    default = Redactor.from_file(write(HASH_EMAILS)).text("bob@example.com")
    own = Redactor.from_file(write(f'[hash]\nkey_env = "MY_KEY"\n{HASH_EMAILS}'))

    assert default.startswith("[email:k")
    assert own.text("bob@example.com") != default


def test_the_key_comes_from_a_file_beside_the_policy(write: Write, tmp_path: Path) -> None:
    tmp_path.joinpath("secret.key").write_text(f"{KEY}\n")
    path = write(f'[hash]\nkey_file = "secret.key"\nkey_id = "k7"\n{HASH_EMAILS}')

    assert Redactor.from_file(path).text("bob@example.com").startswith("[email:k7:")


def test_after_a_rotation_old_tokens_stay_and_new_ones_carry_the_new_id(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION_KEY", KEY)
    old = Redactor.from_file(write(HASH_EMAILS)).text("bob@example.com")
    monkeypatch.setenv("OTELCHAIN_REDACTION_KEY", KEY[::-1])
    rotated = Redactor.from_file(write(HASH_EMAILS))

    redacted = rotated.text(f"{old} bob@example.com")

    kept, _, new = redacted.partition(" ")
    assert kept == old
    assert new.split(":")[1] != old.split(":")[1]
    assert rotated.text(redacted) == redacted


# --- files that are refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset = ", "no TOML: "),
        ('preset = "strikt"', "no redaction preset is named 'strikt'; did you mean 'strict'?"),
        ('presets = "strict"', "no redaction setting is named 'presets'; did you mean 'preset'?"),
        ("preset = 7", "preset must be text, got 7"),
        ('action = "keep"', "no redaction action is named 'keep'"),
        ("time_budget_ms = 0", "time_budget_ms must be a whole number from 1"),
        ('time_budget_ms = "5s"', "time_budget_ms must be a whole number, got '5s'"),
        ("rules = 5", "rules must be a list"),
        ("rules = [5]", "rule 1: [[rules]] must be a table, got 5"),
        ("[[rules]]", "rule 1: a rule needs exactly one of"),
        ('[[rules]]\ndetectors = "email"', "rule 1: detectors must be a list, got 'email'"),
        ('[[rules]]\ndetectors = [5]', "rule 1: detectors: 5 must be a name"),
        ('[[rules]]\ndetector = ["email"]', "rule 1: no redaction rule setting is named 'detector'; did you mean 'detectors'?"),
        ('[[rules]]\ndetectors = ["emial"]', "rule 1: no redaction detector is named 'emial'; did you mean 'email'?"),
        ('[[rules]]\nname = "t"\npattern = "("', "rule 1 ('t'): redaction pattern 't' cannot be used: missing )"),
        ('[[rules]]\nname = "t"\npattern = "(?=a)"', "rule 1 ('t'): redaction pattern 't' cannot be used"),
        ('[[rules]]\nname = "t"\npatern = "a"', "rule 1 ('t'): no redaction rule setting is named 'patern'; did you mean 'pattern'?"),
        ('[[rules]]\nname = "t"\nkeys = ["a"]\n[[rules]]\nname = "t"\nkeys = ["b"]', "rule 2 ('t'): another rule is named 't' too"),
        ('[[rules]]\nname = "t"\npaths = ["a["]', "rule 1 ('t'): path 'a[' cannot be read from '['"),
        ('[[rules]]\ndetectors = ["email"]\nplaces = ["tag"]', "rule 1: no redaction place is named 'tag'; did you mean 'tags'?"),
        ('[[rules]]\ncallable = "no_such_module:f"', "rule 1: callable 'no_such_module:f' cannot be imported: ModuleNotFoundError"),
        ('[[rules]]\ncallable = "json:no_such"', "cannot be imported: AttributeError"),
        ('[[rules]]\ncallable = "json"', "callable must be written module:function, got 'json'"),
        ('[[rules]]\ncallable = "json:__name__"', "callable 'json:__name__' is not callable"),
        (HASH_EMAILS, 'action "hash" needs hash_key'),
        ('[hash]\nkey_env = "NO_SUCH_KEY"', "[hash] key_env: the variable NO_SUCH_KEY is not set"),
        ('[hash]\nkey_file = "no.key"', "no.key: No such file or directory"),
        ('[hash]\nkey = "abc"', "no redaction [hash] setting is named 'key'"),
        ('[hash]\nkey_file = "a"\nkey_env = "B"', "key_file and key_env; one of them is enough"),
        ('[hash]\nkey_id = "1"', "key_id '1' must be a letter"),
        ('[hash]\nkey_id = ""', "key_id '' must be a letter"),
        ("hash = 5", "hash must be a table, got 5"),
        ("x" * 1_048_577, "larger than 1048576 bytes"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_file_rule_and_reason(
    text: str, message: str, write: Write
) -> None:
    path = write(text)

    with pytest.raises(RedactionPolicyError) as refused:
        Redactor.from_file(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_a_key_that_is_too_short_is_refused_and_not_shown(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION_KEY", "swordfish")

    with pytest.raises(RedactionPolicyError, match="holds 9 bytes") as refused:
        Redactor.from_file(write(HASH_EMAILS))

    assert "swordfish" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RedactionPolicyError, match=r"missing.toml: cannot be read: No such file"):
        load(str(tmp_path / "missing.toml"))


def test_what_is_neither_a_file_nor_a_preset_is_refused_with_a_guess() -> None:
    with pytest.raises(RedactionPolicyError, match="did you mean 'strict'"):
        load("strcit")


# --- the handler, configure() and instrument() read it ---------------------------------------


def inputs(finished_spans: Any) -> list[str]:
    return [str(span.attributes.get("otelchain.input")) for span in finished_spans.all()]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", '"I am Bob, [REDACTED:email]"'),
        ("secrets", '"I am Bob, bob@example.com"'),
        ("strict", '"[withheld: 25 bytes]"'),
        ("off", '"I am Bob, bob@example.com"'),
    ],
)
def test_the_variable_names_the_handlers_preset(
    source: str,
    expected: str,
    tracer_provider: Any,
    finished_spans: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION", source)
    handler = OtelCallbackHandler(tracer_provider)

    RunnableLambda(str).invoke("I am Bob, bob@example.com", {"callbacks": [handler]})

    assert inputs(finished_spans) == [expected]


def test_the_variable_names_the_handlers_file(
    write: Write, tracer_provider: Any, finished_spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        '[[rules]]\nname = "c"\npaths = ["metadata.customer"]\n'
        '[[rules]]\ndetectors = ["email"]\nplaces = ["tags"]\naction = "keep"\n'
    )
    monkeypatch.setenv("OTELCHAIN_REDACTION", str(path))
    config: Any = {
        "callbacks": [OtelCallbackHandler(tracer_provider)],
        "metadata": {"customer": {"name": "Bob"}, "n": 1},
        "tags": ["bob@example.com"],
    }

    RunnableLambda(str).invoke({"customer": "bob@example.com"}, config)

    (span,) = finished_spans.all()
    metadata = json.loads(span.attributes["otelchain.metadata"])
    assert metadata["customer"] == {"name": "[REDACTED:c]"}
    assert metadata["n"] == 1
    assert span.attributes["otelchain.tags"] == ("bob@example.com",)
    assert json.loads(span.attributes["otelchain.input"]) == {"customer": "[REDACTED:email]"}


def test_with_a_bad_policy_there_is_no_handler_and_no_provider(
    write: Write, tracer_provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION", str(write('[[rules]]\ndetectors = ["emial"]')))

    for make in (
        lambda: OtelCallbackHandler(tracer_provider),
        lambda: configure("app", "http://127.0.0.1:9", set_global=False),
        lambda: instrument(tracer_provider=tracer_provider),
    ):
        with pytest.raises(RedactionPolicyError, match=r"redaction.toml: rule 1: .*emial"):
            make()
    assert otelchain.provider._configured is None
    assert _installed.handler is None


def test_with_a_bad_policy_opentelemetry_instrument_traces_nothing_and_says_why_once(
    write: Write,
    tracer_provider: Any,
    finished_spans: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION", str(write('[[rules]]\ndetectors = ["emial"]')))

    with caplog.at_level(logging.WARNING, "otelchain"):
        OtelchainInstrumentor().instrument(tracer_provider=tracer_provider)
    try:
        answer = RunnableLambda(str).invoke("hunter2")
    finally:
        uninstrument()

    assert answer == "hunter2"
    assert finished_spans.all() == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "redaction.toml: rule 1: no redaction detector is named 'emial'" in caplog.text


def test_an_argument_wins_over_the_variable(
    write: Write, tracer_provider: Any, finished_spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION", "strict")
    handler = OtelCallbackHandler(tracer_provider, redactor=Redactor())

    RunnableLambda(str).invoke("I am Bob", {"callbacks": [handler]})

    assert inputs(finished_spans) == ['"I am Bob"']


def test_strict_tells_the_whole_size_of_a_text_that_would_be_cut(
    tracer_provider: Any, finished_spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION", "strict")
    config: Any = {"callbacks": [OtelCallbackHandler(tracer_provider)]}

    RunnableLambda(lambda text: None).invoke("x" * 5_000_000, config)

    assert inputs(finished_spans) == ['"[withheld: 5000000 bytes]"']


def test_a_path_reaches_a_place_in_a_list_of_texts(
    write: Write, tracer_provider: Any, finished_spans: Any
) -> None:
    path = write('[[rules]]\nname = "t"\npaths = ["tags[1]"]\n')
    handler = OtelCallbackHandler(tracer_provider, redactor=Redactor.from_file(path))

    RunnableLambda(str).invoke("x", {"callbacks": [handler], "tags": ["a", "Bob"]})

    (span,) = finished_spans.all()
    assert span.attributes["otelchain.tags"] == ("a", "[REDACTED:t]")


def test_strict_keeps_what_no_user_wrote(
    tracer_provider: Any, finished_spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_REDACTION", "strict")
    documents = [Document("Bob lives here", id="d1", metadata={"owner": "Bob"})]
    config: Any = {
        "callbacks": [OtelCallbackHandler(tracer_provider)],
        "metadata": {"customer": "Bob", "ls_model_name": "m"},
        "tags": ["Bob", "seq:step:1"],
    }

    FakeRetriever(documents=documents).invoke("where is Bob", config)

    (span,) = finished_spans.all()
    attributes = dict(span.attributes)
    (document,) = json.loads(attributes["gen_ai.retrieval.documents"])
    assert document["id"] == "d1"
    assert json.loads(attributes["otelchain.metadata"])["ls_model_name"] == "m"
    assert attributes["otelchain.tags"] == ("seq:step:1",)
    assert attributes["gen_ai.retrieval.query.text"] == "[withheld: 12 bytes]"
    assert "Bob" not in str(attributes)


def test_the_handler_counts_what_was_found_and_what_failed(tracer_provider: Any) -> None:
    def broken(text: str) -> str:
        if "Bob" in text:
            raise ValueError(text)
        return text

    handler = OtelCallbackHandler(tracer_provider, redactor=Redactor(callables=[broken]))
    for question in ("I am Bob", "bob@example.com"):
        RunnableLambda(str).invoke(question, {"callbacks": [handler]})

    stats = handler.stats()
    assert stats.redacted == {"email": 2}  # input and output
    assert stats.redaction_failures == {"broken": 2}


# --- places of foreign spans -----------------------------------------------------------------


def test_strict_shows_of_a_foreign_span_only_what_is_known_to_be_no_content() -> None:
    redactor = Redactor(preset="strict")
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.0.content": "I am Bob",
        "input.value": "I am Bob",
        "http.url": "https://example.com/?name=Bob",
        "my.own": "I am Bob",
        "exception.message": "no Bob",
        "service.version": "1",
    }

    shown = {key: redactor.at(foreign_place(key)).text(text) for key, text in attributes.items()}

    assert shown["gen_ai.operation.name"] == "chat"
    assert "Bob" not in str(shown)
