"""Random and mutated OTLP requests: nothing raises, nothing vanishes, neighbours are kept.

tests/benchmarks/fuzz_collector.py runs the same with hundreds of thousands of inputs.
"""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from otelchain_collector.decode import Decoded
from otelchain_collector.decoding import _DECODERS
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import OtlpRequest
from otelchain_collector.signals import SIGNALS, Signal
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_clients import json_bytes
from otlp_fuzz import Fuzz
from otlp_requests import START


@pytest.mark.parametrize("seed", range(4))
def test_mutated_requests_raise_nothing_and_cost_no_neighbour(seed: int) -> None:
    fuzz = Fuzz(seed)
    try:
        fuzz.run(750)
    finally:
        fuzz.close()

    # It did reach the store, and the rejections.
    assert fuzz.counts["records kept"] > 500
    assert fuzz.counts["records rejected"] > 20
    assert fuzz.counts["MalformedRequestError"] > 20


# --- messages of any content -------------------------------------------------------------------

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: _TEXTS,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_ENUM: st.integers(0, 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
}
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}


@st.composite
def _filled(draw: st.DrawFn, message: Any, depth: int = 0) -> Any:
    """Set some fields of a message, each to anything that its type can hold."""
    for field in message.DESCRIPTOR.fields:
        # Records have to be there; what they hold need not.
        if depth > 9 or (depth > 2 and not draw(st.booleans())):
            continue
        if field.message_type is not None:
            target = getattr(message, field.name)
            for _ in range(draw(st.integers(1, 2)) if field.is_repeated else 1):
                inner = target.add() if field.is_repeated else target
                inner.SetInParent()
                draw(_filled(inner, depth + 1))
        else:
            value = draw(_scalar(field))
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        size = _ID_BYTES.get(field.name)
        anything = st.binary(max_size=20)
        return st.binary(min_size=size, max_size=size) | anything if size else anything
    if field.name.endswith("time_unix_nano"):
        return st.integers(0, 2**63) | _SCALARS[field.cpp_type]
    return _SCALARS[field.cpp_type]


def _decode(signal: Signal, request: OtlpRequest) -> Decoded:
    decoded = _DECODERS[signal.name](request.message, START)
    decoded.rejected.extend(request.unreadable)
    return decoded


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_any_message_says_the_same_in_protobuf_and_in_json_and_can_be_stored(
    signal: Signal,
) -> None:
    store = Store.open(":memory:")
    writer = Writer(store)

    @settings(max_examples=40)
    @given(st.builds(signal.request).flatmap(_filled))  # a new one for each example
    def check(drawn: Any) -> None:
        body = drawn.SerializeToString()
        binary = _decode(signal, parse_protobuf(signal, body, START))
        written = _decode(signal, parse_json(signal, json_bytes(drawn), START))

        assert ascii(written) == ascii(binary)
        [outcome] = writer._write([binary])
        assert outcome.rejected == len(binary.rejected), outcome.reasons

    try:
        check()
    finally:
        store.close()
