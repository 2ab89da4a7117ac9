"""A query's file → everything that is wrong with it, tried out on an empty database."""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import duckdb

from otelchain_collector.answer import QueryFailed
from otelchain_collector.guard import check_tree, guard, one_line, syntax_tree
from otelchain_collector.query_values import casts_in, check_values
from otelchain_collector.schema import migrate
from otelchain_queries import Query, QueryError, parse

_LINE: Final = re.compile(r"\n\nLINE (\d+):")


def problems(text: str, file_name: str) -> list[str]:
    """Return one line for each mistake, ``FILE:LINE: what is wrong`` where the line is known.

    Args:
        text: The whole file.
        file_name: How the problems name it.
    """
    try:
        query = parse(text, file_name)
    except QueryError as error:
        return list(error.problems)
    with duckdb.connect() as connection:
        migrate(connection)
        guard(connection)
        return list(_problems(connection, query, file_name))


def _problems(connection: duckdb.DuckDBPyConnection, query: Query, file_name: str) -> Iterator[str]:
    try:
        yield from _tried(connection, query, file_name)
    except duckdb.Error as error:
        yield _placed(error, file_name)
    except QueryFailed as error:
        yield f"{file_name}: {error}"


def _tried(connection: duckdb.DuckDBPyConnection, query: Query, file_name: str) -> Iterator[str]:
    statements = connection.extract_statements(query.sql)
    if len(statements) != 1:
        yield f"{file_name}: there must be one SELECT; there are {len(statements)} statements"
        return
    tree = syntax_tree(connection, query.sql)
    check_tree(tree)
    wrong = list(_parameters(statements[0].named_parameters, query, file_name))
    if wrong:
        yield from wrong
        return
    check_values(connection, PurePath(query.name).name, casts_in(tree), query.bind({}))
    answer = connection.execute(query.sql, query.bind({}) or None)
    columns = [column[0] for column in answer.description or ()]
    answer.fetchall()
    for column in query.finding.columns if query.finding else ():
        if column not in columns:
            yield f"{file_name}: finding names {{{column}}}, which is no column of the answer"


def _parameters(used: set[str], query: Query, file_name: str) -> Iterator[str]:
    declared = {param.name for param in query.params}
    for name in sorted(used - declared):
        line = next(
            number
            for number, text in enumerate(query.sql.splitlines(), start=1)
            if f"${name}" in text and not text.startswith("--")
        )
        yield f"{file_name}:{line}: ${name} is not declared; add a line '-- param: {name} = …  …'"
    for name in sorted(declared - used):
        yield f"{file_name}: parameter {name} is declared and not used"


def _placed(error: duckdb.Error, file_name: str) -> str:
    line = _LINE.search(str(error))
    place = f":{line[1]}" if line else ""
    said = one_line(error).removesuffix(f" (line {line[1]})" if line else "")
    return f"{file_name}{place}: {said}"
