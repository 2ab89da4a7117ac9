"""AnyValue to JSON: the table in collector/README.md, case by case."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from otelchain_collector.anyvalue import attributes_of, to_json, value_of
from otlp_requests import rebuilt

every_kind = pytest.mark.parametrize(
    ("value", "expected"),
    [
        (AnyValue(string_value="héllo"), '"héllo"'),
        (AnyValue(string_value=""), '""'),
        (AnyValue(bool_value=True), "true"),
        (AnyValue(bool_value=False), "false"),
        (AnyValue(int_value=0), "0"),
        (AnyValue(int_value=2**63 - 1), "9223372036854775807"),
        (AnyValue(int_value=-(2**63)), "-9223372036854775808"),
        (AnyValue(double_value=1.0), "1.0"),
        (AnyValue(double_value=0.0), "0.0"),
        (AnyValue(double_value=math.nan), '{"@double":"NaN"}'),
        (AnyValue(double_value=math.inf), '{"@double":"Infinity"}'),
        (AnyValue(double_value=-math.inf), '{"@double":"-Infinity"}'),
        (AnyValue(bytes_value=b"\x00\xff"), '{"@bytes":"AP8="}'),
        (AnyValue(bytes_value=b""), '{"@bytes":""}'),
        (AnyValue(array_value=ArrayValue()), "[]"),
        (AnyValue(kvlist_value=KeyValueList()), "{}"),
        (AnyValue(), "null"),
        (AnyValue(string_value_strindex=3), "null"),
    ],
)


@every_kind
def test_every_kind_of_value_has_its_own_json(value: AnyValue, expected: str) -> None:
    assert to_json(value_of(value)) == expected


@pytest.mark.parametrize("number", [5e-324, 1e16, 1e300, 0.1, -0.0, 123456789.123])
def test_a_double_stays_a_double_and_exact(number: float) -> None:
    text = to_json(value_of(AnyValue(double_value=number)))

    assert "." in text or "e" in text
    assert json.loads(text) == number
    assert math.copysign(1, json.loads(text)) == math.copysign(1, number)


def test_values_nest() -> None:
    inner = KeyValueList(values=[KeyValue(key="b", value=AnyValue(bytes_value=b"x"))])
    array = ArrayValue(values=[AnyValue(), AnyValue(kvlist_value=inner), AnyValue(int_value=1)])

    assert to_json(value_of(AnyValue(array_value=array))) == '[null,{"b":{"@bytes":"eA=="}},1]'


def test_a_nested_key_that_looks_like_a_marker_stays_apart_from_it() -> None:
    values = KeyValueList(
        values=[
            KeyValue(key="@bytes", value=AnyValue(string_value="eA==")),
            KeyValue(key="@@x", value=AnyValue(int_value=1)),
            KeyValue(key="plain", value=AnyValue(int_value=2)),
        ]
    )

    assert to_json(value_of(AnyValue(kvlist_value=values))) == (
        '{"@@bytes":"eA==","@@@x":1,"plain":2}'
    )


def test_the_keys_of_an_attribute_map_are_written_as_they_are() -> None:
    attributes = attributes_of(
        [
            KeyValue(key="@odd", value=AnyValue(int_value=1)),
            KeyValue(key="a.b", value=AnyValue(int_value=2)),
            KeyValue(key="a", value=AnyValue(int_value=3)),
            KeyValue(key="", value=AnyValue(int_value=4)),
        ]
    )

    assert to_json(attributes) == '{"@odd":1,"a.b":2,"a":3,"":4}'


def test_of_two_equal_keys_the_last_wins() -> None:
    attributes = attributes_of(
        [
            KeyValue(key="k", value=AnyValue(int_value=1)),
            KeyValue(key="k", value=AnyValue(string_value="second")),
        ]
    )

    assert attributes == {"k": "second"}


def test_decoded_values_are_what_the_normaliser_expects() -> None:
    assert value_of(AnyValue(bytes_value=b"x")) == b"x"
    assert value_of(AnyValue(double_value=math.inf)) == math.inf
    assert value_of(AnyValue(bool_value=False)) is False
    assert value_of(AnyValue()) is None


# --- back again: what the table says is enough to rebuild every value --------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
keys = texts | st.sampled_from(["@bytes", "@double", "@@bytes", "@", "", "a.b"])
scalars = st.one_of(
    st.just(AnyValue()),
    st.builds(AnyValue, string_value=texts),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    # One NaN is like another: JSON has no bits for their payloads.
    st.builds(AnyValue, double_value=st.floats(allow_nan=False) | st.just(math.nan)),
    st.builds(AnyValue, bytes_value=st.binary(max_size=4)),
)


def listed(items: list[AnyValue]) -> AnyValue:
    return AnyValue(array_value=ArrayValue(values=items))


def mapped(items: dict[str, AnyValue]) -> AnyValue:
    values = [KeyValue(key=key, value=item) for key, item in items.items()]
    return AnyValue(kvlist_value=KeyValueList(values=values))


def containers(inner: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    return st.lists(inner, max_size=3).map(listed) | st.dictionaries(keys, inner, max_size=3).map(
        mapped
    )


@settings(max_examples=300)
@given(st.recursive(scalars, containers, max_leaves=8))
def test_any_value_can_be_rebuilt_from_its_json(value: AnyValue) -> None:
    found = rebuilt(json.loads(to_json(value_of(value))))

    # As bytes, because NaN is not equal to itself.
    assert found.SerializeToString(deterministic=True) == value.SerializeToString(
        deterministic=True
    )
