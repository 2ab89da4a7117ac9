"""Query: one .sql file, read into its header and its statement."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_PARAM = re.compile(r"([a-z][a-z0-9_]*) = ?(.*?) {2,}(\S.*)")


class QueryError(Exception):
    """A query, its header or a parameter is not what it must be."""


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


@dataclass(frozen=True)
class Query:
    """A question with its SQL.

    Args:
        name: How it is called on the command line: ``slow-tools`` for slow_tools.sql.
        title: A few words.
        description: What its rows are.
        why: When to ask it.
        params: In the order of the file.
        sql: The whole file; it runs as it is in the DuckDB shell.
    """

    name: str
    title: str
    description: str
    why: str
    params: tuple[Param, ...]
    sql: str

    def bind(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return a value for every parameter: the given one, else the default.

        Raises:
            QueryError: A name is not one of the parameters.
        """
        known = [param.name for param in self.params]
        for name in values:
            if name not in known:
                raise QueryError(
                    f"{self.name} has no parameter {name!r}; "
                    f"it has: {', '.join(known) or 'no parameters'}"
                )
        return {param.name: values.get(param.name, param.default) for param in self.params}


def parse(sql: str, file_name: str) -> Query:
    """Read a query from the text of its file.

    Raises:
        QueryError: The header is wrong; the text names the file and the line.
    """
    header = _Header(file_name)
    for number, line in enumerate(sql.splitlines(), start=1):
        if not line.startswith("--"):
            break
        header.add(line, number)
    return Query(
        name=file_name.removesuffix(".sql").replace("_", "-"),
        title=header.text("title"),
        description=header.text("description"),
        why=header.text("why"),
        params=tuple(header.params.values()),
        sql=sql,
    )


@dataclass
class _Header:
    """The ``-- key: value`` lines at the top of a file."""

    file_name: str
    texts: dict[str, str] = field(default_factory=dict)
    params: dict[str, Param] = field(default_factory=dict)

    def add(self, line: str, number: int) -> None:
        key, colon, value = line.removeprefix("--").partition(":")
        key, value = key.strip(), value.strip()
        if not colon or key not in ("title", "description", "why", "param"):
            raise self._error(
                number, "expected '-- title:', '-- description:', '-- why:' or '-- param:'"
            )
        if key == "param":
            self._add_param(value, number)
        elif not value or key in self.texts:
            raise self._error(number, f"{key} is {'given twice' if value else 'empty'}")
        else:
            self.texts[key] = value

    def _add_param(self, value: str, number: int) -> None:
        match = _PARAM.fullmatch(value)
        if match is None:
            raise self._error(
                number, "expected '-- param: name = default  help', two spaces before the help"
            )
        param = Param(*match.groups())
        if param.name in self.params:
            raise self._error(number, f"parameter {param.name} is given twice")
        self.params[param.name] = param

    def text(self, key: str) -> str:
        if key not in self.texts:
            raise QueryError(f"{self.file_name}: the header has no '-- {key}:' line")
        return self.texts[key]

    def _error(self, number: int, what: str) -> QueryError:
        return QueryError(f"{self.file_name}:{number}: {what}")
