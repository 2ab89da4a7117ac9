"""A row of an answer → one sentence about it, by the template in the query's header."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_PLACE: Final = re.compile(r"\{([a-z][a-z0-9_]*)(?::([a-z]+))?(?:\|([^{}|]+))?\}")
_NOUNS: Final = ("calls", "evaluations", "steps", "turns")


@dataclass(frozen=True)
class Finding:
    """How a row reads as a finding.

    Args:
        template: A sentence with places such as ``{name}`` for a column as it is, or
            ``{duration_ms:duration}``; the forms are duration (of milliseconds), number, times,
            usd,
            and calls, evaluations, steps or turns, which follow their number.
            ``{error_type|an unknown error}`` has words for NULL.
        weight: 1 to 100; findings of a greater weight come first.
    """

    template: str
    weight: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the sentence names."""
        return tuple(place[1] for place in _PLACE.finditer(self.template))

    def sentence(self, row: Mapping[str, Any]) -> str | None:
        """Return the sentence about a row; None when one of its columns is NULL, or was 0 times.

        So a query decides by a NULL which of its rows are findings.
        """
        for place in _PLACE.finditer(self.template):
            value = row.get(place[1])
            if (value is None and place[3] is None) or (place[2] == "times" and value == 0):
                return None
        return _PLACE.sub(lambda place: _said(place, row.get(place[1])), self.template)


def mistake(template: str) -> str | None:
    """Say what is wrong with a template; None when nothing is."""
    for place in _PLACE.finditer(template):
        if (place[2] or "") not in _FORMS:
            known = ", ".join(form for form in _FORMS if form)
            return f"finding has the unknown form {place[2]!r}; there are: {known}"
    if re.search(r"[{}]", _PLACE.sub("", template)):
        return "finding has a brace that is no place such as {name} or {duration_ms:duration}"
    return None


def _said(place: "re.Match[str]", value: Any) -> str:
    return place[3] if value is None else _FORMS[place[2] or ""](value)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _duration(ms: Any) -> str:
    seconds = float(ms) / 1000
    if seconds < 1:
        return f"{float(ms):.3g} ms"
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _number(value: Any) -> str:
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.3g}"


def _times(value: Any) -> str:
    return {1: "once", 2: "twice"}.get(int(value), f"{int(value):,} times")


def _counted(noun: str) -> Callable[[Any], str]:
    return lambda value: f"{int(value):,} {noun.removesuffix('s') if int(value) == 1 else noun}"


def _usd(value: Any) -> str:
    return f"${float(value):,.2f}" if abs(float(value)) >= 1 else f"${float(value):.2g}"


_FORMS: Final[dict[str, Callable[[Any], str]]] = {
    "": _text,
    "duration": _duration,
    "number": _number,
    "times": _times,
    "usd": _usd,
    **{noun: _counted(noun) for noun in _NOUNS},
}
