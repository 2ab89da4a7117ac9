"""Model runs that a question is after beside those that only look like it."""

from typing import Any

import pytest

from golden_store import T1, T2, GoldenStore, spans

MODEL: dict[str, Any] = {"name": "gpt-4o", "kind": "llm", "model": "gpt-4o"}
REFUSED = {**MODEL, "status": "error"}


@pytest.mark.parametrize(
    "reason",
    [
        "content_filter",
        "content_filtered",
        "refusal",
        "guardrail_intervened",
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
    ],
)
def test_what_providers_call_a_filter(reason: str, store: GoldenStore) -> None:
    store.add(T1, "filtered", finish_reasons=["stop", reason], **MODEL)
    store.add(T1, "not-filtered", finish_reasons=["stop", f"no {reason}"], **MODEL)
    store.add(T1, "a-tool", kind="tool", finish_reasons=[reason])

    (row,) = store.ask("content-filter-hits")

    assert (row["span_id"], row["kind"]) == ("filtered", "stopped")


@pytest.mark.parametrize(
    ("error_type", "error"),
    [
        ("openai.ContentFilterFinishReasonError", None),
        (None, "Error code: 400 - content_filter"),
        (None, "filtered by the content management policy"),
        ("openai.BadRequestError", "{'code': 'ResponsibleAIPolicyViolation'}"),
        (None, "400 PROHIBITED_CONTENT"),
        (None, "The answer was blocked by safety settings"),
    ],
)
def test_how_a_filter_refuses(
    error_type: str | None, error: str | None, store: GoldenStore
) -> None:
    store.add(T1, "refused", error_type=error_type, error=error, **REFUSED)
    cancelled = {**MODEL, "status": "cancelled"}
    store.add(T1, "not-failed", error_type=error_type, error=error, **cancelled)
    store.add(T1, "otherwise", error="content was too long for the pipe", **REFUSED)
    store.add(T1, "silent", **REFUSED)

    (row,) = store.ask("content-filter-hits")

    assert (row["span_id"], row["kind"]) == ("refused", "refused")


@pytest.mark.parametrize(
    ("error_type", "error"),
    [
        ("langchain_core.exceptions.ContextOverflowError", None),
        (None, "context_length_exceeded"),
        (None, "input exceeds the context window"),
        (None, "This model's maximum context length is 8192 tokens"),
        (None, "prompt is too long: 210000 tokens > 200000"),
        (None, "Input is too long for requested model"),
        (None, "too many input tokens"),
        (None, "too many tokens"),
    ],
)
def test_how_a_full_context_is_refused(
    error_type: str | None, error: str | None, store: GoldenStore
) -> None:
    store.add(T1, "full", error_type=error_type, error=error, **REFUSED)
    cancelled = {**MODEL, "status": "cancelled"}
    store.add(T1, "not-failed", error_type=error_type, error=error, **cancelled)
    # A limit of the rate, and one of the answer.
    store.add(T1, "rate", error="Rate limit reached: tokens per min", **REFUSED)
    store.add(
        T1, "answer", input_tokens=9, finish_reasons=["length"], context_window=10_000, **MODEL
    )

    (row,) = store.ask("context-limit")

    assert (row["span_id"], row["kind"]) == ("full", "full")


def test_models_and_services_without_a_name_have_a_usual_cost_too(store: GoldenStore) -> None:
    nameless: dict[str, Any] = {"kind": "llm", "service_name": None}
    for number in range(20):
        store.add(T1, f"usual-{number}", cost_usd=0.01, **nameless)
    store.add(T1, "dear", cost_usd=0.5, **nameless)
    # An agent repeats the sum of its models.
    store.add(T1, "an-agent", cost_usd=0.5, **{**nameless, "kind": "agent"})

    assert spans(store.ask("cost-outliers")) == ["dear"]


def test_turns_grow_in_the_order_in_which_they_began(store: GoldenStore) -> None:
    turn: dict[str, Any] = {"session_id": "chat", **MODEL}
    # The first turn goes on while the second one runs.
    store.add("t1", "t1-a", input_tokens=90, start_ms=0, **turn)
    store.add("t1", "t1-b", input_tokens=100, start_ms=100, **turn)
    store.add("t2", "t2-a", input_tokens=150, start_ms=50, **turn)
    store.add("t3", "t3-a", input_tokens=300, start_ms=200, **turn)
    # No turn of its own: it has no tokens. And an agent repeats the sum of its models.
    store.add("t4", "t4-a", start_ms=250, **turn)
    store.add("t5", "t5-agent", kind="agent", session_id="chat", input_tokens=1, start_ms=260)
    # No session: these turns are of nobody's chat.
    for number in range(3):
        store.add(f"s{number}", "s", input_tokens=10**number, start_ms=number, **MODEL)

    (row,) = store.ask("growing-sessions")

    assert (row["turns"], row["first_input_tokens"], row["last_input_tokens"]) == (3, 100, 300)


def test_a_fallback_tells_of_the_first_choice(store: GoldenStore) -> None:
    choice = {"name": "RunnableWithFallbacks"}
    said = {"otelchain.fallback.name": "ChatAnthropic"}
    store.add(T1, "used", fallback_index=2, attributes=said, **choice)
    for number, error_type in enumerate(("RateLimitError", "TimeoutError", None)):
        status = "ok" if error_type is None else "error"
        failed = {"status": status, "error_type": error_type, "start_ms": number + 1}
        store.add(T1, f"used-{number}", "used", name=f"model {number}", **failed)
    # The same ids in another trace are other runs.
    store.add(T2, "used-0", "used", name="stranger", status="error", error_type="KeyError")
    store.add(T2, "used-9", "used", name="stranger", start_ms=9)

    (row,) = store.ask("fallbacks")

    assert (row["failed_name"], row["error_type"]) == ("model 0", "RateLimitError")
    assert (row["used_name"], row["failed_count"]) == ("model 2", 2)
