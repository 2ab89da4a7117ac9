"""Answers of sessions and arrivals."""

from golden_store import T1, T2, T3, GoldenStore, at, spans

MINUTE_MS = 60_000


def test_sessions_are_told_with_what_they_took_the_one_active_last_first(
    store: GoldenStore,
) -> None:
    one = {"session_id": "s1", "user_id": "dana"}
    store.add(T1, "a", kind="agent", total_tokens=30, **one)
    # The agent repeats the sum of its models' tokens.
    store.add(T1, "b", "a", kind="llm", total_tokens=10, start_ms=1, **one)
    store.add(T1, "c", "a", kind="llm", total_tokens=20, start_ms=2, status="error", **one)
    store.add(T2, "d", kind="chain", start_ms=MINUTE_MS, status="pending", **one)
    store.add(T2, "e", "d", kind="tool", start_ms=MINUTE_MS + 1, status="handled_error", **one)
    # The same name in another service is another session.
    store.add(T3, "f", session_id="s1", service_name="bank", start_ms=2 * MINUTE_MS)
    store.add(T3, "no-session", start_ms=3 * MINUTE_MS)

    assert store.ask("sessions") == [
        {
            "trace_id": T3,
            "session_id": "s1",
            "turns": 1,
            "runs": 1,
            "errors": 0,
            "pending": 0,
            "total_tokens": None,
            "first_time": at(2 * MINUTE_MS),
            "newest_time": at(2 * MINUTE_MS),
            "users": 0,
            "service_name": "bank",
        },
        {
            "trace_id": T2,
            "session_id": "s1",
            "turns": 2,
            "runs": 5,
            "errors": 1,
            "pending": 1,
            "total_tokens": 30,
            "first_time": at(0),
            "newest_time": at(MINUTE_MS + 1),
            "users": 1,
            "service_name": "shop",
        },
    ]


def test_sessions_can_be_narrowed(store: GoldenStore) -> None:
    for number in range(3):
        store.add(T1, f"r{number}", session_id=f"s{number}", start_ms=number * MINUTE_MS)

    assert [row["session_id"] for row in store.ask("sessions", limit="2")] == ["s2", "s1"]
    assert [
        row["session_id"]
        for row in store.ask("sessions", since="2026-11-30T10:00:30Z", until="2026-11-30T10:01:30Z")
    ] == ["s1"]
    assert store.ask("sessions", service="bank") == []


def test_arrivals_are_in_the_order_of_their_receipt(store: GoldenStore) -> None:
    base = 1_796_032_800 * 10**9
    store.add(T1, "started-first", start_ms=1, received_time_unix_nano=base + 900)
    store.add(T1, "received-first", start_ms=5, received_time_unix_nano=base + 100)
    store.add(T2, "runs", start_ms=3, status="pending", received_time_unix_nano=base + 500)
    store.add(T2, "same-time-b", start_ms=9, received_time_unix_nano=base + 700)
    store.add(T2, "same-time-a", start_ms=8, received_time_unix_nano=base + 700)

    found = store.ask("arrivals")

    order = ["received-first", "runs", "same-time-a", "same-time-b", "started-first"]
    assert spans(found) == order
    assert [row["duration_ms"] for row in found] == [0.0, None, 0.0, 0.0, 0.0]
    after = {"after": "2026-11-30T10:00:00.000000700Z"}
    assert spans(store.ask("arrivals", **after)) == order[2:]
    assert spans(store.ask("arrivals", newest_first="true", limit="2")) == [order[4], order[3]]


def test_arrivals_can_be_narrowed(store: GoldenStore) -> None:
    store.add(T1, "tool", kind="tool", name="look", status="error")
    store.add(T1, "other-name", kind="tool", name="Look", status="error", start_ms=1)
    store.add(T1, "ok", kind="tool", name="look", start_ms=2)
    store.add(T1, "chain", kind="chain", name="look", status="error", start_ms=3)
    store.add(T1, "none", kind=None, name="look", status="error", start_ms=4)
    store.add(T1, "bank", kind="tool", name="look", status="error", service_name="bank")

    narrow = {"status": "error", "run_type": "tool", "name": "look", "service": "shop"}

    assert spans(store.ask("arrivals", **narrow)) == ["tool"]
    assert len(store.ask("arrivals", status="error")) == 5
