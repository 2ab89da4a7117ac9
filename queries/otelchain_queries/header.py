"""The ``-- key: value`` lines at the top of a query's file → texts, parameters, mistakes."""

import re
from dataclasses import dataclass
from typing import Final

from otelchain.errors import OtelchainError
from otelchain_queries.finding import mistake

_PARAM: Final = re.compile(r"([a-z][a-z0-9_]*) = ?(.*?) {2,}(\S.*)")
_NEEDED: Final = ("title", "description", "why")
_KEYS: Final = (*_NEEDED, "example", "next", "finding", "weight", "param")
_MAX_WEIGHT: Final = 100


class QueryError(OtelchainError):
    """A query, its header or a parameter is not what it must be.

    Args:
        problems: One line each; the first one is the text of the exception.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(problems[0])
        self.problems = problems


@dataclass(frozen=True)
class Param:
    """One parameter of a query; its type is the cast in the SQL.

    Args:
        name: As in ``$name``.
        default: Text that is bound when the user gives no value; may be empty.
        help: What it does, for ``--help`` and the index.
    """

    name: str
    default: str
    help: str


class Header:
    """The header of a file, with everything that is wrong in it.

    Attributes:
        texts: Key → value, for every key but ``param``.
        params: By name, in the order of the file.
        problems: ``FILE:LINE: what is wrong``, or ``FILE: …`` for a line that is not there.
    """

    def __init__(self, sql: str, file_name: str) -> None:
        self.texts: dict[str, str] = {}
        self.params: dict[str, Param] = {}
        self.problems: list[str] = []
        self._file_name = file_name
        for number, line in enumerate(sql.splitlines(), start=1):
            if not line.startswith("--"):
                break
            self._add(line, number)
        self._look_for_what_is_missing()

    def _add(self, line: str, number: int) -> None:
        key, colon, value = line.removeprefix("--").partition(":")
        key, value = key.strip(), value.strip()
        if not colon or key not in _KEYS:
            keys = [f"'-- {known}:'" for known in _KEYS]
            self._wrong(number, f"expected {', '.join(keys[:-1])} or {keys[-1]}")
        elif key == "param":
            self._add_param(value, number)
        elif key in self.texts:
            self._wrong(number, f"{key} is given twice")
        else:
            self.texts[key] = value
            self._check(key, value, number)

    def _check(self, key: str, value: str, number: int) -> None:
        if not value:
            self._wrong(number, f"{key} is empty")
        elif key == "weight" and not (value.isdecimal() and 0 < int(value) <= _MAX_WEIGHT):
            self._wrong(number, f"weight must be a whole number from 1 to {_MAX_WEIGHT}")
        elif key == "finding" and (wrong := mistake(value)):
            self._wrong(number, wrong)

    def _add_param(self, value: str, number: int) -> None:
        match = _PARAM.fullmatch(value)
        if match is None:
            self._wrong(
                number, "expected '-- param: name = default  help', two spaces before the help"
            )
            return
        param = Param(*match.groups())
        if param.name in self.params:
            self._wrong(number, f"parameter {param.name} is given twice")
        self.params.setdefault(param.name, param)

    def _look_for_what_is_missing(self) -> None:
        missing = [key for key in _NEEDED if key not in self.texts]
        for one, other in (("finding", "weight"), ("weight", "finding")):
            if one in self.texts and other not in self.texts:
                missing.append(other)
        for key in missing:
            self.problems.append(f"{self._file_name}: the header has no '-- {key}:' line")

    def _wrong(self, number: int, what: str) -> None:
        self.problems.append(f"{self._file_name}:{number}: {what}")
