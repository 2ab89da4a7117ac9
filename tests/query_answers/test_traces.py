"""Answers of traces and trace."""

import duckdb
import pytest

from golden_store import T1, T2, T3, GoldenStore, Row, at, spans


def test_a_trace_is_summed_up_in_one_row(store: GoldenStore) -> None:
    store.add(T1, "root", name="agent", kind="agent", end_ms=800, total_tokens=30)
    store.add(T1, "m1", "root", kind="llm", start_ms=1, total_tokens=10, session_id="chat-7")
    store.add(T1, "m2", "root", kind="llm", start_ms=2, total_tokens=20, status="error")
    store.add(T1, "t", "root", kind="tool", start_ms=3, status="handled_error")

    assert store.ask("traces") == [
        {
            "trace_id": T1,
            "span_id": "root",
            "name": "agent",
            "status": "ok",
            "start_time": at(0),
            "duration_ms": 800.0,
            "runs": 4,
            "errors": 1,
            "total_tokens": 30,
            "session_id": "chat-7",
            "service_name": "shop",
        }
    ]


def test_traces_come_newest_first_and_as_many_as_asked_for(store: GoldenStore) -> None:
    store.add(T1, "r1", start_ms=1)
    store.add(T1, "late", "r1", start_ms=9_000)
    store.add(T2, "r2", start_ms=2)
    store.add(T3, "r3", start_ms=3)

    assert spans(store.ask("traces")) == ["r3", "r2", "r1"]
    assert spans(store.ask("traces", limit="2")) == ["r3", "r2"]


def test_a_trace_whose_root_never_arrived_has_its_first_orphan_as_root(store: GoldenStore) -> None:
    store.add(T1, "r1", start_ms=1)
    store.add(T2, "orphan", "never-sent", start_ms=2)
    store.add(T2, "later-orphan", "never-sent", start_ms=3)
    store.add(T2, "child", "orphan", start_ms=4)

    assert spans(store.ask("traces")) == ["orphan", "r1"]
    assert spans(store.ask("traces", limit="1")) == ["orphan"]
    assert store.ask("traces")[0]["runs"] == 3


def test_a_run_without_parent_is_root_even_when_an_orphan_started_before(
    store: GoldenStore,
) -> None:
    store.add(T1, "orphan", "never-sent", start_ms=1)
    store.add(T1, "root", start_ms=2)

    assert spans(store.ask("traces")) == ["root"]


def test_a_trace_that_is_a_circle_is_listed_too(store: GoldenStore) -> None:
    store.add(T1, "a", "b", start_ms=1)
    store.add(T1, "b", "a", start_ms=2)

    assert spans(store.ask("traces")) == ["a"]


def test_a_trace_whose_root_is_too_old_is_not_listed_for_its_later_runs(
    store: GoldenStore,
) -> None:
    store.add(T1, "old-root", start_ms=0)
    store.add(T1, "child", "old-root", start_ms=2_000)
    store.add(T2, "new-root", start_ms=3_000)

    assert spans(store.ask("traces", since="2026-11-30T10:00:01Z")) == ["new-root"]
    assert spans(store.ask("traces", until="2026-11-30T10:00:01Z")) == ["old-root"]


def test_traces_are_filtered_by_the_service_of_their_root(store: GoldenStore) -> None:
    store.add(T1, "shop-root", service_name="shop", start_ms=1)
    store.add(T1, "remote", "shop-root", service_name="bank", start_ms=2)
    store.add(T2, "bank-root", service_name="bank", start_ms=3)

    assert spans(store.ask("traces", service="bank")) == ["bank-root"]
    assert spans(store.ask("traces", service="shop", limit="1")) == ["shop-root"]


# --- trace ---


def tree(rows: list[Row]) -> list[tuple[int, str, str | None]]:
    return [(row["depth"], row["span_id"], row["detached"]) for row in rows]


def test_a_trace_is_shown_in_the_order_of_its_tree(store: GoldenStore) -> None:
    store.add(T1, "b1", "b", start_ms=25)
    store.add(T1, "b", "root", start_ms=20)
    store.add(T1, "a2", "a", start_ms=12)
    store.add(T1, "a", "root", start_ms=10)
    store.add(T1, "a1", "a", start_ms=11)
    store.add(T1, "root", start_ms=0)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "root", None),
        (1, "a", None),
        (2, "a1", None),
        (2, "a2", None),
        (1, "b", None),
        (2, "b1", None),
    ]


def test_a_run_of_a_trace_has_everything_to_show(store: GoldenStore) -> None:
    store.add(
        T1,
        "llm",
        name="ChatModel",
        kind="llm",
        start_ms=5,
        end_ms=105,
        inputs="[]",
        outputs="[1]",
        model="gpt-4o",
        input_tokens=3,
        output_tokens=4,
        total_tokens=7,
        time_to_first_token_ms=12.5,
        session_id="chat-7",
        langgraph_node="agent",
        langgraph_step=2,
    )

    assert store.ask("trace") == [
        {
            "trace_id": T1,
            "span_id": "llm",
            "parent_span_id": None,
            "depth": 0,
            "name": "ChatModel",
            "run_type": "llm",
            "status": "ok",
            "start_time": at(5),
            "end_time": at(105),
            "duration_ms": 100.0,
            "model": "gpt-4o",
            "input_tokens": 3,
            "output_tokens": 4,
            "total_tokens": 7,
            "time_to_first_token_ms": 12.5,
            "document_count": None,
            "retry_attempt": None,
            "error_type": None,
            "error": None,
            "session_id": "chat-7",
            "service_name": "shop",
            "langgraph_node": "agent",
            "langgraph_step": 2,
            "detached": None,
            "resumes_trace_id": None,
            "inputs": "[]",
            "outputs": "[1]",
        }
    ]


def test_orphans_are_roots_of_their_own_with_a_mark(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T1, "orphan", "never-sent", start_ms=5)
    store.add(T1, "child", "orphan", start_ms=6)
    store.add(T2, "never-sent", start_ms=1)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "root", None),
        (0, "orphan", "parent not stored"),
        (1, "child", None),
    ]


def test_a_circle_of_parents_neither_hangs_nor_hides_a_run(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T1, "ok", "root", start_ms=9)
    store.add(T1, "c2", "c1", start_ms=2)
    store.add(T1, "c3", "c2", start_ms=3)
    store.add(T1, "c1", "c3", start_ms=1)
    store.add(T1, "hanger", "c2", start_ms=4)
    store.add(T1, "self", "self", start_ms=6)
    store.add(T1, "below-self", "self", start_ms=7)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "root", None),
        (1, "ok", None),
        (0, "c1", "its own ancestor"),
        (1, "c2", None),
        (2, "c3", None),
        (2, "hanger", None),
        (0, "self", "its own ancestor"),
        (1, "below-self", None),
    ]


def test_a_large_circle_begins_at_its_first_run_and_is_whole(store: GoldenStore) -> None:
    store.add(T1, "n0", "n299")
    store.connection.execute(
        """
        INSERT INTO spans
        SELECT spans.* REPLACE (
            'n' || i AS span_id,
            'n' || (i - 1) AS parent_span_id,
            start_time_unix_nano + (i * 7) % 300 AS start_time_unix_nano
        )
        FROM spans, range(1, 300) AS numbers(i)
        """
    )

    rows = store.ask("trace", trace_id=T1)

    assert [row["span_id"] for row in rows] == [f"n{number}" for number in range(300)]
    assert [row["detached"] for row in rows] == ["its own ancestor"] + [None] * 299


def test_two_runs_of_one_id_do_not_double_what_is_below_them(store: GoldenStore) -> None:
    store.add(T1, "same", start_ms=0)
    store.add(T1, "same", start_ms=1)
    store.add(T1, "child", "same", start_ms=2)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "same", None),
        (1, "child", None),
        (0, "same", None),
    ]


def test_a_long_chain_of_runs_is_shown_to_its_end(store: GoldenStore) -> None:
    store.add(T1, "n0")
    store.connection.execute(
        """
        INSERT INTO spans
        SELECT spans.* REPLACE ('n' || i AS span_id, 'n' || (i - 1) AS parent_span_id)
        FROM spans, range(1, 1001) AS numbers(i)
        """
    )

    rows = store.ask("trace", trace_id=T1)

    assert [row["depth"] for row in rows] == list(range(1001))


def test_last_is_the_trace_that_began_last(store: GoldenStore) -> None:
    store.add(T1, "long", start_ms=0)
    store.add(T1, "still-going", "long", start_ms=9_000)
    store.add(T2, "short", start_ms=5_000)

    assert spans(store.ask("trace")) == ["short"]
    assert spans(store.ask("trace", until="2026-11-30T10:00:05Z")) == ["long", "still-going"]


def test_last_finds_a_trace_whose_root_never_arrived(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T2, "orphan", "never-sent", start_ms=1)

    assert spans(store.ask("trace")) == ["orphan"]


def test_last_of_a_service_is_its_newest_trace_with_all_services_in_it(store: GoldenStore) -> None:
    store.add(T1, "bank-root", service_name="bank", start_ms=0)
    store.add(T1, "remote", "bank-root", service_name="shop", start_ms=1)
    store.add(T2, "shop-root", service_name="shop", start_ms=5)

    assert spans(store.ask("trace", service="bank")) == ["bank-root", "remote"]


@pytest.mark.parametrize(
    "trace_id", ["abcd", "ABCD", "abcd0000-0000-0000-0000-000000000001", "abcd" + "0" * 27 + "1"]
)
def test_the_beginning_of_a_trace_id_is_enough(store: GoldenStore, trace_id: str) -> None:
    store.add("abcd" + "0" * 27 + "1", "wanted", start_ms=1)
    store.add("abce" + "0" * 27 + "1", "not-this", start_ms=2)

    assert spans(store.ask("trace", trace_id=trace_id)) == ["wanted"]


@pytest.mark.parametrize("trace_id", ["abc", ""])
def test_the_beginning_of_several_trace_ids_is_an_error(store: GoldenStore, trace_id: str) -> None:
    store.add("abcd" + "0" * 28, "one", start_ms=1)
    store.add("abce" + "0" * 28, "two", start_ms=2)

    with pytest.raises(duckdb.Error, match=f"trace_id '{trace_id}' is the beginning of several"):
        store.ask("trace", trace_id=trace_id)


@pytest.mark.parametrize("trace_id", ["ffff", "%", "' OR 1=1 --", "_" * 32])
def test_an_unknown_trace_id_has_no_rows(store: GoldenStore, trace_id: str) -> None:
    store.add(T1, "root")

    assert store.ask("trace", trace_id=trace_id) == []


def test_limit_cuts_the_tree_from_below(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T1, "a", "root", start_ms=1)
    store.add(T1, "b", "root", start_ms=2)

    assert spans(store.ask("trace", limit="2")) == ["root", "a"]
