"""What a policy finds and where, without the value and without changing anything."""

from __future__ import annotations

from typing import Any, NamedTuple

from otelchain.redaction.place_rules import Above, PlaceRules
from otelchain.redaction.scrubbing import Pass
from otelchain.redaction.tally import Tally


class Found(NamedTuple):
    """One finding.

    Attributes:
        rule: The rule, as it stands in the replacement.
        start: First character, counted from 0 in the text or in the string at ``path``.
        end: The character after the last.
        path: Where in a JSON tree; empty in a plain text. Names in it are redacted.
    """

    rule: str
    start: int
    end: int
    path: str = ""


class Findings(NamedTuple):
    """A value without what was found, what that was, and which rules failed.

    Attributes:
        redacted: The value, as ``Redactor.value`` gives it.
        found: By path, then by place in the text.
        failures: On how many texts each rule failed.
    """

    redacted: Any
    found: list[Found]
    failures: dict[str, int]


def findings_in(rules: PlaceRules, value: Any, key: str) -> Findings:
    """Redact a text or a tree and tell what was found.

    Args:
        rules: The rules of the place.
        value: A text, JSON text too, or a tree.
        key: Key of the attribute.
    """
    finder = _Finder()
    finding = _FindingPass(rules, finder)
    redacted = finding.value(value, finding.root(key))
    found = sorted(finder.places, key=lambda each: (each.path, each.start))
    return Findings(redacted, found, finder.failures)


class _Finder(Tally):
    __slots__ = ("places", "where")

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Found] = []
        self.where = ""

    def found(self, rule: str, start: int, end: int) -> None:
        super().found(rule, start, end)
        self.places.append(Found(rule, start, end, self.where))


class _FindingPass(Pass):
    """Follows the path to each leaf."""

    tally: _Finder

    def leaf(self, leaf: Any, above: Above) -> Any:
        self.tally.where = above.where
        return super().leaf(leaf, above)

    def whole(self, node: Any, above: Above) -> str | None:
        self.tally.where = above.where
        return super().whole(node, above)

    def drops(self, above: Above) -> bool:
        self.tally.where = above.where
        return super().drops(above)

    def below(self, above: Above, name: str, *, is_text: bool) -> Above:
        where = f"{above.where}.{name}" if above.where else name
        return super().below(above._replace(where=""), name, is_text=is_text)._replace(where=where)

    def at(self, above: Above, place: int) -> Above:
        return super().at(above._replace(where=""), place)._replace(where=f"{above.where}[{place}]")
