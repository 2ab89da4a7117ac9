"""The labelled corpus: what the default policy finds in it and what it leaves, per detector."""

from pathlib import Path

import pytest

import corpus_scores
from corpus_scores import SECRETS_AND_CHECKSUMS, Score, scores, texts
from otelchain import Redactor
from otelchain.redaction import policy
from otelchain.redaction.detectors import DEFAULT_RULES

MIN_RECALL, MIN_PRECISION = 0.99, 0.98
DETECTORS = sorted(policy.DETECTORS)


@pytest.fixture(scope="module")
def measured() -> dict[str, Score]:
    return scores(Redactor())


def test_the_corpus_has_positives_and_hard_negatives_of_every_kind() -> None:
    corpus = texts()
    labelled = {name for text in corpus for label in text.labels for name in label.detectors}
    without = [text for text in corpus if not text.labels]

    assert len(corpus) >= 600
    assert labelled == set(DETECTORS)
    assert len(without) >= 300
    assert len({text.source for text in without}) >= 20


def test_the_files_are_what_their_generator_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(corpus_scores.CORPUS))
    import make_corpus  # type: ignore[import-not-found, unused-ignore]

    for name in make_corpus.FILES:
        file = Path(corpus_scores.CORPUS, f"{name}.jsonl")
        assert file.read_text(encoding="utf-8") == make_corpus.lines(name), file.name


def test_no_line_of_the_corpus_is_a_key_by_itself() -> None:
    """A value is in pieces: no scanner of a repository takes it for a live key."""
    keys = Redactor(detectors=["api_key", "private_key", "jwt"])
    lines = [
        line
        for file in corpus_scores.CORPUS.glob("*.jsonl")
        if file.stem != "spellings"  # holds keys in Base64, which is looked into here
        for line in file.read_text(encoding="utf-8").splitlines()
    ]

    # Not as JSON, but as the text that a scanner reads.
    assert [line for line in lines if keys.text(f"- {line}") != f"- {line}"] == []


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_detector_finds_what_is_labelled_for_it(
    detector: str, measured: dict[str, Score]
) -> None:
    score = measured[detector]

    assert score.labelled >= 5
    assert score.recall >= MIN_RECALL, score.missed


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_detector_takes_nothing_else(detector: str, measured: dict[str, Score]) -> None:
    score = measured[detector]

    assert score.precision >= MIN_PRECISION, score.wrong


def test_secrets_and_identifiers_with_check_digits_are_found_together(
    measured: dict[str, Score],
) -> None:
    labelled = sum(measured[name].labelled for name in SECRETS_AND_CHECKSUMS)
    missed = sum(len(measured[name].missed) for name in SECRETS_AND_CHECKSUMS)

    assert 1 - missed / labelled >= MIN_RECALL


def test_every_rule_finds_something_in_the_corpus() -> None:
    redactor = Redactor()
    found = {name for text in texts() for name in corpus_scores.names(redactor.text(text.text))}

    assert {rule.name for rule in DEFAULT_RULES} - found == set()


def test_the_score_sees_what_is_missed_and_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: without the check digit every order number would be a card."""
    nothing = scores(Redactor(detectors=["jwt"]))
    assert nothing["card"].recall == 0
    assert nothing["jwt"].recall == 1

    monkeypatch.setattr("otelchain.redaction.checksums.luhn", lambda digits: True)
    assert scores(Redactor())["card"].precision < MIN_PRECISION
