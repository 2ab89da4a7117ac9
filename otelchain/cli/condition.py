"""``--fail-if``: a condition on an answer → whether it holds.

    condition  = either { OR either }
    either     = single { AND single }
    single     = NOT single | ( condition ) | value comparison value
    value      = number | COUNT | COUNT(column) | MIN(column) | MAX(column) | SUM(column)
               | AVG(column)

COUNT is the number of rows, COUNT(column) of those with a value there. As in SQL, a comparison with
the MIN, MAX, SUM or AVG of nothing is neither true nor false.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from otelchain.cli.cells import is_number
from otelchain.errors import OtelchainError

if TYPE_CHECKING:
    from otelchain_collector.answer import Answer

#: Longest condition, in characters; it also bounds how deep parentheses can be.
MAX_CHARS: Final = 500

Holds = Callable[["Answer"], "bool | None"]
Number = Callable[["Answer"], "Decimal | None"]

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)
      | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
      | "(?P<quoted>(?:[^"]|"")+)"
      | (?P<sign><>|[<>!=]=|[<>=()*])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Final[dict[str, Callable[[Decimal, Decimal], bool]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_AGGREGATES: Final[dict[str, Callable[[list[Decimal]], Decimal]]] = {
    "MIN": min,
    "MAX": max,
    "SUM": lambda values: sum(values, Decimal()),
    "AVG": lambda values: sum(values, Decimal()) / len(values),
}


class ConditionError(OtelchainError):
    """A condition cannot be read, or not be asked of this answer."""


@dataclass(frozen=True)
class Condition:
    """A condition that was read.

    Args:
        text: As it was typed.
        holds_for: Tells of an answer whether it holds; None when that cannot be told.
    """

    text: str
    holds_for: Holds

    def holds(self, answer: "Answer") -> bool:
        """Tell whether it holds.

        Raises:
            ConditionError: A column is not there, or holds no numbers.
        """
        return self.holds_for(answer) is True


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        ConditionError: It is none; the text says where it stops being one.
    """
    if len(text) > MAX_CHARS:
        raise ConditionError(f"the condition is longer than {MAX_CHARS} characters")
    parser = _Parser(text)
    holds = parser.condition()
    parser.end()
    return Condition(text, holds)


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0

    def condition(self) -> Holds:
        found = self._either()
        while self._takes_word("OR"):
            found = _or(found, self._either())
        return found

    def _either(self) -> Holds:
        found = self._single()
        while self._takes_word("AND"):
            found = _and(found, self._single())
        return found

    def _single(self) -> Holds:
        if self._takes_word("NOT"):
            return _not(self._single())
        if self._takes_sign("("):
            found = self.condition()
            self._need_sign(")")
            return found
        left = self._value()
        token = self._token()
        if token.text not in _COMPARISONS or token.kind != "sign":
            raise self._expected("a comparison such as >")
        self._next += 1
        return _compared(_COMPARISONS[token.text], left, self._value())

    def _value(self) -> Number:
        token = self._token()
        self._next += 1
        if token.kind == "number":
            number = Decimal(token.text)
            return lambda _: number
        name = token.text.upper() if token.kind == "word" else ""
        if name == "COUNT":
            return self._count()
        if name in _AGGREGATES:
            self._need_sign("(")
            column = self._column()
            self._need_sign(")")
            return _aggregated(_AGGREGATES[name], column)
        self._next -= 1
        raise self._expected("a number, COUNT, MIN(…), MAX(…), SUM(…) or AVG(…)")

    def _count(self) -> Number:
        if not self._takes_sign("("):
            return lambda answer: Decimal(len(answer.rows))
        if self._takes_sign("*"):
            self._need_sign(")")
            return lambda answer: Decimal(len(answer.rows))
        column = self._column()
        self._need_sign(")")
        return lambda answer: Decimal(len(_present(answer, column)))

    def _column(self) -> str:
        token = self._token()
        if token.kind not in {"word", "quoted"}:
            raise self._expected("the name of a column")
        self._next += 1
        return token.text

    def end(self) -> None:
        if self._token().kind != "end":
            raise self._expected("AND, OR or the end")

    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _takes_word(self, word: str) -> bool:
        token = self._token()
        taken = token.kind == "word" and token.text.upper() == word
        self._next += taken
        return taken

    def _takes_sign(self, sign: str) -> bool:
        token = self._token()
        taken = token.kind == "sign" and token.text == sign
        self._next += taken
        return taken

    def _need_sign(self, sign: str) -> None:
        if not self._takes_sign(sign):
            raise self._expected(repr(sign))

    def _expected(self, what: str) -> ConditionError:
        token = self._token()
        found = "it ends" if token.kind == "end" else f"there is {token.text!r}"
        return ConditionError(
            f"cannot read the condition {self._text!r}: expected {what} at character "
            f"{token.place + 1}, but {found}"
        )


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            place += len(text[place:]) - len(text[place:].lstrip())
            raise ConditionError(
                f"cannot read the condition {text!r}: {text[place]!r} at character {place + 1} "
                "has no meaning there"
            )
        kind = str(match.lastgroup)
        token = match[kind].replace('""', '"') if kind == "quoted" else match[kind]
        found.append(_Token(kind, token, match.start(kind)))
        place = match.end()
    return [*found, _Token("end", "", end)]


def _or(one: Holds, other: Holds) -> Holds:
    def holds(answer: "Answer") -> bool | None:
        both = (one(answer), other(answer))
        return True if True in both else None if None in both else False

    return holds


def _and(one: Holds, other: Holds) -> Holds:
    return _not(_or(_not(one), _not(other)))


def _not(one: Holds) -> Holds:
    def holds(answer: "Answer") -> bool | None:
        held = one(answer)
        return None if held is None else not held

    return holds


def _compared(compare: Callable[[Decimal, Decimal], bool], left: Number, right: Number) -> Holds:
    def holds(answer: "Answer") -> bool | None:
        one, other = left(answer), right(answer)
        return None if one is None or other is None else compare(one, other)

    return holds


def _aggregated(aggregate: Callable[[list[Decimal]], Decimal], column: str) -> Number:
    def number(answer: "Answer") -> Decimal | None:
        values = _present(answer, column)
        kind = answer.columns[_place(answer, column)].type
        if values and not is_number(kind):
            raise ConditionError(f"column {column!r} holds no numbers but {kind}")
        try:
            return aggregate([Decimal(str(value)) for value in values]) if values else None
        except InvalidOperation as error:  # the sum of infinities
            raise ConditionError(f"column {column!r} cannot be counted together") from error

    return number


def _present(answer: "Answer", column: str) -> list[object]:
    place = _place(answer, column)
    return [row[place] for row in answer.rows if row[place] is not None]


def _place(answer: "Answer", column: str) -> int:
    names = [found.name for found in answer.columns]
    if column in names:
        return names.index(column)
    lower = [name.lower() for name in names]
    if column.lower() in lower:
        return lower.index(column.lower())
    near = get_close_matches(column, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(names)}"
    raise ConditionError(f"the answer has no column {column!r}; {hint}")
