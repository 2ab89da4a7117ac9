"""Names of people and places, found by Presidio: the extra ``otelchain[presidio]``.

No shape tells a name, so a language model has to read the whole text: 30 ms for 1 KB, where all
other detectors together need 3 µs. These detectors (``name``, ``place``) are therefore in no
preset; a policy that names them has them. Languages and models are in Presidio's own configuration
file, named by Presidio's own variable ``ANALYZER_CONF_FILE``; without one it is English with
``en_core_web_lg``. Nothing is downloaded. A text without a capital letter and without letters of a
script that has no capitals is not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.rules import Match, Rule, Span

CONFIGURATION_VARIABLE = "ANALYZER_CONF_FILE"
_ENTITIES = {"name": "PERSON", "place": "LOCATION"}
_MIN_SCORE = 0.5
_loading = Lock()


def check_installed() -> None:
    """Refuse a policy that would need what is not here; loads Presidio, but no model (1 s).

    Raises:
        RedactionPolicyError: Presidio, its configuration file or a model is missing.
    """
    if find_spec("presidio_analyzer") is None:
        raise RedactionPolicyError(
            "the detectors name and place need Presidio: pip install 'otelchain[presidio]'"
        )
    for model in _models(_provider().configuration):
        if not Path(model).exists() and find_spec(model) is None:
            raise RedactionPolicyError(
                f"the detectors name and place need the spaCy model {model!r}: install it with "
                f"'python -m spacy download {model}', or name another one in the Presidio "
                f"configuration file that {CONFIGURATION_VARIABLE} names"
            )


def _provider() -> Any:
    from presidio_analyzer import AnalyzerEngineProvider

    file = os.environ.get(CONFIGURATION_VARIABLE)
    if file and not Path(file).is_file():
        raise RedactionPolicyError(f"{CONFIGURATION_VARIABLE} names {file!r}, which is no file")
    try:
        return AnalyzerEngineProvider(analyzer_engine_conf_file=file)
    except ValueError as error:
        raise RedactionPolicyError(f"{file}: no configuration of Presidio: {error}") from error


def _models(configuration: dict[str, Any]) -> list[str]:
    """Give the spaCy models that Presidio would otherwise try to download."""
    nlp = configuration.get("nlp_configuration", {"models": [{"model_name": "en_core_web_lg"}]})
    if nlp.get("nlp_engine_name", "spacy") != "spacy":
        return []
    return [str(model["model_name"]) for model in nlp.get("models", [])]


@lru_cache(maxsize=1)
def _loaded_analyzer() -> Any:
    return _provider().create_engine()


def _analyzer() -> Any:
    with _loading:  # seconds, and only once
        return _loaded_analyzer()


# One reading serves both detectors, and texts repeat.
@lru_cache(maxsize=256)
def _entities(text: str) -> tuple[tuple[str, Span], ...]:
    analyzer = _analyzer()
    return tuple(
        (found.entity_type, Span(found.start, found.end))
        for language in analyzer.supported_languages
        for found in analyzer.analyze(
            text, language, entities=list(_ENTITIES.values()), score_threshold=_MIN_SCORE
        )
    )


def _find(entity: str) -> Callable[[Match], Iterator[Span]]:
    def find(match: Match) -> Iterator[Span]:
        for kind, span in _entities(match.string):
            if kind == entity:
                yield span

    return find


NAME_RULES = [
    Rule(
        family,
        family,
        r"(?s)\A.*[\p{Lu}\p{Lo}].*\z",
        _find(entity),
        first=r"[\p{Lu}\p{Lo}]",
        folded=False,
        anchored=True,
    )
    for family, entity in _ENTITIES.items()
]
