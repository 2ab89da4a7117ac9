"""What a question may do: read this database, and nothing else.

Three walls, because none is enough alone. DuckDB's parser says whether a text is one SELECT; but
since 2.0 a SELECT may hold an INSERT, so it also runs in a read-only transaction; and a SELECT may
call functions that change the whole process (``enable_logging`` of 1.5 leaves a locked database
unusable), so table functions are allowed by name.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import duckdb

from otelchain_collector.answer import QueryFailed

# In this order: the last one makes the others final, for this process as long as the file is open.
_SETTINGS: Final = (
    # DuckDB takes a Python without a script for a person, and draws on standard output.
    "SET enable_progress_bar = false",
    # Answers must not depend on the time zone of the process that gives them.
    "SET GLOBAL TimeZone = 'UTC'",
    # Otherwise an unknown table name is looked up among the variables of the calling Python code.
    "SET GLOBAL python_enable_replacements = false",
    # So that a join tells the scan which rows it wants: DuckDB 1.5 does so for up to 50 by itself,
    # and for a hundred it reads the payload of all (1.2 million runs: 0.63 s of CPU, now 0.11).
    "SET GLOBAL dynamic_or_filter_threshold = 10000",
    "SET GLOBAL autoinstall_known_extensions = false",
    "SET GLOBAL enable_external_access = false",
    "SET GLOBAL lock_configuration = true",
)

# They compute or describe. Files, the network, settings, checkpoints, logs, and functions that run
# SQL given as text are not here.
# fmt: off
_TABLE_FUNCTIONS: Final = frozenset({
    "duckdb_columns", "duckdb_constraints", "duckdb_databases", "duckdb_dependencies",
    "duckdb_functions", "duckdb_indexes", "duckdb_keywords", "duckdb_memory", "duckdb_schemas",
    "duckdb_settings", "duckdb_tables", "duckdb_types", "duckdb_views", "generate_series",
    "icu_calendar_names", "json_each", "json_tree", "pg_timezone_names", "pragma_collations",
    "pragma_database_size", "pragma_platform", "pragma_show", "pragma_storage_info",
    "pragma_table_info", "pragma_version", "query_table", "range", "repeat", "repeat_row",
    "summary", "unnest",
})
# fmt: on
# sleep_ms holds a reading thread without the work that a time limit could interrupt.
_REFUSED_FUNCTIONS: Final = frozenset({"nextval", "setseed", "setval", "sleep_ms", "write_log"})
_ALSO_WRITES: Final = "only SELECT is allowed; this statement also writes"
_TOO_DEEP: Final = "the statement is nested too deeply; split it with WITH"
_UNWRITABLE: Final = (
    "the statement has a constant that cannot be looked at; write a number of more than 38 digits "
    "as text with a cast"
)
_READING_NODES: Final = frozenset(
    {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
)


def guard(connection: duckdb.DuckDBPyConnection) -> None:
    """Shut files, network, extensions and Python variables for every connection to this database.

    It cannot be undone while the database is open, so set what else must be set before. A second
    call does nothing.
    """
    [(locked,)] = connection.execute("SELECT current_setting('lock_configuration')").fetchall()
    if not locked:
        for setting in _SETTINGS:
            connection.execute(setting)


def check_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Accept one SELECT, or EXPLAIN of one.

    Raises:
        QueryFailed: The text is something else, or calls a function that does more than read.
    """
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryFailed(one_line(error)) from error
    types = [statement.type for statement in statements]
    if types == [duckdb.StatementType.SELECT]:
        check_tree(syntax_tree(connection, sql))
    elif types == [duckdb.StatementType.EXPLAIN]:
        check_sql(connection, _explained(sql))
    else:
        raise QueryFailed(_refusal(types))


def check_tree(tree: dict[str, Any]) -> None:
    """Refuse a SELECT that writes, or calls a function that does more than read.

    Raises:
        QueryFailed: What was found, by name.
    """
    for node in walk(tree):
        kind = str(node.get("type"))
        if kind.endswith("_NODE") and kind not in _READING_NODES:
            raise QueryFailed(_ALSO_WRITES)
        if kind == "TABLE_FUNCTION" and _name(node["function"]) not in _TABLE_FUNCTIONS:
            _refuse(_name(node["function"]))
        if node.get("class") == "FUNCTION" and _name(node) in _REFUSED_FUNCTIONS:
            _refuse(_name(node))


def syntax_tree(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """Parse one SELECT with DuckDB's own parser.

    Raises:
        QueryFailed: It is not one SELECT, or it is nested too deeply to be looked through.
    """
    [(text,)] = connection.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchall()
    try:
        tree: dict[str, Any] = json.loads(text)
    except RecursionError as error:  # DuckDB takes a thousand levels, of which each is several.
        raise QueryFailed(_TOO_DEEP) from error
    except ValueError as error:  # DuckDB 2 in a store that 1.5 can read writes nothing at all.
        raise QueryFailed(_UNWRITABLE) from error
    if tree["error"]:
        raise QueryFailed(_unparsed(one_line(str(tree["error_message"]))))
    return tree


def walk(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of a syntax tree."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def one_line(error: Exception | str) -> str:
    """Return what DuckDB says without the drawing of the statement below it."""
    # What a query says through error() needs no kind.
    said, _, drawing = str(error).removeprefix("Invalid Input Error: ").partition("\n\nLINE ")
    line = drawing.partition(":")[0]
    place = f" (line {line})" if line.isdigit() and line != "1" else ""
    return " ".join(said.split()) + place


def _unparsed(said: str) -> str:
    # DuckDB 1.5 takes some PRAGMAs for the SELECT that they stand for.
    if said.startswith("Only SELECT"):
        return "only SELECT and EXPLAIN are allowed"
    # DuckDB 2 in a store that 1.5 can read, where a plain connection gives the tree.
    return _ALSO_WRITES if said.startswith("Side-effecting CTEs") else said


def _refuse(name: str) -> NoReturn:
    raise QueryFailed(f"function {name!r} is not allowed here: a question may only read")


def _name(function: dict[str, Any]) -> str:
    return str(function.get("function_name", "")).lower()


def _explained(sql: str) -> str:
    """Return the statement after EXPLAIN, ANALYZE and options in parentheses."""
    source = sql.encode()  # DuckDB's offsets count bytes.
    tokens = [
        (offset, source[offset:].split(maxsplit=1)[0].upper())
        for offset, kind in duckdb.tokenize(sql)
        if kind != duckdb.token_type.comment
    ][1:]
    if tokens and tokens[0][1].startswith(b"ANALY"):
        del tokens[0]
    if tokens and tokens[0][1].startswith(b"(") and not _is_select(source[tokens[0][0] :]):
        while tokens and not tokens.pop(0)[1].startswith(b")"):
            pass
    return source[tokens[0][0] :].decode() if tokens else ""


def _is_select(source: bytes) -> bool:
    try:
        (statement,) = duckdb.extract_statements(source.decode())
    except (duckdb.Error, ValueError):
        return False
    return statement.type == duckdb.StatementType.SELECT


def _refusal(types: list[duckdb.StatementType]) -> str:
    names = [kind.name for kind in types]
    if not names:
        return "there is no SQL statement; write one SELECT"
    if names == ["MULTI"] or names == ["CREATE", "SELECT"]:
        return (
            "PIVOT without its values runs several statements; name the values "
            "(PIVOT … ON column IN ('a', 'b')), or write one SELECT"
        )
    if len(names) > 1:
        return f"there are {len(names)} statements; write one SELECT"
    return f"only SELECT and EXPLAIN are allowed, not {names[0]}"
