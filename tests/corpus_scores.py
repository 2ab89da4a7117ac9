"""The labelled corpus (tests/corpus) against a redactor: what it misses, what it takes wrongly."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from otelchain import Redactor
from otelchain.redaction import policy
from otelchain.redaction.detectors import DEFAULT_RULES, PERSONAL_FAMILIES

CORPUS = Path(__file__).parent / "corpus"
SECRETS_AND_CHECKSUMS = frozenset(policy.DETECTORS) - {"email", "phone", "ip"}
_MASK = re.compile(r"\[REDACTED:([\w.\-]+)\]")
_FAMILY = {rule.name: rule.family for rule in DEFAULT_RULES} | {"secret": "secret"}
_SLACK_CHARS = 3  # a quote or a bracket more is no harm


class Labelled(NamedTuple):
    """Characters of a text and the detectors (any of them) that have to find them."""

    start: int
    end: int
    detectors: tuple[str, ...]


class Text(NamedTuple):
    """One entry of the corpus."""

    text: str
    labels: list[Labelled]
    source: str
    file: str


@dataclass
class Score:
    """Counts of one detector."""

    labelled: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return 1 - len(self.missed) / self.labelled if self.labelled else 1.0

    @property
    def precision(self) -> float:
        return 1 - len(self.wrong) / self.found if self.found else 1.0


def texts() -> list[Text]:
    """Read the corpus."""
    return [
        text(json.loads(line), path.stem)
        for path in sorted(CORPUS.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def text(entry: dict[str, object], file: str) -> Text:
    """Put an entry of the corpus together."""
    whole, labels = "", []
    for part in entry["parts"]:  # type: ignore[attr-defined]
        if isinstance(part, str):
            whole += part
            continue
        value = "".join(part["pieces"])
        labels.append(Labelled(len(whole), len(whole) + len(value), tuple(part["is"].split())))
        whole += value
    return Text(whole, labels, str(entry["source"]), file)


def names(redacted: str) -> list[str]:
    """Give the rules of the masks in a text."""
    return _MASK.findall(redacted)


def found(original: str, redacted: str) -> list[Labelled]:
    """Give the characters that masks stand for, with their detector."""
    kept = _MASK.split(redacted)[::2]
    match = re.fullmatch("(?s)" + "(.+?)".join(map(re.escape, kept)), original)
    assert match is not None, "more than the masks differs"
    return [
        Labelled(*match.span(number), (_FAMILY[name],))
        for number, name in enumerate(names(redacted), 1)
    ]


def scores(redactor: Redactor, corpus: list[Text] | None = None) -> dict[str, Score]:
    """Run the corpus, or another one.

    A finding must cover its label, be of its detector, and take little more.
    """
    result: dict[str, Score] = defaultdict(Score)
    for original, labels, source, file in texts() if corpus is None else corpus:
        redacted = redactor.text(original)
        findings = found(original, redacted)
        example = f"{file}, {source}: {original!r} -> {redacted!r}"
        for label in labels:
            by = [each for each in findings if each.start <= label.start and label.end <= each.end]
            by_name = [name for each in by for name in each.detectors if name in label.detectors]
            score = result[(by_name or label.detectors)[0]]
            score.labelled += 1
            if not by_name:
                score.missed.append(example)
        for start, end, (detector,) in findings:
            result[detector].found += 1
            wanted = [
                label
                for label in labels
                if detector in label.detectors
                and start <= label.start + _SLACK_CHARS
                and label.start - _SLACK_CHARS <= start
                and abs(end - label.end) <= _SLACK_CHARS
            ]
            if not wanted:
                result[detector].wrong.append(example)
    return dict(sorted(result.items()))


def table(measured: dict[str, Score]) -> str:
    """Write scores as a table in Markdown."""
    rows = [
        f"| `{name}` | {_PRESET[name in PERSONAL_FAMILIES]} | {score.labelled} | "
        f"{score.recall:.3f} | {score.precision:.3f} |"
        for name, score in measured.items()
    ]
    head = [
        "| detector | preset | values | recall | precision |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    return "\n".join(head + rows)


_PRESET = {False: "secrets", True: "personal"}
