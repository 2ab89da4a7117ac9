"""What was cut keeps the size and hash of its whole, or an honest estimate, in bounded time."""

import json
from collections import UserDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import TracerProvider

from fakes import FinishedSpans
from otelchain import OtelCallbackHandler
from otelchain.content import ContentGate
from otelchain.original import MEASURED_BYTES, estimated_bytes, original
from otelchain.redaction import PolicyRule, Redactor


def compact(value: Any) -> bytes:
    """JSON as the standard library writes it: an oracle that is not orjson."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def gate(max_value_bytes: int) -> ContentGate:
    return ContentGate(Redactor(), capture=True, max_value_bytes=max_value_bytes)


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"id": number, "name": "row"} for number in range(500)]},
        [["née", "日本", None, True, 1.5]] * 300,
        {str(number): "x" * 10 for number in range(500)},
    ],
)
def test_a_container_that_is_cut_keeps_the_size_and_the_hash_of_its_whole(value: Any) -> None:
    found = gate(2_000).json("k", value)

    assert found["k.truncated"] is True
    assert found["k.original_bytes"] == len(compact(value))
    assert found["k.original_sha256"] == sha256(compact(value)).hexdigest()
    assert len(str(found["k"])) < 5_000


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text(st.characters(codec="utf-8")),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
        ),
    ).filter(lambda value: not isinstance(value, str))
)
def test_the_hash_is_that_of_the_compact_json_of_any_value(value: Any) -> None:
    assert original("k", value) == {
        "k.original_bytes": len(compact(value)),
        "k.original_sha256": sha256(compact(value)).hexdigest(),
    }


def test_what_fits_has_no_more_attributes_than_before() -> None:
    assert gate(2_000).json("k", {"a": [1, 2]}) == {"k": '{"a":[1,2]}'}


def test_json_text_that_is_cut_leads_nothing_past_a_path() -> None:
    redactor = Redactor(rules=[PolicyRule(name="person", paths=["**.customer"])])
    closed = ContentGate(redactor, capture=True, max_value_bytes=2_000)
    text = json.dumps({"customer": {"name": "Bob"}, "rest": "x" * 5_000})

    for value in (text, {"inside": text}):
        found = str(closed.json("k", value)["k"])
        assert "Bob" not in found
        assert f"[cut: {len(text)} bytes" in found
    assert "a sentence" in str(closed.json("k", "a sentence " * 1_000)["k"])


def test_a_text_that_is_cut_says_both_in_its_place_only() -> None:
    found = gate(100).json("k", "é" * 200)

    assert set(found) == {"k", "k.truncated"}
    assert f"[cut: 400 bytes, sha256 {sha256(('é' * 200).encode()).hexdigest()}]" in str(found["k"])


def test_objects_are_measured_by_their_fields_and_what_is_no_json_by_its_type() -> None:
    @dataclass
    class Row:
        number: int
        lock: object

    found = gate(500).json("k", [Row(number, object()) for number in range(100)])

    whole = compact([{"number": number, "lock": "<object>"} for number in range(100)])
    assert found["k.original_sha256"] == sha256(whole).hexdigest()


def test_a_value_beyond_the_bound_is_estimated_and_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("otelchain.original.whole_json", lambda value: pytest.fail("written"))
    rows = [{"id": number, "name": "row", "text": "x" * 100} for number in range(20_000)]

    found = gate(10_000).json("k", rows)

    assert "k.original_sha256" not in found
    size = len(compact(rows))
    assert size > MEASURED_BYTES
    assert 0.7 * size < found["k.estimated_bytes"] < 1.3 * size  # type: ignore[operator]


def test_a_list_whose_large_members_come_last_is_not_taken_for_small() -> None:
    assert estimated_bytes([0] * 2_000 + ["x" * 10_000] * 2_000) > MEASURED_BYTES


def test_what_cannot_be_written_keeps_an_estimate() -> None:
    cycle: list[Any] = ["x" * 50] * 100
    cycle.append(cycle)

    found = gate(1_000).json("k", cycle)

    assert "k.original_sha256" not in found
    assert found["k.estimated_bytes"]


def test_a_mapping_that_raises_costs_the_size_and_nothing_else() -> None:
    class Broken(UserDict):  # type: ignore[type-arg]
        def values(self) -> Any:
            raise RuntimeError

    assert original("k", Broken(a=1)) == {}


def test_the_attributes_reach_the_span_beside_the_value(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTELCHAIN_MAX_VALUE_BYTES", "1000")
    rows = [{"id": number} for number in range(500)]

    RunnableLambda(lambda _: rows).invoke(1, {"callbacks": [OtelCallbackHandler(tracer_provider)]})

    (span,) = finished_spans.all()
    facts = dict(span.attributes or {})
    assert facts["otelchain.output.original_bytes"] == len(compact(rows))
    assert facts["otelchain.output.original_sha256"] == sha256(compact(rows)).hexdigest()
    assert "otelchain.input.original_bytes" not in facts
