"""DuckDB's results → values that JSON can carry, exactly and the same on every machine.

Through Arrow, because DuckDB's own Python values drop the nanoseconds of a time.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import duckdb
import pyarrow as pa

from otelchain_collector.answer import JSONValue

# What Arrow has no type for, or not the same in every DuckDB version: DuckDB's own text is taken.
_AS_TEXT: Final = frozenset(
    {
        "bignum",
        "bit",
        "geometry",
        "interval",
        "time",
        "time with time zone",
        "time_ns",
        "tuple",
        "uhugeint",
        "union",
        "variant",
    }
)
_WIDEST_INTEGERS: Final = range(-(2**63), 2**64)
_INFINITE: Final = {2**63 - 1: "infinity", -(2**63 - 1): "-infinity"}
_INFINITE_DAYS: Final = {2**31 - 1: "infinity", -(2**31 - 1): "-infinity"}


def readable(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Cast the columns whose type has no exact Arrow form to text."""
    types = [(str(kind), _readable_type(kind)) for kind in relation.types]
    if all(given == wanted for given, wanted in types):
        return relation
    # By position, since two columns may have one name.
    columns = (
        (f"#{place}" if given == wanted else f"CAST(#{place} AS {wanted})", _quoted(name))
        for place, (name, (given, wanted)) in enumerate(
            zip(relation.columns, types, strict=True), start=1
        )
    )
    return relation.project(", ".join(f"{value} AS {name}" for value, name in columns))


def json_rows(
    batches: Iterable[pa.RecordBatch], *, for_people: bool = False
) -> Iterator[list[JSONValue]]:
    """Yield the rows of a result as lists of JSON values; ``for_people`` as in `json_values`."""
    for batch in batches:
        columns = [json_values(column, for_people=for_people) for column in batch.columns]
        yield from (list(row) for row in zip(*columns, strict=True))


def json_values(array: pa.Array, *, for_people: bool = False) -> list[JSONValue]:
    """Return the values of one Arrow array as JSON values.

    Times become ISO 8601 text in UTC with all their digits, bytes become hexadecimal text, numbers
    that JSON lacks become null, integers beyond 64 bits and decimals become text.

    Args:
        array: The values.
        for_people: Leave NaN and the infinities as they are, which are no JSON.
    """
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _each(array.cast(pa.int64()), _timestamp_text(kind.unit))
    if pa.types.is_date(kind):
        return _each(array.cast(pa.int32()), _date_text)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array, for_people)
    if pa.types.is_map(kind):
        return _maps(array, for_people)
    if pa.types.is_struct(kind):
        return _structs(array, for_people)
    if pa.types.is_dictionary(kind):
        return json_values(array.dictionary_decode(), for_people=for_people)
    if pa.types.is_float32(kind):
        # The shortest text that is this 32-bit number, not the 64-bit number nearest to it.
        number = float if for_people else lambda text: _finite(float(text))
        return _each(array.cast(pa.string()), number)
    if for_people and pa.types.is_floating(kind):
        return _each(array, _unchanged)
    return _each(array, _scalars.get(_family(kind), _unchanged))


def _each(array: pa.Array, convert: Callable[[Any], JSONValue]) -> list[JSONValue]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _lists(array: pa.Array, for_people: bool) -> list[JSONValue]:
    fixed = pa.types.is_fixed_size_list(array.type)
    lengths = [array.type.list_size] * len(array) if fixed else array.value_lengths().to_pylist()
    # flatten() drops what null entries hold, so lengths find the elements again.
    elements = iter(json_values(array.flatten(), for_people=for_people))
    return [
        list(islice(elements, length)) if there else None
        for there, length in zip(array.is_valid().to_pylist(), lengths, strict=True)
    ]


def _maps(array: pa.Array, for_people: bool) -> list[JSONValue]:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys = json_values(array.keys[first:last], for_people=for_people)
    items = json_values(array.items[first:last], for_people=for_people)
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [
        {
            _key(keys[place - first]): items[place - first]
            for place in range(offsets[row], offsets[row + 1])
        }
        if there
        else None
        for row, there in enumerate(valid)
    ]


def _structs(array: pa.Array, for_people: bool) -> list[JSONValue]:
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    columns = [json_values(column, for_people=for_people) for column in array.flatten()]
    valid = array.is_valid().to_pylist()
    rows = zip(*columns, strict=True)
    return [
        dict(zip(names, row, strict=True)) if there else None
        for there, row in zip(valid, rows, strict=True)
    ]


def _key(value: JSONValue) -> str:
    return value if isinstance(value, str) else str(value)


def _timestamp_text(unit: str) -> Callable[[int], str]:
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    per_second = 10**digits

    def text(value: int) -> str:
        if value in _INFINITE:
            return _INFINITE[value]
        seconds, fraction = divmod(value, per_second)
        days, seconds = divmod(seconds, 86_400)
        minutes, second = divmod(seconds, 60)
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
        return f"{_date_text(days)}T{clock}{_fraction(fraction, digits)}Z"

    return text


def _fraction(value: int, digits: int) -> str:
    """Return none, 3, 6 or 9 digits: the fewest that are exact."""
    while digits and value % 1000 == 0:
        value, digits = value // 1000, digits - 3
    return f".{value:0{digits}}" if digits else ""


def _date_text(days: int) -> str:
    if days in _INFINITE_DAYS:
        return _INFINITE_DAYS[days]
    # Howard Hinnant's civil_from_days: datetime ends at the year 9999, DuckDB does not.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04}-{month:02}-{day:02}"


def _finite(value: float) -> JSONValue:
    return value if math.isfinite(value) else None


def _decimal(value: Decimal) -> JSONValue:
    whole = value.as_tuple().exponent == 0
    return int(value) if whole and int(value) in _WIDEST_INTEGERS else format(value, "f")


def _unchanged(value: Any) -> JSONValue:
    return value  # type: ignore[no-any-return]


_scalars: Final[dict[str, Callable[[Any], JSONValue]]] = {
    "float": _finite,
    "decimal": _decimal,
    "binary": lambda value: value.hex(),
}


def _family(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal(kind):
        return "decimal"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary"
    return "plain"


def _readable_type(kind: Any) -> str:
    if kind.id in _AS_TEXT:
        return "VARCHAR"
    if kind.id not in {"list", "array", "struct", "map"}:
        return str(kind)
    parts = [(name, part) for name, part in kind.children]
    if not parts[0][0]:  # row(1, 2), which DuckDB 2 calls a tuple.
        return "VARCHAR"
    if all(_readable_type(part) == str(part) for name, part in parts if name != "size"):
        return str(kind)
    if kind.id == "list":
        return f"{_readable_type(parts[0][1])}[]"
    if kind.id == "array":
        return f"{_readable_type(parts[0][1])}[{parts[1][1]}]"
    if kind.id == "map":
        return f"MAP({_readable_type(parts[0][1])}, {_readable_type(parts[1][1])})"
    fields = (f"{_quoted(name)} {_readable_type(part)}" for name, part in parts)
    return f"STRUCT({', '.join(fields)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
