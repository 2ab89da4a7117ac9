"""Names and places through Presidio: a real analyzer over a real, small spaCy pipeline."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otelchain import RedactionPolicyError, Redactor
from otelchain.redaction import names

PEOPLE, PLACES = ["Ada Lovelace", "王小明"], ["Springfield", "Northern Example"]


@pytest.fixture(autouse=True)
def _forget_the_loaded_analyzer() -> Iterator[None]:
    yield
    names._loaded_analyzer.cache_clear()
    names._entities.cache_clear()


def write_configuration(folder: Path, model: str) -> str:
    file = folder / "analyzer.yaml"
    configuration: Any = {
        "supported_languages": ["en"],
        "default_score_threshold": 0,
        "nlp_configuration": {
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": "en", "model_name": model}],
        },
        "recognizer_registry": {
            "supported_languages": ["en"],
            "recognizers": [{"name": "SpacyRecognizer", "type": "predefined"}],
        },
    }
    file.write_text(json.dumps(configuration))  # JSON is YAML
    return str(file)


@pytest.fixture
def _small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = pytest.importorskip("spacy")
    pytest.importorskip("presidio_analyzer")
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns(
        [{"label": "PERSON", "pattern": each} for each in PEOPLE]
        + [{"label": "GPE", "pattern": each} for each in PLACES]
    )
    pipeline.to_disk(tmp_path / "model")
    file = write_configuration(tmp_path, str(tmp_path / "model"))
    monkeypatch.setenv("ANALYZER_CONF_FILE", file)


@pytest.mark.usefixtures("_small_model")
def test_names_and_places_are_replaced_where_a_policy_names_them() -> None:
    redactor = Redactor(detectors=["name", "place", "email"])

    redacted = redactor.value(
        {"text": "Ada Lovelace of Springfield, ada@example.com", "of": ["王小明 said", "nobody"]}
    )

    assert redacted == {
        "text": "[REDACTED:name] of [REDACTED:place], [REDACTED:email]",
        "of": ["[REDACTED:name] said", "nobody"],
    }


@pytest.mark.usefixtures("_small_model")
def test_a_second_pass_over_names_changes_nothing() -> None:
    redactor = Redactor(detectors=["name"])
    once = redactor.text("Ada Lovelace moved to Springfield")

    assert once == "[REDACTED:name] moved to Springfield"
    assert redactor.text(once) == once


def test_the_default_policy_does_not_need_presidio() -> None:
    assert Redactor().text("Ada Lovelace of Springfield") == "Ada Lovelace of Springfield"
    assert names._loaded_analyzer.cache_info().misses == 0


def test_a_policy_with_names_says_how_to_install_presidio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "find_spec", lambda name: None)

    with pytest.raises(RedactionPolicyError, match=r"pip install 'otelchain\[presidio\]'"):
        Redactor(detectors=["name"])


def test_a_model_that_is_missing_is_named_and_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("presidio_analyzer")
    monkeypatch.setenv("ANALYZER_CONF_FILE", write_configuration(tmp_path, "xx_not_there_sm"))

    with pytest.raises(RedactionPolicyError, match="spaCy model 'xx_not_there_sm'"):
        Redactor(detectors=["place"])


def test_a_configuration_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("presidio_analyzer")
    monkeypatch.setenv("ANALYZER_CONF_FILE", "nowhere.yaml")

    with pytest.raises(RedactionPolicyError, match="which is no file"):
        Redactor(detectors=["place"])


@pytest.mark.usefixtures("_small_model")
def test_an_analyzer_that_fails_costs_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor(detectors=["name"])

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Ada Lovelace")

    monkeypatch.setattr(names._analyzer(), "analyze", broken)

    assert redactor.text("Ada Lovelace") == "<redaction failed: name>"
