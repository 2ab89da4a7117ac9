"""The table of collector/README.md on what a value of each type looks like in an answer."""

import json
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from otelchain_collector.answers import as_arrow, as_json

# What the table calls a type → values of it.
_TYPES: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true",),
    "TINYINT … BIGINT, UTINYINT … UBIGINT": (
        "'-9223372036854775808'::BIGINT",
        "18446744073709551615::UBIGINT",
    ),
    "HUGEINT (a `sum` of whole numbers)": (
        "42::HUGEINT",
        "18446744073709551616::HUGEINT",
        "170141183460469231731687303715884105727::HUGEINT",
    ),
    "UHUGEINT": ("42::UHUGEINT",),
    "DECIMAL(p, s)": ("1.50::DECIMAL(9, 2)", "42::DECIMAL(9, 0)"),
    "FLOAT": ("0.1::FLOAT",),
    "DOUBLE": ("1::DOUBLE", "'NaN'::DOUBLE", "'-Infinity'::DOUBLE"),
    "VARCHAR": ("'text'",),
    "JSON": ("""'{"a": 1}'::JSON""",),
    "UUID": ("'4bf92f35-77b3-4da6-a3ce-929d0e0e4736'::UUID",),
    "BLOB": (r"'\xAA\x01'::BLOB",),
    "BIT": ("'101'::BIT",),
    "DATE": ("DATE '2026-11-30'",),
    "TIME": ("TIME '10:00:00'",),
    "TIMESTAMP": ("TIMESTAMP '2026-11-30 10:00:00'", "'infinity'::TIMESTAMP"),
    "TIMESTAMP_NS": ("'2026-11-30 10:00:00.123456789'::TIMESTAMP_NS",),
    "INTERVAL": ("INTERVAL '90 minutes'",),
    "ENUM": ("'a'::ENUM('a', 'b')",),
    "LIST, ARRAY": ("[1, NULL]",),
    "STRUCT": ("{'a': 1}",),
    "MAP": ("MAP {1: 2}",),
    "UNION": ("union_value(a := 1)",),
    "VARIANT": ("1::VARIANT",),
}


def forms(value: str) -> tuple[str, pa.DataType]:
    """Return the JSON and the Arrow type of an SQL value in an answer."""
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT {value} AS v")
        [[shown]] = as_json(relation, 1).rows
        with pa.ipc.open_stream(as_arrow(relation, 1).stream) as reader:
            return json.dumps(shown, allow_nan=False), reader.schema.field(0).type


def table() -> str:
    """Return the table in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| type | in JSON, such as | in Arrow |"
    yield "| --- | --- | --- |"
    for name, values in _TYPES.items():
        found = [forms(value) for value in values]
        shown = ", ".join(dict.fromkeys(f"`{text}`" for text, _ in found))
        kinds = ", ".join(dict.fromkeys(f"`{_name(kind)}`" for _, kind in found))
        yield f"| {name} | {shown} | {kinds} |"


def _name(kind: pa.DataType) -> str:
    """Name a type without the names of its parts, which differ between versions of DuckDB."""
    if pa.types.is_map(kind):
        return f"map<{kind.key_type}, {kind.item_type}>"
    if pa.types.is_list(kind):
        return f"list<{kind.value_type}>"
    return "dictionary of string" if pa.types.is_dictionary(kind) else str(kind)
