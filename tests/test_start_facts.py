"""Facts of a start that are remembered: the same facts as anew, and never another run's."""

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from otelchain import Redactor
from otelchain.content import ContentGate
from otelchain.run_facts import RunStart, start_attributes

RUN, OTHER = UUID(int=1), UUID(int=2)


def gate(*, capture: bool = True) -> ContentGate:
    return ContentGate(Redactor(), capture=capture, max_value_bytes=100_000)


def start(run_id: UUID = RUN, parent_run_id: UUID | None = None, **facts: Any) -> RunStart:
    given = {"run_type": "chain", "name": "Step", **facts}
    return RunStart(run_id, parent_run_id, **given)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.uuids()
METADATA = st.dictionaries(
    st.sampled_from(["thread_id", "user_id", "ls_model_name", "ls_temperature", "lc_agent_name"])
    | st.text(),
    PLAIN | st.lists(PLAIN) | st.dictionaries(st.text(), PLAIN),
)
STARTS = st.builds(
    start,
    run_id=st.uuids(),
    parent_run_id=st.none() | st.uuids(),
    run_type=st.sampled_from(["chain", "chat_model", "prompt", "tool", "retriever"]),
    name=st.sampled_from(["Step", "Agent", "x"]) | st.text(),
    tags=st.lists(st.text() | st.integers()),
    metadata=METADATA,
    parameters=st.dictionaries(st.sampled_from(["temperature", "top_k", "n", "seed"]), PLAIN),
)


@given(st.lists(STARTS, max_size=8))
def test_a_gate_that_has_seen_other_starts_gives_the_facts_of_one_that_has_not(
    starts: list[RunStart],
) -> None:
    used = gate()
    for each in [*starts, *starts]:
        assert repr(start_attributes(each, used)) == repr(start_attributes(each, gate()))


def test_values_that_are_equal_but_of_another_type_are_told_apart() -> None:
    used = gate()
    found = [
        start_attributes(start(metadata={"level": value}), used)["otelchain.metadata"]
        for value in (1, True, 1.0)
    ]

    assert found == ['{"level":1}', '{"level":true}', '{"level":1.0}']


def test_metadata_that_the_application_changes_in_place_is_read_anew() -> None:
    used, metadata = gate(), {"user_id": "ann"}
    before = start_attributes(start(metadata=metadata), used)
    metadata["user_id"] = "bob"
    after = start_attributes(start(metadata=metadata), used)

    assert (before["user.id"], after["user.id"]) == ("ann", "bob")


def test_a_model_with_tools_that_are_objects_is_remembered_without_them() -> None:
    used = gate()
    for tools in ([{"name": "search"}], [object()]):
        model = start(run_type="chat_model", parameters={"temperature": 0.5, "tools": tools})
        assert start_attributes(model, used)["gen_ai.request.temperature"] == 0.5

    assert len(used.start_facts) == 1


def test_two_runs_of_one_runnable_share_facts_but_no_ids_and_no_dictionary() -> None:
    used = gate()
    first = start_attributes(start(RUN), used)
    first["added"] = "later"
    second = start_attributes(start(OTHER, RUN, run_type="tool"), used)
    third = start_attributes(start(OTHER), used)

    assert second["otelchain.run.parent_id"] == str(RUN)
    assert third["otelchain.run.id"] == str(OTHER)
    assert "added" not in third
    assert "otelchain.run.parent_id" not in third


def test_what_is_remembered_is_bounded() -> None:
    used = gate()
    for number in range(2_000):
        start_attributes(start(metadata={"user_id": str(number)}), used)
    start_attributes(start(metadata={"long": "x" * 10_000}), used)

    assert len(used.start_facts) <= 512
    assert max(map(len, used.start_facts)) <= 4_096


def test_two_policies_do_not_share_what_they_remember() -> None:
    tagged = start(tags=["mail bob@example.com"], metadata={"mail": "bob@example.com"})
    open_gate = ContentGate(Redactor(detectors=[]), capture=True, max_value_bytes=100_000)
    closed = gate(capture=False)

    assert "bob@example.com" in str(start_attributes(tagged, open_gate))
    assert "bob@example.com" not in str(start_attributes(tagged, gate()))
    assert "otelchain.tags" not in start_attributes(tagged, closed)
    value = {"mail": "bob@example.com"}
    assert open_gate.json("k", value) == {"k": '{"mail":"bob@example.com"}'}
    assert gate().json("k", value) == {"k": '{"mail":"[REDACTED:email]"}'}
