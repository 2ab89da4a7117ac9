"""One value of an answer as text, and on which side of its column it stands."""

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otelchain_collector.answer import JSONValue

# fmt: off
_NUMBERS: Final = frozenset({
    "BIGINT", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "SMALLINT", "TINYINT",
    "UBIGINT", "UHUGEINT", "UINTEGER", "USMALLINT", "UTINYINT",
})
# fmt: on


def plain(value: "JSONValue") -> str:
    """Return a value as text: NULL is empty, lists and objects are JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def is_number(kind: str) -> bool:
    """Tell whether a column of this DuckDB type is set to the right."""
    return kind.partition("(")[0] in _NUMBERS
