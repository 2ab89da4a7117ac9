"""Query: one .sql file, read into its header (header.py) and its statement."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from otelchain_queries.finding import Finding
from otelchain_queries.header import Header, Param, QueryError

__all__ = ["Param", "Query", "QueryError", "parse"]


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
        example: A command line; empty when the file gives none.
        next: What to do with the answer; empty when the file does not say.
        finding: How a row reads as a sentence, for ``otelchain diagnose``; None when rows are no
            findings.
    """

    name: str
    title: str
    description: str
    why: str
    params: tuple[Param, ...]
    sql: str
    example: str = ""
    next: str = ""
    finding: Finding | None = None

    def bind(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return a value for every parameter: the given one, else the default.

        Raises:
            QueryError: A name is not one of the parameters.
        """
        known = [param.name for param in self.params]
        for name in values:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                has = f"it has: {', '.join(known) or 'no parameters'}"
                hint = f"did you mean {near[0]!r}?" if near else has
                raise QueryError(f"{self.name} has no parameter {name!r}; {hint}")
        return {param.name: values.get(param.name, param.default) for param in self.params}


def parse(sql: str, file_name: str) -> Query:
    """Read a query from the text of its file.

    Raises:
        QueryError: The header is wrong; the text names the file and the line of the first mistake,
            and ``problems`` all of them.
    """
    header = Header(sql, file_name)
    if header.problems:
        raise QueryError(*header.problems)
    texts = header.texts
    finding = None
    if "finding" in texts:
        finding = Finding(texts["finding"], int(texts["weight"]))
    return Query(
        name=file_name.removesuffix(".sql").replace("_", "-"),
        title=texts["title"],
        description=texts["description"],
        why=texts["why"],
        params=tuple(header.params.values()),
        sql=sql,
        example=texts.get("example", ""),
        next=texts.get("next", ""),
        finding=finding,
    )
