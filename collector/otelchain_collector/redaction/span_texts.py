"""The first look at a large trace request, in columns: is there anything to redact (for stage).

The texts of 512 spans are gathered by Arrow and scanned as one. What repeats in every span (keys,
names) is scanned once.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from otelchain.redaction.first_look import FirstLook
from otelchain.redaction.trees import number_text
from otelchain_collector.otlp_arrow import FlatSpans, present
from otelchain_collector.redaction.messages import Texts, gather
from otelchain_collector.span_table import pc

_NESTED = {"array_value": ArrayValue, "kvlist_value": KeyValueList}
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_UUID_CHARS = 36
_is_uuid = re.compile(_UUID).match


def spans_are_clean(flat: FlatSpans, look: FirstLook) -> bool:
    """Tell that the policy finds nothing in any span, scope or resource; False when in doubt."""
    gathered: list[pa.Array] = []
    for name, column in _columns(flat.resources):
        if name in _NESTED:
            if not _nested_are_clean(column, _NESTED[name], look):
                return False
            continue
        texts = _texts(name, column)
        if name == "key" and any(map(look.is_named, texts.to_pylist())):
            return False
        gathered.append(_without_uuids(texts) if look.skips_uuids else texts)
    texts = pa.concat_arrays(gathered) if gathered else pa.array([], pa.string())
    joined = _joined(texts)
    if b"\\" not in joined:
        return look.bytes_are_clean(joined, b"")
    has_escape = pc.match_substring(texts, "\\")
    plain, escaped = texts.filter(pc.invert(has_escape)), texts.filter(has_escape)
    return look.bytes_are_clean(_joined(plain), _joined(escaped))


def _columns(array: pa.Array, name: str = "") -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns that hold text, numbers of attributes or nested values, by field name."""
    kind = array.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _columns(array.field(number), kind.field(number).name)
    elif pa.types.is_list(kind):
        yield from _columns(array.flatten(), name)
    elif len(array) and (pa.types.is_string(kind) or name in _ATTRIBUTE_VALUES) and present(array):
        yield name, array.drop_null() if array.null_count else array


_ATTRIBUTE_VALUES = {"int_value", "double_value", "bytes_value", *_NESTED}


def _texts(name: str, column: pa.Array) -> pa.Array:
    if name == "string_value":
        return column
    distinct = column.unique()
    if name == "int_value":
        return distinct.cast(pa.string())
    if name == "double_value":
        return pa.array(map(number_text, distinct.to_pylist()), pa.string())
    if name == "bytes_value":
        texts = (value.decode(errors="replace") for value in distinct.to_pylist())
        return pa.array(texts, pa.string())
    return distinct


def _without_uuids(texts: pa.Array) -> pa.Array:
    has_length = pc.equal(pc.binary_length(texts), _UUID_CHARS)
    if not pc.any(has_length).as_py():
        return texts
    is_uuid = pc.and_(has_length, pc.match_substring_regex(texts, _UUID))
    return texts.filter(pc.invert(is_uuid))


def _nested_are_clean(column: pa.Array, message: Any, look: FirstLook) -> bool:
    try:
        values = [message.FromString(value) for value in column.unique().to_pylist()]
    except DecodeError:
        return False
    gathered = Texts([], set())
    for value in values:
        gather(value, gathered)
    return are_clean(gathered, look)


def are_clean(gathered: Texts, look: FirstLook) -> bool:
    """Tell that the policy finds nothing in what was gathered; False when in doubt."""
    texts, keys = gathered
    if not look.tells or any(map(look.is_named, keys)):
        return False
    if look.skips_uuids:
        texts = [text for text in texts if len(text) != _UUID_CHARS or not _is_uuid(text)]
    return look.is_clean([*texts, *keys])


def _joined(texts: pa.Array) -> bytes:
    """Return the texts in UTF-8, one a line."""
    one_list = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(one_list, "\n")[0].as_buffer().to_pybytes()
    return joined
