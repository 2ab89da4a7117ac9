"""Runs written by hand for the questions of the bundle: those a question is after, and lookalikes.

Each function fills a store for one theme; `everything` fills one with all of them. Times are
milliseconds after ten o'clock, ids say what the run is there for.
"""

import json
from collections.abc import Callable
from typing import Any

from golden_store import T1, T2, T3, T4, T5, GoldenStore

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def retrievals(store: GoldenStore) -> None:
    """Retrievers that found nothing, and queries that repeat who asked."""
    docs: dict[str, Any] = {"name": "docs", "kind": "retriever"}
    store.add(T1, "ok-root", name="answer")
    store.add(T1, "nothing-1", "ok-root", start_ms=1, document_count=0, inputs="shoes", **docs)
    store.add(T1, "found-1", "ok-root", start_ms=2, document_count=4, **docs)
    store.add(T2, "failed-root", name="answer", status="error", start_ms=10)
    store.add(T2, "nothing-2", "failed-root", start_ms=11, document_count=0, **docs)
    store.add(T2, "unknown-count", "failed-root", start_ms=12, **docs)
    store.add(T2, "raised", "failed-root", status="error", start_ms=13, document_count=0, **docs)
    store.add(T2, "cancelled", "failed-root", status="cancelled", document_count=0, **docs)
    store.add(T2, "running", "failed-root", status="pending", document_count=0, **docs)
    store.add(T3, "bank-root", service_name="bank", start_ms=20)
    store.add(T3, "bank-1", "bank-root", document_count=0, service_name="bank", start_ms=21, **docs)
    for number in range(3):
        store.add(T3, f"bank-ok-{number}", document_count=1, service_name="bank", **docs)
    store.add(T3, "faq", name="faq", kind="retriever", document_count=2, service_name="bank")

    role = json.dumps({"role": "HR manager", "ls_retriever_name": "docs", "lang": "en"})
    asked: dict[str, Any] = {**docs, "metadata": role, "service_name": "echo", "document_count": 3}
    store.add(T4, "role", start_ms=100, inputs="As an HR Manager, how many days off?", **asked)
    store.add(T4, "user", start_ms=101, inputs="days off of user-77", user_id="user-77", **asked)
    store.add(T4, "chat", start_ms=102, inputs="Human: days off?\nAI: for whom?", **asked)
    # What looks like it: own keys ("docs"), short values ("en"), words in the middle, no query.
    store.add(T4, "plain", start_ms=103, inputs="docs on days off when human: resources", **asked)
    store.add(T4, "short-id", start_ms=104, inputs="days off 7", user_id="7", **asked)
    store.add(T4, "no-query", start_ms=105, user_id="user-77", **asked)
    store.add(T4, "no-metadata", start_ms=106, name="docs", kind="retriever", inputs="HR manager")
    store.add(T4, "tool", start_ms=107, kind="tool", inputs="HR manager", metadata=role)


def times(store: GoldenStore) -> None:
    """Steps with percentiles worked out by hand: 1 to 100 ms, and one of 30 s among them."""
    for number in range(1, 101):
        store.add(T1, f"call-{number}", name="call", kind="tool", end_ms=number)
    for number in range(1, 101):
        end_ms = 30_000 if number > 98 else 100
        store.add(T2, f"fetch-{number}", name="fetch", kind="tool", start_ms=5, end_ms=5 + end_ms)
    for number in range(6):
        store.add(T3, f"other-{number}", name="call", kind="tool", service_name="bank", end_ms=7)
    # What looks like it: too few, not ended, ended before it began.
    store.add(T3, "rare", name="rare", kind="tool", end_ms=90_000)
    for number in range(6):
        store.add(T3, f"open-{number}", name="open", kind="tool", status="pending")
        store.add(T3, f"back-{number}", name="back", kind="tool", start_ms=9_000, end_ms=0)

    for number in range(1, 21):
        first_ms = 4_000.0 if number == 20 else number * 10.0
        store.add(
            T4,
            f"gpt-{number}",
            kind="llm",
            model="gpt-4o",
            time_to_first_token_ms=first_ms,
            service_name="talk",
        )
    for number in range(2):
        store.add(
            T5,
            f"slow-{number}",
            kind="llm",
            model="big",
            time_to_first_token_ms=3_000.0 + number,
            service_name="talk",
        )
    store.add(T5, "not-streamed", kind="llm", model="gpt-4o", service_name="talk")
    store.add(T5, "no-model", kind="chain", time_to_first_token_ms=99_000.0, service_name="talk")


def changes(store: GoldenStore) -> None:
    """Steps before and after eleven o'clock, and of two versions."""
    for number in range(20):
        new = {"start_ms": HOUR_MS + number}
        for name, old_ms, new_ms in (("same", 100, 110), ("slower", 100, 300), ("jitter", 0, 0)):
            store.add(T1, f"old-{name}-{number}", name=name, end_ms=old_ms)
            end_ms = new["start_ms"] + new_ms
            store.add(T2, f"new-{name}-{number}", name=name, end_ms=end_ms, **new)
        status = "error" if number < 2 else "ok"
        store.add(T1, f"old-failing-{number}", name="failing")
        store.add(T2, f"new-failing-{number}", name="failing", status=status, **new)
        for tokens, trace, start_ms in ((100, T1, 0), (160, T2, HOUR_MS)):
            store.add(
                trace,
                f"model-{trace[0]}-{number}",
                name="chat",
                kind="llm",
                start_ms=start_ms + number,
                end_ms=start_ms + number,
                total_tokens=tokens,
            )
        # Only on one side, still running, and of another service with the same names.
        store.add(T2, f"only-new-{number}", name="only-new", **new)
        store.add(T2, f"open-{number}", name="slower", status="pending", **new)
        store.add(T3, f"bank-{number}", name="slower", service_name="bank", end_ms=100)
    store.add(T3, "bank-new", name="slower", service_name="bank", start_ms=HOUR_MS, end_ms=HOUR_MS)
    for number in range(20):
        for version, start_ms, ms in (("1.0", 0, 900), ("1.1", 1_000, 10), ("1.2", 2_000, 40)):
            store.add(
                T4,
                f"v{version}-{number}",
                name="step",
                service_name="versioned",
                service_version=version,
                start_ms=start_ms,
                end_ms=start_ms + ms,
            )


def costs(store: GoldenStore) -> None:
    """Model runs with tokens and costs."""
    gpt: dict[str, Any] = {"name": "gpt-4o", "kind": "llm", "model": "gpt-4o"}
    store.add(
        T1,
        "a",
        start_ms=1,
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        cache_read_tokens=40,
        cost_usd=0.25,
        session_id="s1",
        user_id="ann",
        agent_name="helper",
        **gpt,
    )
    store.add(
        T2,
        "b",
        start_ms=2,
        input_tokens=10,
        output_tokens=2,
        total_tokens=12,
        reasoning_tokens=1,
        cost_usd=0.5,
        session_id="s2",
        user_id="ann",
        service_name="bank",
        **gpt,
    )
    store.add(
        T2, "unpriced", start_ms=3, kind="llm", model="own", total_tokens=1_000, user_id="bob"
    )
    store.add(T2, "unsaid", start_ms=4, kind="llm", status="error", model="own")
    # An agent repeats the sum of its models.
    store.add(T1, "agent", kind="agent", total_tokens=120, cost_usd=0.25, user_id="ann")

    # Twenty calls at a cent, of which the median is; two outliers; other models and services.
    for number in range(20):
        store.add(T3, f"usual-{number}", start_ms=100, cost_usd=0.01, service_name="priced", **gpt)
    store.add(
        T3,
        "dear",
        start_ms=101,
        end_ms=601,
        cost_usd=0.1,
        input_tokens=9_000,
        output_tokens=5,
        session_id="s3",
        user_id="ann",
        service_name="priced",
        **gpt,
    )
    store.add(T3, "dearest", start_ms=102, cost_usd=0.2, service_name="priced", **gpt)
    store.add(T3, "dear-enough", start_ms=103, cost_usd=0.099, service_name="priced", **gpt)
    store.add(T3, "free", start_ms=104, cost_usd=0.0, service_name="priced", **gpt)
    store.add(T3, "dear-alone", start_ms=105, cost_usd=9.0, service_name="priced", kind="llm")
    store.add(T3, "dear-elsewhere", start_ms=106, cost_usd=9.0, service_name="new", **gpt)


def prompts(store: GoldenStore) -> None:
    """Prompts near their limit, with holes, cut off and filtered; sessions that grow."""
    model: dict[str, Any] = {"name": "gpt-4o", "kind": "llm", "model": "gpt-4o"}
    window: dict[str, Any] = {**model, "context_window": 1_000, "service_name": "limits"}
    store.add(T1, "at-limit", start_ms=1, end_ms=11, input_tokens=800, session_id="s1", **window)
    store.add(T1, "nearer", start_ms=2, input_tokens=990, **window)
    store.add(T1, "below", start_ms=3, input_tokens=799, **window)
    store.add(T1, "unknown", start_ms=4, input_tokens=900, service_name="limits", **model)
    too_long = {"status": "error", "error_type": "openai.BadRequestError"}
    store.add(
        T1,
        "refused",
        start_ms=5,
        error="This model's maximum context length is 1000 tokens",
        **too_long,
        **window,
    )
    store.add(T1, "other-error", start_ms=6, error="no credit", **too_long, **window)
    store.add(
        T1,
        "stopped",
        start_ms=7,
        input_tokens=500,
        finish_reasons=["model_context_window_exceeded"],
        **window,
    )
    store.add(T1, "a-chain", start_ms=8, input_tokens=999, context_window=1_000)

    holes: dict[str, Any] = {"service_name": "holes"}
    store.add(
        T2,
        "missing",
        name="ChatPromptTemplate",
        kind="prompt",
        status="error",
        start_ms=1,
        error_type="builtins.KeyError",
        error="Input to ChatPromptTemplate is missing variables {'city'}.",
        **holes,
    )
    literal = (
        '[{"role":"user","parts":[{"type":"text","content":"Hi {name}, {{ plan }} of {name}"}]}]'
    )
    store.add(T2, "literal", start_ms=2, end_ms=3, inputs=literal, **model, **holes)
    # What looks like it: JSON in the prompt, empty braces, a prompt that failed otherwise.
    harmless = '[{"role":"user","parts":[{"type":"text","content":"{\\"a\\": 1} {} {0} { x y }"}]}]'
    store.add(T2, "json", start_ms=4, inputs=harmless, **model, **holes)
    store.add(T2, "no-input", start_ms=5, **model, **holes)
    store.add(T2, "failed", kind="prompt", status="error", start_ms=6, error="broken", **holes)
    store.add(T2, "a-tool", kind="tool", start_ms=7, inputs="{name}", **holes)

    ends: dict[str, Any] = {**model, "service_name": "ends"}
    store.add(T3, "ends-root", name="answer", service_name="ends")
    store.add(
        T3,
        "cut",
        "ends-root",
        start_ms=1,
        end_ms=51,
        finish_reasons=["length"],
        output_tokens=16,
        session_id="s3",
        **ends,
    )
    store.add(T3, "cut-gemini", "ends-root", start_ms=2, finish_reasons=["MAX_TOKENS"], **ends)
    store.add(T3, "one-of-two", start_ms=3, finish_reasons=["stop", "max_tokens"], **ends)
    store.add(T3, "whole", start_ms=4, finish_reasons=["stop"], **ends)
    store.add(T3, "calls", start_ms=5, finish_reasons=["tool_calls"], **ends)
    store.add(T3, "unsaid", start_ms=6, **ends)
    store.add(
        T3,
        "filtered",
        start_ms=7,
        end_ms=8,
        finish_reasons=["content_filter"],
        session_id="s3",
        user_id="ann",
        **ends,
    )
    store.add(T3, "safety", start_ms=8, finish_reasons=["SAFETY"], **ends)
    store.add(
        T3,
        "refused-by-filter",
        start_ms=9,
        status="error",
        error_type="openai.BadRequestError",
        error="The response was filtered: content management policy",
        **ends,
    )
    store.add(T3, "failed-otherwise", start_ms=10, status="error", error="no route", **ends)
    store.add(T3, "filter-tool", kind="tool", start_ms=11, status="error", error="content_filter")

    def turns(session: str, *tokens: int | None, service: str = "memory") -> None:
        for number, input_tokens in enumerate(tokens):
            trace = f"{service}-{session}-{number}"
            start_ms = number * MINUTE_MS
            turn = {"session_id": session, "service_name": service, **model}
            store.add(trace, f"{trace}-small", start_ms=start_ms, input_tokens=5, **turn)
            store.add(trace, f"{trace}-large", start_ms=start_ms, input_tokens=input_tokens, **turn)

    turns("grows", 100, 150, 260)
    turns("grows-little", 100, 110, 120)
    turns("shrinks-once", 100, 300, 200, 400)
    turns("stays", 100, 100, 300)
    turns("short", 100, 900)
    turns("grows", 700, 10, service="bank")


def tools(store: GoldenStore) -> None:
    """Tools called again and again, with arguments that fit and that do not."""
    search: dict[str, Any] = {"name": "search", "kind": "tool"}
    store.add(T1, "t1-a", start_ms=1, end_ms=11, inputs_hash=7, inputs='{"q": "x"}', **search)
    store.add(T1, "t1-b", start_ms=20, end_ms=40, inputs_hash=7, inputs='{"q": "x"}', **search)
    store.add(T1, "other-arguments", start_ms=50, inputs_hash=8, **search)
    store.add(T2, "other-trace", start_ms=60, inputs_hash=7, **search)
    store.add(T1, "other-tool", name="fetch", kind="tool", start_ms=70, inputs_hash=7)
    store.add(T2, "failed", start_ms=80, status="error", inputs_hash=9, **search)
    store.add(T2, "after-failure", start_ms=90, inputs_hash=9, **search)
    store.add(T2, "running", start_ms=95, status="pending", inputs_hash=9, **search)
    store.add(T2, "unhashed-1", start_ms=96, **search)
    store.add(T2, "unhashed-2", start_ms=97, **search)
    store.add(T1, "a-retriever", name="search", kind="retriever", start_ms=98, inputs_hash=7)

    for number in range(8):
        store.add(
            T3,
            f"loop-{number}",
            name="crawl",
            kind="tool",
            status="error" if number == 3 else "handled_error" if number == 4 else "ok",
            start_ms=1_000 + number,
            end_ms=1_010 + number,
            inputs_hash=number // 4,
            service_name="loops",
        )
    for number in range(7):
        store.add(T4, f"seven-{number}", name="crawl", kind="tool", service_name="loops")
    for number in range(8):
        store.add(T4, f"unhashed-loop-{number}", name="open", kind="tool", service_name="loops")
        store.add(T4, f"chain-{number}", name="crawl-chain", service_name="loops")

    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "metric": {"type": "boolean"},
            "near": {"type": "array"},
            "max": {"type": "number"},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    }
    openai = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    anthropic = [{"name": "clock", "input_schema": {**schema, "additionalProperties": True}}]
    checked: dict[str, Any] = {"kind": "tool", "service_name": "schemas"}
    store.add(
        T5,
        "model",
        kind="llm",
        attributes={"gen_ai.tool.definitions": json.dumps([*openai, *anthropic])},
        service_name="schemas",
    )
    store.add(T5, "cut-off", kind="llm", attributes={"gen_ai.tool.definitions": '[{"type": "fu'})
    calls = {
        "missing": {"city": "Oslo"},
        "wrong-types": {"city": 7, "days": "two", "metric": "yes", "near": {}, "max": "1"},
        "not-allowed": {"city": "Oslo", "days": 2, "unit": "C"},
        "fits": {"city": "Oslo", "days": 2, "metric": True, "near": [], "max": 3},
        "nulls": {"city": "Oslo", "days": 2, "metric": None, "max": 0.5},
        "redacted": {"city": "[REDACTED:name]", "days": "[REDACTED:number]"},
    }
    for number, (span, arguments) in enumerate(calls.items()):
        inputs = json.dumps(arguments)
        store.add(T5, span, name="weather", start_ms=10 + number, inputs=inputs, **checked)
    store.add(
        T5, "extra", name="clock", start_ms=20, inputs='{"city":"a","days":1,"x":2}', **checked
    )
    store.add(
        T5,
        "rejected",
        name="divide",
        status="error",
        start_ms=30,
        end_ms=31,
        error_type="pydantic_core._pydantic_core.ValidationError",
        inputs='{"a": "one"}',
        **checked,
    )
    store.add(T5, "text", name="weather", start_ms=31, inputs="just a text", **checked)
    store.add(T5, "list", name="weather", start_ms=32, inputs="[1]", **checked)
    store.add(T5, "undefined", name="unknown", start_ms=33, inputs="{}", **checked)
    store.add(T5, "silent", name="weather", start_ms=34, **checked)
    store.add(T1, "elsewhere", name="weather", start_ms=35, inputs="{}", **checked)
    store.add(
        T5,
        "a-chain",
        status="error",
        error_type="pydantic_core._pydantic_core.ValidationError",
        service_name="schemas",
    )


def node(name: str, step: int, namespace: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "langgraph_node": name,
        "langgraph_step": step,
        "langgraph_checkpoint_ns": namespace or f"{name}:{step}",
    }


def graphs(store: GoldenStore) -> None:
    """Graphs that loop, retry, fall back, and go different ways."""
    loops: dict[str, Any] = {"service_name": "loops"}
    store.add(T1, "near", name="agent", end_ms=900, session_id="s1", **loops)
    # The second turn of a thread: its first step is 12, and it takes 20 of 25.
    for step in range(12, 32):
        store.add(T1, f"near-{step}", "near", start_ms=step, **node("model", step), **loops)
    store.add(T2, "few", name="agent", start_ms=1, **loops)
    for step in range(1, 20):
        store.add(T2, f"few-{step}", "few", start_ms=step, **node("model", step), **loops)
    recursion: dict[str, Any] = {
        "status": "error",
        "error_type": "langgraph.errors.GraphRecursionError",
    }
    store.add(T3, "stopped", name="agent", start_ms=2, end_ms=5, **recursion, **loops)
    for step in range(1, 4):
        store.add(T3, f"stopped-{step}", "stopped", start_ms=step, **node("model", step), **loops)
    # The same node step by step below one that is no graph: calls inside a node.
    store.add(T4, "inside", name="agent", start_ms=3, **loops)
    for number in range(30):
        store.add(T4, f"inside-{number}", "inside", **{**node("model", 1), "name": "call"}, **loops)

    tries: dict[str, Any] = {"service_name": "tries"}
    store.add(T1, "retry", name="RunnableRetry", **tries)
    for number in range(1, 4):
        store.add(
            T1,
            f"try-{number}",
            "retry",
            name="call",
            kind="tool",
            status="error" if number < 3 else "ok",
            error_type="builtins.TimeoutError" if number < 3 else None,
            retry_attempt=number if number > 1 else None,
            start_ms=number * 100,
            end_ms=number * 100 + 50,
            **tries,
        )
    store.add(T1, "beside", "retry", name="other", status="error", start_ms=5, **tries)
    store.add(T2, "graph", name="LangGraph", **tries)
    for number in range(4):
        store.add(
            T2,
            f"attempt-{number}",
            "graph",
            status="error",
            start_ms=1_000 + number,
            end_ms=1_001 + number,
            error_type="builtins.ConnectionError",
            **node("fetch", 1, "fetch:7"),
            **tries,
        )
    # Parallel tasks of one node that all fail are no attempts; neither are two tries a storm.
    for number in range(4):
        failing = node("work", 2, f"work:{number}")
        store.add(T2, f"task-{number}", "graph", status="error", **failing, **tries)
    store.add(T3, "twice", name="RunnableRetry", **tries)
    store.add(T3, "twice-1", "twice", name="call", status="error", **tries)
    store.add(T3, "twice-2", "twice", name="call", start_ms=1, retry_attempt=2, **tries)

    backup: dict[str, Any] = {"service_name": "backup"}
    choice = {"name": "RunnableWithFallbacks"}
    down = {"status": "error", "error_type": "openai.RateLimitError"}
    store.add(T1, "used", start_ms=1, end_ms=90, **choice, **backup)
    store.add(T1, "used-1", "used", name="gpt-4o", start_ms=2, **down, **backup)
    store.add(T1, "used-2", "used", name="claude", start_ms=3, **backup)
    store.add(T2, "first-choice", **choice, **backup)
    store.add(T2, "first-1", "first-choice", name="gpt-4o", start_ms=1, **backup)
    store.add(T3, "all-failed", **choice, **down, **backup)
    store.add(T3, "all-1", "all-failed", name="gpt-4o", start_ms=1, **down, **backup)
    store.add(T3, "all-2", "all-failed", name="claude", start_ms=2, **down, **backup)
    store.add(T4, "a-sequence", name="RunnableSequence", **backup)
    store.add(T4, "sequence-1", "a-sequence", name="gpt-4o", start_ms=1, **down, **backup)
    store.add(T4, "sequence-2", "a-sequence", name="claude", start_ms=2, **backup)
    store.add(T5, "childless", **choice, **backup)
    said = {"otelchain.fallback.name": "ChatAnthropic"}
    store.add(T5, "named", name="ask", start_ms=50, fallback_index=1, attributes=said, **backup)
    store.add(T5, "named-1", "named", name="ask", start_ms=51, **down, **backup)
    store.add(T5, "named-2", "named", name="ask", start_ms=52, **backup)
    # What was tried is lost, or was only cancelled.
    store.add(T5, "alone", name="ask", start_ms=40, fallback_index=1, attributes=said, **backup)
    store.add(T4, "hasty", name="ask", start_ms=30, fallback_index=2, **backup)
    store.add(T4, "hasty-1", "hasty", name="gpt-4o", start_ms=31, status="cancelled", **backup)
    store.add(T4, "hasty-2", "hasty", name="gpt-5", start_ms=32, **down, **backup)
    store.add(T4, "hasty-3", "hasty", name="claude", start_ms=33, **backup)
    # A chain inside the first choice that failed and went on is no fallback.
    store.add(T5, "said-first", start_ms=60, fallback_index=0, **choice, **backup)
    store.add(T5, "said-1", "said-first", name="a", start_ms=61, **down, **backup)
    store.add(T5, "said-2", "said-first", name="b", start_ms=62, **backup)

    ways: dict[str, Any] = {"service_name": "ways"}

    def way(trace: str, *steps: str, start_ms: int, status: str = "ok", **more: Any) -> None:
        root = f"{trace}-root"
        store.add(trace, root, name="flow", start_ms=start_ms, status=status, **{**ways, **more})
        for step, names in enumerate(steps, start=1):
            for name in filter(None, names.split("+")):
                span = f"{trace}-{step}-{name}"
                store.add(trace, span, root, start_ms=start_ms + step, **node(name, step), **ways)
                # What runs inside a node has its node's fields and is no step of its own.
                inner = {**node(name, step), "name": "RunnableCallable"}
                store.add(trace, f"{span}-in", span, start_ms=start_ms + step, **inner, **ways)

    way("w1", "plan", "b+a", "end", start_ms=0)
    way("w2", "plan", "a+b", "end", start_ms=100)
    way("w3", "plan", "end", start_ms=200, status="error")
    way("w4", "plan", start_ms=300, status="interrupted")
    way("w5", "plan", "", "end", start_ms=400)
    way("w6", "other", start_ms=500, status="pending")
    way("w7", "plan", "b", start_ms=600, service_name="bank")
    # A second attempt of a node is the same step.
    store.add("w1", "w1-again", "w1-root", start_ms=9, **node("plan", 1), **ways)


def errors(store: GoldenStore) -> None:
    """Errors that went up, that were handled, that were made good; what never ended."""
    timeout = {"status": "error", "error_type": "TimeoutError", "error": "no answer in 5 s"}
    store.add(T1, "t1-root", name="agent", **timeout)
    store.add(T1, "t1-node", "t1-root", name="node", start_ms=1, **timeout)
    store.add(T1, "t1-tool", "t1-node", name="search", kind="tool", start_ms=2, **timeout)
    store.add(T2, "t2-root", name="agent", start_ms=10)
    store.add(T2, "t2-tool", "t2-root", name="search", kind="tool", start_ms=12, **timeout)
    store.add(
        T2,
        "t2-handled",
        "t2-root",
        name="divide",
        kind="tool",
        status="handled_error",
        error="division by zero",
        start_ms=13,
    )
    # Made good by with_retry, and by a RetryPolicy of LangGraph.
    store.add(T2, "try-1", "t2-root", name="call", start_ms=14, status="error")
    store.add(T2, "try-2", "t2-root", name="call", start_ms=15, retry_attempt=2)
    again = node("fetch", 1)
    store.add(T2, "node-1", "t2-root", start_ms=16, status="error", **again)
    store.add(T2, "node-2", "t2-root", start_ms=17, **again)
    # No failures: control flow, and what still runs.
    for status in ("cancelled", "interrupted", "abandoned", "pending"):
        store.add(T2, f"t2-{status}", "t2-root", name="search", status=status, start_ms=18)
    store.add(T3, "t3-root", name="agent", start_ms=20, status="cancelled")
    store.add(T3, "t3-tool", "t3-root", name="search", kind="tool", start_ms=21, **timeout)
    store.add(T4, "self", "self", name="own-parent", start_ms=30, status="error")
    bank = {"service_name": "bank", "name": "search", "kind": "tool"}
    store.add(T5, "t5-root", name="agent", service_name="bank", start_ms=40)
    store.add(T5, "t5-tool", "t5-root", start_ms=41, **timeout, **bank)


def lost(store: GoldenStore) -> None:
    """Runs that did not end, and runs whose parent is not there."""
    store.add(T1, "killed", name="crawl", kind="tool", status="pending", session_id="s1")
    store.add(T1, "abandoned", "killed", status="abandoned", start_ms=1, end_ms=9, error="closed")
    store.add(T2, "just-started", status="pending", start_ms=5 * MINUTE_MS + 1)
    store.add(T2, "newest", start_ms=10 * MINUTE_MS)
    store.add(T2, "cancelled", "newest", status="cancelled", start_ms=10 * MINUTE_MS)

    orphaned: dict[str, Any] = {"service_name": "parts"}
    store.add(T3, "root", start_ms=1, **orphaned)
    store.add(T3, "child", "root", start_ms=2, **orphaned)
    store.add(T3, "orphan", "never-sent", name="step", start_ms=3, end_ms=4, **orphaned)
    store.add(T3, "below-orphan", "orphan", start_ms=4, **orphaned)
    store.add(T4, "never-sent", start_ms=5, **orphaned)  # the same id in another trace
    store.add(T4, "open-parent", status="pending", start_ms=6, **orphaned)
    store.add(T4, "below-open", "open-parent", start_ms=7, **orphaned)
    store.add(T5, "phantom", "ls-root", start_ms=8, dialect="langsmith", **orphaned)
    store.add(T5, "below-phantom", "phantom", start_ms=9, dialect="langsmith", **orphaned)


def sessions(store: GoldenStore) -> None:
    """Conversations in which something failed, and one in which nothing did."""
    bad: dict[str, Any] = {"session_id": "bad", "user_id": "ann"}
    store.add(T1, "t1", status="error", **bad)
    store.add(T1, "t1-tool", "t1", kind="tool", status="error", start_ms=1, **bad)
    store.add(T2, "t2", start_ms=10, **bad)
    store.add(T2, "t2-tool", "t2", kind="tool", status="handled_error", start_ms=11, **bad)
    store.add(T3, "t3", start_ms=20, **{**bad, "user_id": "bob"})
    store.add(T4, "mild", session_id="mild", start_ms=30)
    store.add(T4, "mild-tool", "mild", kind="tool", status="error", session_id="mild", start_ms=31)
    for status in ("ok", "cancelled", "interrupted", "abandoned", "pending"):
        store.add(T5, f"good-{status}", status=status, session_id="good", start_ms=40)
    store.add(T5, "no-session", status="error", start_ms=41)
    store.add(T5, "elsewhere", status="ok", session_id="bad", service_name="bank", start_ms=42)


def rubrics(store: GoldenStore) -> None:
    """Two grading runs, one of two rounds; the criteria of their evaluations."""

    def evaluation(
        span: str, root: str, trace: str, start_ms: int, result: str, grading: str, **facts: Any
    ) -> None:
        passed = facts["criteria"]
        criteria = [{"name": name, "passed": good} for name, good in passed.items()]
        store.add(
            trace,
            span,
            root,
            name="RubricMiddleware.after_agent",
            start_ms=start_ms,
            rubric_result=result,
            attributes={
                "otelchain.rubric.grading_run_id": grading,
                "otelchain.rubric.iteration": facts["iteration"],
                "otelchain.rubric.status": result,
                "otelchain.rubric.unverified": facts.get("unverified", False),
                "otelchain.rubric.criteria_total": len(passed),
                "otelchain.rubric.criteria_passed": sum(passed.values()),
                "otelchain.rubric.criteria": json.dumps(criteria),
            },
        )

    store.add(T1, "t1-root", name="writer")
    round_1 = {"short": False, "polite": True, "true": False}
    evaluation("e1", "t1-root", T1, 1, "needs_revision", "g1", iteration=0, criteria=round_1)
    round_2 = {"short": False, "polite": True, "true": True}
    evaluation(
        "e2", "t1-root", T1, 2, "max_iterations_reached", "g1", iteration=1, criteria=round_2
    )
    store.add(T2, "t2-root", name="writer", start_ms=10)
    round_3 = {"short": True, "polite": True}
    evaluation("e3", "t2-root", T2, 11, "satisfied", "g2", iteration=0, criteria=round_3)
    store.add(T2, "opened", "t2-root", start_ms=9, attributes={"otelchain.rubric.sha256": "0"})


def arrivals(store: GoldenStore) -> None:
    """What arrived late, early, with losses, or not at all."""
    received = 1_796_032_800 * 10**9
    for number in range(100):
        delay_ms = 61_000 if number > 97 else number
        store.add(T1, f"shop-{number}", received_time_unix_nano=received + delay_ms * 10**6)
    bank: dict[str, Any] = {"service_name": "bank", "received_time_unix_nano": received + 5}
    store.add(T2, "fine", **bank)
    store.add(T2, "tomorrow", end_ms=24 * HOUR_MS, **bank)
    store.add(T2, "lossy", dropped_attributes_count=3, **bank)
    store.add(T2, "open", status="pending", **bank)
    store.add(T3, "calm", service_name="calm")
    store.reject("span_id is all zero", received_ms=1, trace_id="aa", span_id="00", name="first")
    store.reject("span_id is all zero", received_ms=2, trace_id="bb", span_id="00", name="second")
    store.reject("trace_id has not 16 bytes", received_ms=3, trace_id="cccccc")
    store.reject("span_id is all zero", received_ms=4, service_name="bank", trace_id="dd")
    store.reject("attribute values nested too deep", received_ms=5, service_name=None)
    store.add_log("log-1", at_ms=10, delay_ms=5)
    store.add_log("log-2", at_ms=20, delay_ms=7, dropped_attributes_count=1)
    store.add_log("no-time", record_time_unix_nano=0, service_name="calm")
    for number, delay_ms in enumerate((10, 20, 61_000)):
        store.add_point(f"point-{number}", at_ms=number, delay_ms=delay_ms, service_name="bank")
    store.add_point("ahead", at_ms=9, delay_ms=-9, service_name="ahead")
    store.reject("body nested too deep", received_ms=6, signal="logs", name="gen_ai.choice")
    store.reject("span_id is all zero", received_ms=7, signal="logs")
    store.reject("time_unix_nano is negative", received_ms=8, signal="metrics", name="requests")


THEMES: tuple[Callable[[GoldenStore], None], ...] = (
    retrievals,
    times,
    changes,
    costs,
    prompts,
    tools,
    graphs,
    errors,
    lost,
    sessions,
    rubrics,
    arrivals,
)


def everything(store: GoldenStore) -> None:
    """All themes in one store: for what must hold whatever the answer is."""
    for number, theme in enumerate(THEMES):
        store.theme = f"{number:02x}"
        theme(store)
    store.theme = ""
