"""Values for the parameters of a query, checked by its casts (``$name::TYPE``)."""

from collections.abc import Mapping
from typing import Any, Final

import duckdb

from otelchain_collector.answer import QueryFailed
from otelchain_collector.guard import check_tree, syntax_tree, walk

_FORMS: Final = {
    "BIGINT": "a whole number",
    "BOOLEAN": "true or false",
    "DATE": "a date such as 2026-11-30",
    "DOUBLE": "a number",
    "INTEGER": "a whole number",
    "INTERVAL": "a duration such as 5s, 500ms or 2m",
    "TIMESTAMP": "a UTC time such as 2026-11-30T00:00:00Z",
    "TIMESTAMP_NS": "a UTC time such as 2026-11-30T00:00:00Z",
    "UBIGINT": "a whole number that is not negative",
    "UINTEGER": "a whole number that is not negative",
}


# What was found about the text of a query; it is the same at every asking, and takes milliseconds.
_known_casts: dict[str, frozenset[tuple[str, str]]] = {}
_MOST_KNOWN: Final = 500


def checked_casts(connection: duckdb.DuckDBPyConnection, sql: str) -> frozenset[tuple[str, str]]:
    """Return the casts of a query that only reads; raises as `check_tree` does."""
    casts = _known_casts.get(sql)
    if casts is None:
        tree = syntax_tree(connection, sql)
        check_tree(tree)
        if len(_known_casts) >= _MOST_KNOWN:
            _known_casts.clear()
        casts = _known_casts[sql] = casts_in(tree)
    return casts


def check_values(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    casts: frozenset[tuple[str, str]],
    values: Mapping[str, str],
) -> None:
    """Refuse a value that the cast of its parameter would refuse, by the parameter's name.

    Raises:
        QueryFailed: The first such value.
    """
    for name, kind in sorted(casts):
        if kind not in _FORMS or name not in values:
            continue
        fits = f"SELECT TRY_CAST($value AS {kind}) IS NOT NULL"
        if connection.execute(fits, {"value": values[name]}).fetchall() != [(True,)]:
            raise QueryFailed(f"{query}: {name} must be {_FORMS[kind]}, not {values[name]!r}")


def casts_in(tree: Any) -> frozenset[tuple[str, str]]:
    """Return (parameter, type) for each ``$parameter::type``."""
    return frozenset(
        (str(node["child"]["identifier"]), _cast_type(node))
        for node in walk(tree)
        if node.get("class") == "CAST"
        and node.get("child")
        and node["child"]["class"] == "PARAMETER"
    )


def _cast_type(cast: dict[str, Any]) -> str:
    """Return the type of a cast, which DuckDB writes in three ways.

    2.x has the name in ``type_expr``; 1.5 has it in ``cast_type``, as the id, or deeper inside when
    the storage version is 1.5 as well.
    """
    written = cast.get("type_expr") or cast.get("cast_type") or {}
    names = [node["type_name"] for node in walk(written) if "type_name" in node]
    return str(names[0] if len(names) == 1 else written.get("id", "")).upper()
