"""Databases to export from and to import into, for tests of exchange/."""

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otelchain_collector.answers import answer_sql
from otelchain_collector.decode import Decoded
from otelchain_collector.decoding import _DECODERS
from otelchain_collector.exchange.pages import Ask
from otelchain_collector.signals import SIGNALS, Signal
from otelchain_collector.store import Store
from stored_runs import asked

RECEIVED = 1_796_079_900_000_000_000
TABLES = ("spans", "pending_spans", "logs", "metric_points")


def decoded(signal: Signal, message: Message) -> Decoded:
    return _DECODERS[signal.name](message, RECEIVED)


def insert(store: Store, found: Decoded) -> None:
    store.insert(found.rows)
    store.insert_pending(found.pending)
    store.insert_logs(found.logs)
    store.insert_metric_points(found.metric_points)


def make_database(path: Path, *messages: Message) -> Path:
    """Store requests as the collector does when they come in protobuf."""
    store = Store.open(path)
    for message in messages:
        [signal] = [each for each in SIGNALS if isinstance(message, each.request)]
        found = decoded(signal, message)
        assert found.rejected == []
        insert(store, found)
    store.close()
    return path


def ask_of(store: Store) -> Ask:
    def ask(sql: str) -> list[dict[str, Any]]:
        with store.database.cursor() as cursor:
            answer = answer_sql(cursor, sql, max_rows=100_000)
        names = [column.name for column in answer.columns]
        return [dict(zip(names, row, strict=True)) for row in answer.rows]

    return ask


def contents(database: Path, *without: str) -> dict[str, list[str]]:
    """Return all that is stored but for the time of arrival, each row as text."""
    left_out = ("received_time_unix_nano", *without)
    with duckdb.connect(str(database), read_only=True) as connection:
        found = {}
        for table in TABLES:
            names = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
            kept = [name for name in names if name not in (*left_out, "row_id")]
            # As text, in which NaN equals itself and 1 is not 1.0.
            found[table] = sorted(
                map(repr, connection.execute(f"SELECT {', '.join(kept)} FROM {table}").fetchall())
            )
    return found


def count(database: Path) -> dict[str, int]:
    return {table: len(rows) for table, rows in contents(database).items() if rows}


def export(format_name: str, database: Path, *arguments: str) -> bytes:
    result = asked("export", format_name, "--database", str(database), *arguments)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout


def lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def imported(
    format_name: str, database: Path, *arguments: str, stdin: str | None = None
) -> tuple[int, list[str]]:
    """Import, and return exit code and what was said."""
    result = asked("import", format_name, "--database", str(database), *arguments, stdin=stdin)
    assert result.stdout == b""
    return result.returncode, result.stderr.decode().splitlines()


def write_lines(path: Path, objects: Sequence[Any]) -> Path:
    """Write JSON lines, compressed when the name says so; texts are written as they are."""
    text = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in objects)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


# --- any request ---------------------------------------------------------------------------------

_IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_SFIXED64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: st.integers(0, 2**64 - 1),
}
_SCALARS = st.one_of(
    st.builds(lambda text: AnyValue(string_value=text), st.text(max_size=8)),
    st.builds(lambda number: AnyValue(int_value=number), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda number: AnyValue(double_value=number), st.floats()),
    st.builds(lambda content: AnyValue(bytes_value=content), st.binary(max_size=8)),
    st.builds(lambda truth: AnyValue(bool_value=truth), st.booleans()),
    st.just(AnyValue()),
)
_KEYS = st.sampled_from(["", "a", "a.b", "@bytes", "@double", "@@x", "é", "values"])


def _array(items: list[AnyValue]) -> AnyValue:
    value = AnyValue()
    value.array_value.values.extend(items)
    return value


def _mapping(items: dict[str, AnyValue]) -> AnyValue:
    value = AnyValue()
    value.kvlist_value.values.extend(KeyValue(key=key, value=item) for key, item in items.items())
    return value


any_values = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.builds(_array, st.lists(inner, max_size=3)),
        st.builds(_mapping, st.dictionaries(_KEYS, inner, max_size=3)),
    ),
    max_leaves=6,
)


@st.composite
def requests(draw: st.DrawFn, signal: Signal) -> Message:
    """Return a request with anything in it that the collector can store."""
    message = signal.request()
    _fill(draw, message, 2)
    return message


def _fill(draw: st.DrawFn, message: Any, most: int) -> None:
    chosen = {
        oneof.name: draw(st.sampled_from(list(oneof.fields))).name
        for oneof in message.DESCRIPTOR.oneofs
        if len(oneof.fields) > 1
    }
    for field in message.DESCRIPTOR.fields:
        group = field.containing_oneof
        if group is not None and chosen.get(group.name, field.name) != field.name:
            continue
        _fill_field(draw, message, field, most)


def _fill_field(draw: st.DrawFn, message: Any, field: FieldDescriptor, most: int) -> None:
    name, kind = field.name, field.message_type
    if kind is not None and kind.name == "KeyValue":
        for key, value in draw(st.dictionaries(_KEYS, any_values, max_size=2)).items():
            getattr(message, name).add(key=key, value=value)
    elif kind is not None and kind.name == "AnyValue":
        if draw(st.booleans()):
            getattr(message, name).CopyFrom(draw(any_values))
    elif field.is_repeated and kind is not None:
        for _ in range(draw(st.integers(0, most))):
            _fill(draw, getattr(message, name).add(), most)
    elif field.is_repeated:
        if not draw(st.booleans()):
            return
        getattr(message, name).extend(draw(st.lists(_scalar(message, field), max_size=3)))
    elif kind is not None:
        if draw(st.booleans()):
            getattr(message, name).SetInParent()
            _fill(draw, getattr(message, name), most)
    elif name in _IDS or draw(st.booleans()):
        setattr(message, name, draw(_scalar(message, field)))


def _scalar(message: Any, field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.name in _IDS:
        length = _IDS[field.name]
        return st.binary(min_size=length, max_size=length).filter(any)
    if field.name.endswith("time_unix_nano"):
        return st.integers(0, 2**63 - 2)
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_STRING:
        return st.text(max_size=5)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return st.floats() | st.just(-0.0) | st.just(math.nan)
    return _INTEGERS[field.type]


def same_rows(found: Decoded) -> Iterator[str]:
    """Yield the rows as text, in which NaN equals itself."""
    for rows in (found.rows, found.pending, found.logs, found.metric_points):
        yield from sorted(map(ascii, rows))
